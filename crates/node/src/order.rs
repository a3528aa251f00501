//! `order.idx`: in which order the bytes of `stdout.log` and `stderr.log` arrived. A magic of eight bytes, then
//! one u32 (little endian) for each stretch of one stream: the top bit is set for stderr, the rest is its length.
//! The last stretch grows in place. The file exists only when both streams have bytes.

pub const MAGIC: &[u8; 8] = b"nxorder1";

/// Bytes of one stretch in the file.
pub const RECORD: u64 = 4;

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
