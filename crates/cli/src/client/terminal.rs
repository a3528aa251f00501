//! The connection to a job's terminal.

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use nexus_api::terminal::{FromShim, LONGEST, PROTOCOL};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};

use super::{Client, encode};
use crate::error::CliError;

/// Both directions, each to be waited for by itself.
pub struct Terminal {
    pub reader: Reader,
    pub writer: Writer,
}

pub struct Reader {
    half: ReadHalf<TokioIo<Upgraded>>,
    arrived: Vec<u8>,
}

pub struct Writer {
    half: WriteHalf<TokioIo<Upgraded>>,
}

impl Client {
    /// Connects to the terminal of a job that runs.
    pub async fn terminal(&self, id: &str) -> Result<Terminal, CliError> {
        let upgraded = self.upgrade(&format!("/v1/jobs/{}/terminal", encode(id)), PROTOCOL).await?;
        let (reader, writer) = split(TokioIo::new(upgraded));
        Ok(Terminal { reader: Reader { half: reader, arrived: Vec::new() }, writer: Writer { half: writer } })
    }
}

impl Reader {
    /// The next frame; none when the connection is over, or of no use.
    pub async fn next(&mut self) -> Option<FromShim> {
        loop {
            if let Some(frame) = FromShim::take_from(&mut self.arrived).ok()? {
                return Some(frame);
            }
            self.arrived.reserve(LONGEST);
            match self.half.read_buf(&mut self.arrived).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
    }
}

impl Writer {
    /// Sends some of the bytes; how many. None when the connection is over.
    pub async fn send(&mut self, bytes: &[u8]) -> Option<usize> {
        self.half.write(bytes).await.ok().filter(|count| *count > 0)
    }
}
