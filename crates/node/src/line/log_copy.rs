//! The service's copy of what a run printed on another machine. It is written as the shim writes the original, each
//! piece to its log and then to the order, so that whoever reads it sees at every moment what a reader there saw.

use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nexus_api::run_dir::{ORDER, STDERR, STDOUT};

use super::channel::Channel;
use super::frames::invalid;
use crate::order::Order;
use crate::run_file;

/// What stands on the channel: a kind, a length (u32, little endian), as many bytes.
pub(super) const HEAD: usize = 5;

/// Kinds 0 and 1 are bytes of standard output and error.
pub(super) const LEVEL: u8 = 2;

/// Bytes of one stream at once.
pub(super) const LONGEST_PIECE: usize = 32 << 10;

/// A copy of the logs of one run. Only one may write to a folder.
pub struct LogCopy {
    dir: PathBuf,
    logs: [Log; 2],
    order: Order,
}

struct Log {
    file: File,
    length: u64,
}

impl LogCopy {
    /// Goes on with the copy that is there, or makes one. What an earlier one did not finish is cut off.
    pub fn open(dir: &Path) -> io::Result<LogCopy> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(failed("create", dir))?;
        let log = |name: &str| {
            let path = dir.join(name);
            run_file::append(&path).map(|(file, length)| Log { file, length }).map_err(failed("open", &path))
        };
        let mut logs = [log(STDOUT)?, log(STDERR)?];
        let path = dir.join(ORDER);
        let (mut order, totals) = Order::reopen(path.clone()).map_err(failed("read", &path))?;
        let lengths = [logs[0].length, logs[1].length];
        let keep = match totals {
            Some(totals) if totals.iter().zip(lengths).all(|(known, there)| *known <= there) => totals,
            // Somebody cut a log.
            Some(_) => {
                run_file::remove(&path).map_err(failed("remove", &path))?;
                order = Order::new(path);
                [0; 2]
            }
            // In what order these came nobody wrote down.
            None if lengths.iter().all(|length| *length > 0) => [0; 2],
            None => lengths,
        };
        for (log, keep) in logs.iter_mut().zip(keep) {
            log.file.set_len(keep).map_err(failed("cut the logs in", dir))?;
            log.length = keep;
        }
        Ok(LogCopy { dir: dir.to_owned(), logs, order })
    }

    /// How much it has of standard output and error.
    pub fn had(&self) -> [u64; 2] {
        [self.logs[0].length, self.logs[1].length]
    }

    /// Takes what comes on a channel of [`super::Stream::Logs`], until its end. `level` is called once it has all that
    /// was there when the stream began. An error of the line is of kind `ConnectionAborted`; the copy is whole in any
    /// case.
    pub fn keep_up(&mut self, channel: &Channel, mut level: impl FnMut()) -> io::Result<()> {
        let mut from = BufReader::new(channel);
        let mut piece = Vec::new();
        loop {
            let mut head = [0; HEAD];
            if from.read(&mut head[..1])? == 0 {
                return Ok(());
            }
            from.read_exact(&mut head[1..])?;
            let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
            match head[0] {
                LEVEL => level(),
                kind @ (0 | 1) if length <= LONGEST_PIECE => {
                    piece.resize(length, 0);
                    from.read_exact(&mut piece)?;
                    self.take(kind == 1, &piece)?;
                }
                kind => return Err(invalid(format!("a piece of a log of kind {kind} and {length} bytes"))),
            }
        }
    }

    /// All of it is on the disk when this returns.
    pub fn sync(&self) -> io::Result<()> {
        let order = self.dir.join(ORDER);
        for log in &self.logs {
            log.file.sync_all().map_err(failed("sync the logs in", &self.dir))?;
        }
        if let Some(order_file) = run_file::open_if_there(&order).map_err(failed("open", &order))? {
            order_file.sync_all().map_err(failed("sync", &order))?;
        }
        run_file::folder(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed("sync", &self.dir))
    }

    fn take(&mut self, stderr: bool, bytes: &[u8]) -> io::Result<()> {
        let other = self.logs[usize::from(!stderr)].length;
        let log = &mut self.logs[usize::from(stderr)];
        let more = bytes.len() as u64;
        let kept = log.file.write_all(bytes).and_then(|()| self.order.extend(stderr, more, other));
        if let Err(error) = kept {
            // As the shim has it: no log has bytes that the order does not know.
            let _ = log.file.set_len(log.length);
            return Err(failed("write the logs in", &self.dir)(error));
        }
        log.length += more;
        Ok(())
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error + use<> {
    let path = path.to_owned();
    move |error| io::Error::new(error.kind(), format!("failed to {operation} {}: {error}", path.display()))
}
