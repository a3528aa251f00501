//! `order.idx`: in which order the bytes of `stdout.log` and `stderr.log` arrived. A magic of eight bytes, then
//! one u32 (little endian) for each stretch of one stream: the top bit is set for stderr, the rest is its length.
//! The last stretch grows in place. The file exists only when both streams have bytes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::run_file;

pub const MAGIC: &[u8; 8] = b"nxorder1";

/// Bytes of one stretch in the file.
pub const RECORD: u64 = 4;

/// An order that is gone on with is no longer: 16 million stretches.
const MOST_BYTES: u64 = 64 << 20;

/// The longest stretch; a longer one is continued by another of the same stream.
pub const LONGEST: u64 = 0x7fff_ffff;

/// Bytes of one stream that arrived without any of the other between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    pub stderr: bool,
    pub length: u64,
}

impl Stretch {
    pub fn to_bytes(self) -> [u8; 4] {
        assert!(self.length <= LONGEST);
        (self.length as u32 | u32::from(self.stderr) << 31).to_le_bytes()
    }

    pub fn from_bytes(bytes: [u8; 4]) -> Stretch {
        let number = u32::from_le_bytes(bytes);
        Stretch { stderr: number >> 31 == 1, length: u64::from(number) & LONGEST }
    }
}

/// As many stretches as `length` bytes of one stream need.
pub fn stretches(stderr: bool, length: u64) -> impl Iterator<Item = Stretch> {
    let whole = length / LONGEST;
    let lengths = std::iter::repeat_n(LONGEST, whole as usize).chain(Some(length % LONGEST).filter(|rest| *rest > 0));
    lengths.map(move |length| Stretch { stderr, length })
}

/// The order as it is written: by the shim of a run, or by who keeps a copy of its logs.
pub enum Order {
    /// Only one stream has bytes so far.
    Unneeded {
        path: PathBuf,
    },
    Kept {
        file: File,
        last_at: u64,
        last: Stretch,
    },
}

impl Order {
    pub fn new(path: PathBuf) -> Order {
        Order::Unneeded { path }
    }

    /// Goes on with what is there, and says how many bytes of each stream it knows. One that cannot be read is removed.
    pub fn reopen(path: PathBuf) -> io::Result<(Order, Option<[u64; 2]>)> {
        let bytes = match run_file::read(&path, MOST_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Order::new(path), None)),
            Err(error) if run_file::unfit(&error).is_some() => Vec::new(),
            read => read?,
        };
        let records = bytes.strip_prefix(MAGIC).unwrap_or_default();
        let (mut totals, mut last) = ([0; 2], None);
        for record in records.chunks_exact(RECORD as usize) {
            let stretch = Stretch::from_bytes([record[0], record[1], record[2], record[3]]);
            totals[usize::from(stretch.stderr)] += stretch.length;
            last = Some(stretch);
        }
        let Some(last) = last else {
            run_file::remove(&path)?;
            return Ok((Order::new(path), None));
        };
        let last_at = MAGIC.len() as u64 + (records.len() as u64 / RECORD - 1) * RECORD;
        let file = run_file::open_to_write(&path)?;
        Ok((Order::Kept { file, last_at, last }, Some(totals)))
    }

    /// Notes `length` more bytes of one stream; the other has `other_length` in all.
    pub fn extend(&mut self, stderr: bool, length: u64, other_length: u64) -> io::Result<()> {
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
        // What the job put in its place is not followed: it may lead to a file that is somebody's.
        run_file::remove_if_there(path)?;
        let file = run_file::create_new(path)?;
        if let Err(error) = file.write_all_at(&bytes, 0) {
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(Order::Kept { file, last_at: bytes.len() as u64 - RECORD, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_read_back() {
        for (stderr, length) in [(false, 0), (true, 1), (false, LONGEST), (true, LONGEST)] {
            let stretch = Stretch { stderr, length };
            assert_eq!(Stretch::from_bytes(stretch.to_bytes()), stretch);
        }
    }

    #[test]
    fn long_output_is_split() {
        let lengths: Vec<u64> = stretches(true, 2 * LONGEST + 5).map(|stretch| stretch.length).collect();
        assert_eq!(lengths, [LONGEST, LONGEST, 5]);
        assert_eq!(stretches(true, LONGEST).count(), 1);
        assert_eq!(stretches(true, 0).count(), 0);
    }
}
