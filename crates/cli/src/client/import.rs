//! Entries of a file: sent line by line, and answered in parts while the rest is on its way.

use hyper::body::Bytes;
use nexus_api::import::{Import, Imported};
use nexus_api::job_file::Entry;
use serde::Serialize;
use tokio::sync::mpsc;

use super::Client;
use super::http::Body;
use crate::error::CliError;

const PATH: &str = "/v1/import/lines";

/// Entries that are written at a time, and such pieces that are on their way.
const IN_A_PIECE: usize = 1_000;
const IN_FLIGHT: usize = 4;

impl Client {
    /// What becomes of them is told part by part. `import`: without entries.
    pub async fn import(
        &self,
        import: &Import,
        parts: &mut dyn Iterator<Item = Vec<Entry>>,
        tell: &mut dyn FnMut(Imported),
    ) -> Result<(), CliError> {
        let (pieces, on_their_way) = mpsc::channel(IN_FLIGHT);
        let answered = async {
            let body = self.post_stream(PATH, on_their_way).await?;
            read(body, tell).await
        };
        let ((), answered) = tokio::join!(write(import, parts, pieces), answered);
        answered
    }
}

/// Until nobody takes it any more: the answer says why.
async fn write(import: &Import, parts: &mut dyn Iterator<Item = Vec<Entry>>, pieces: mpsc::Sender<Bytes>) {
    let mut piece = Vec::new();
    add_line(&mut piece, import);
    for entries in parts {
        for some in entries.chunks(IN_A_PIECE) {
            some.iter().for_each(|entry| add_line(&mut piece, entry));
            if pieces.send(std::mem::take(&mut piece).into()).await.is_err() {
                return;
            }
        }
    }
}

fn add_line(piece: &mut Vec<u8>, what: &impl Serialize) {
    serde_json::to_writer(&mut *piece, what).expect("types of the interface are writable as JSON");
    piece.push(b'\n');
}

async fn read(mut body: Body, tell: &mut dyn FnMut(Imported)) -> Result<(), CliError> {
    let mut unread: Vec<u8> = Vec::new();
    while let Some(bytes) = body.next().await? {
        unread.extend_from_slice(&bytes);
        if !bytes.contains(&b'\n') {
            continue;
        }
        let end = unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        for line in unread[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            tell(serde_json::from_slice(line).map_err(|source| CliError::Answer { path: PATH.into(), source })?);
        }
        unread.drain(..end);
    }
    Ok(())
}
