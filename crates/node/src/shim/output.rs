//! Keeps what the job prints: two logs, the order in which their bytes came, and a further copy if one was asked
//! for. A write that fails never stops the job; its bytes are counted as lost. The logs never hold bytes that
//! the order does not know: the log is written first, and taken back if its place in the order cannot be.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nexus_api::run_dir::{ORDER, OUT, RunSpec, STDERR, STDOUT};

use super::failure::Failure;
use crate::order::{LONGEST, MAGIC, RECORD, Stretch, stretches};

pub struct Output {
    stdout: Log,
    stderr: Log,
    order: Order,
    copy: Option<File>,
    lost: u64,
}

struct Log {
    file: File,
    length: u64,
}

/// Where the order stands. No file while only one stream has bytes.
enum Order {
    Unneeded { path: PathBuf },
    Kept { file: File, last_at: u64, last: Stretch },
}

impl Output {
    pub fn open(spec: &RunSpec, dir: &Path) -> Result<Output, Failure> {
        let log = |name| {
            let path = dir.join(name);
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
            let file = file.map_err(|source| Failure::MachineFile { operation: "create", path, source })?;
            let length =
                file.metadata().map(|metadata| metadata.len()).map_err(Failure::machine("read a log's length"))?;
            Ok(Log { file, length })
        };
        let copy = match (&spec.out, &spec.out_else) {
            (Some(path), Some(otherwise)) => Some(open_own_copy(path, otherwise, dir)?),
            (Some(path), None) => Some(open_copy(&spec.cwd.join(path))?),
            (None, _) => None,
        };
        Ok(Output {
            stdout: log(STDOUT)?,
            stderr: log(STDERR)?,
            order: Order::Unneeded { path: dir.join(ORDER) },
            copy,
            lost: 0,
        })
    }

    /// Keeps the next bytes of one stream.
    pub fn take(&mut self, stderr: bool, bytes: &[u8]) {
        let other_length = if stderr { self.stdout.length } else { self.stderr.length };
        let log = if stderr { &mut self.stderr } else { &mut self.stdout };
        let kept = write_what_fits(&mut log.file, bytes) as u64;
        self.lost += bytes.len() as u64 - kept;
        if kept > 0 {
            match self.order.extend(stderr, kept, other_length) {
                Ok(()) => log.length += kept,
                Err(_) => {
                    let _ = log.file.set_len(log.length);
                    self.lost += kept;
                }
            }
        }
        if let Some(copy) = &mut self.copy {
            self.lost += (bytes.len() - write_what_fits(copy, bytes)) as u64;
        }
    }

    /// Bytes that are in the logs.
    pub fn kept(&self) -> u64 {
        self.stdout.length + self.stderr.length
    }

    /// Bytes that are missing in a log or in the copy.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// Does not wait for a reader if the copy is a named pipe: the job does not depend on it.
fn open_copy(path: &Path) -> Result<File, Failure> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|source| Failure::Copy { path: path.to_owned(), source })
}

/// A copy that no other run writes to, under the first name if nobody has it, else under the second. A link in the run
/// directory tells which it became.
fn open_own_copy(path: &Path, otherwise: &Path, dir: &Path) -> Result<File, Failure> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| Failure::Copy { path, source }
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fail(folder))?;
    }
    let (file, path) = match OpenOptions::new().append(true).create_new(true).open(path) {
        Ok(file) => (file, path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (open_copy(otherwise)?, otherwise),
        Err(error) => return Err(fail(path)(error)),
    };
    let link = dir.join(OUT);
    // One of a start that came to nothing.
    let _ = std::fs::remove_file(&link);
    let made = std::os::unix::fs::symlink(path, &link);
    made.map_err(|source| Failure::MachineFile { operation: "create", path: link, source })?;
    Ok(file)
}

fn write_what_fits(file: &mut File, bytes: &[u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        match file.write(&bytes[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    done
}

impl Order {
    /// Notes `length` more bytes of one stream; the other has `other_length` in all.
    fn extend(&mut self, stderr: bool, length: u64, other_length: u64) -> io::Result<()> {
        match self {
            Order::Unneeded { .. } if other_length == 0 => Ok(()),
            Order::Unneeded { path } => {
                *self = Order::create(path, stderr, length, other_length)?;
                Ok(())
            }
            Order::Kept { file, last_at, last } => {
                let grown = Stretch { length: last.length + length, ..*last };
                if last.stderr == stderr && grown.length <= LONGEST {
                    file.write_all_at(&grown.to_bytes(), *last_at)?;
                    *last = grown;
                } else {
                    let next = Stretch { stderr, length };
                    let next_at = *last_at + RECORD;
                    file.write_all_at(&next.to_bytes(), next_at)?;
                    (*last, *last_at) = (next, next_at);
                }
                Ok(())
            }
        }
    }

    fn create(path: &Path, stderr: bool, length: u64, other_length: u64) -> io::Result<Order> {
        let last = Stretch { stderr, length };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(stretches(!stderr, other_length).chain([last]).flat_map(Stretch::to_bytes));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        if let Err(error) = file.write_all_at(&bytes, 0) {
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Ok(Order::Kept { file, last_at: bytes.len() as u64 - RECORD, last })
    }
}
