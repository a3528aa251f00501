//! Names of things. Ids are types, so that a run's report cannot be taken for another's.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Letters a job id is made of: base58's lowercase letters, without the `l` that looks like a one.
pub const ID_LETTERS: &[u8; 25] = b"abcdefghijkmnopqrstuvwxyz";

/// The shortest and the longest id.
pub const ID_LENGTHS: std::ops::RangeInclusive<usize> = 3..=8;

/// A job's short name, three to eight letters. Packed, so that it is copied and compared as a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobId([u8; 8]);

/// Text that is no id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnId(pub String);

impl fmt::Display for NotAnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no id", self.0)
    }
}

impl std::error::Error for NotAnId {}

impl JobId {
    /// Comes before every other.
    pub const FIRST: JobId = JobId([0; 8]);

    /// The id that stands for `number` among those with `length` letters.
    pub fn from_number(length: usize, mut number: u64) -> JobId {
        assert!(ID_LENGTHS.contains(&length));
        let mut letters = [0; 8];
        for slot in letters[..length].iter_mut().rev() {
            *slot = ID_LETTERS[(number % 25) as usize];
            number /= 25;
        }
        JobId(letters)
    }

    /// What it stands for among those of its length.
    pub fn number(&self) -> u64 {
        // The alphabet, but for the one letter that is missing.
        let place = |letter: u8| u64::from(letter - b'a') - u64::from(letter > b'l');
        self.as_str().bytes().fold(0, |number, letter| number * 25 + place(letter))
    }

    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(8);
        std::str::from_utf8(&self.0[..end]).expect("an id holds ASCII letters only")
    }
}

/// As texts, at the cost of numbers.
impl Ord for JobId {
    fn cmp(&self, other: &JobId) -> Ordering {
        u64::from_be_bytes(self.0).cmp(&u64::from_be_bytes(other.0))
    }
}

impl PartialOrd for JobId {
    fn partial_cmp(&self, other: &JobId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for JobId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<JobId, NotAnId> {
        let letters_only = text.bytes().all(|letter| letter.is_ascii_lowercase() && letter != b'l');
        if !letters_only || !ID_LENGTHS.contains(&text.len()) {
            return Err(NotAnId(text.chars().take(40).collect()));
        }
        let mut letters = [0; 8];
        letters[..text.len()].copy_from_slice(text.as_bytes());
        Ok(JobId(letters))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One attempt of a job: `abc.2`. Fences: a report for `abc.1` means nothing once `abc.2` exists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId {
    pub job: JobId,
    /// Counts from 1.
    pub number: u32,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.number)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for RunId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<RunId, NotAnId> {
        let wrong = || NotAnId(text.chars().take(40).collect());
        let (job, number) = text.split_once('.').ok_or_else(wrong)?;
        let number = number.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
        Ok(RunId { job: job.parse()?, number })
    }
}

/// A machine, by its number in this installation. The service's own host is [`MachineId::LOCAL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u32);

impl MachineId {
    pub const LOCAL: MachineId = MachineId(0);
}

/// A class of machines, by its number in this installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    /// Of the machines that jobs go to which name none.
    pub const DEFAULT: ClassId = ClassId(0);
}

/// A sweep, by its number in this installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SweepId(pub i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_letters_without_l() {
        for good in ["abc", "zzz", "abcdefgh"] {
            assert_eq!(good.parse::<JobId>().unwrap().as_str(), good);
        }
        for bad in ["", "ab", "abl", "ab1", "123", "ABC", "abcdefghi", "äbc"] {
            assert!(bad.parse::<JobId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_and_ids_match() {
        assert_eq!(JobId::from_number(3, 0).as_str(), "aaa");
        assert_eq!(JobId::from_number(3, 25 * 25 * 25 - 1).as_str(), "zzz");
        assert_eq!(JobId::from_number(4, 26).as_str(), "aabb");
        assert!((0..25 * 25 * 25).all(|number| JobId::from_number(3, number).number() == number));
    }

    #[test]
    fn runs_read_back() {
        assert_eq!("abc.12".parse::<RunId>().unwrap().to_string(), "abc.12");
        for bad in ["abc", "abc.", "abc.0", "abc.x", ".1"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
