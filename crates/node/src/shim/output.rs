//! Keeps what the job prints: two logs, the order in which their bytes came, and a further copy if one was asked
//! for. A write that fails never stops the job; its bytes are counted as lost. The logs never hold bytes that
//! the order does not know: the log is written first, and taken back if its place in the order cannot be.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nexus_api::run_dir::{ORDER, OUT, RunSpec, STDERR, STDOUT};

use super::failure::Failure;
use crate::order::Order;
use crate::run_file;

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

impl Output {
    pub fn open(spec: &RunSpec, dir: &Path) -> Result<Output, Failure> {
        let log = |name| {
            let path = dir.join(name);
            // An earlier attempt of the job may have put anything there.
            let opened = run_file::append(&path);
            let failed = |source| Failure::MachineFile { operation: "create", path, source };
            opened.map(|(file, length)| Log { file, length }).map_err(failed)
        };
        let copy = match (&spec.out, &spec.out_else) {
            (Some(path), Some(otherwise)) => Some(open_own_copy(path, otherwise, dir)?),
            (Some(path), None) => Some(open_copy(&spec.cwd.join(path))?),
            (None, _) => None,
        };
        Ok(Output { stdout: log(STDOUT)?, stderr: log(STDERR)?, order: Order::new(dir.join(ORDER)), copy, lost: 0 })
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
#[expect(clippy::disallowed_methods, reason = "the user may name a pipe or a device, and it is not waited for")]
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
    let (file, path) = match run_file::create_new_to_append(path) {
        Ok(file) => (file, path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (open_copy(otherwise)?, otherwise),
        Err(error) => return Err(fail(path)(error)),
    };
    let link = dir.join(OUT);
    // One of a start that came to nothing.
    let _ = run_file::remove(&link);
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
