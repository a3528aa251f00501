//! Makes job ids: short letters, from time and chance.

use nexus_api::select::RESERVED;
use nexus_core::ids::{ID_LENGTHS, JobId};

use crate::clock;

pub struct IdMaker {
    state: u64,
}

impl IdMaker {
    pub fn new() -> IdMaker {
        let mut seed = [0; 8];
        // Without the system's randomness the clock alone must do: ids need to be new, not secret.
        let _ = getrandom::fill(&mut seed);
        IdMaker { state: u64::from_le_bytes(seed) ^ (clock::now().0 as u64).rotate_left(20) }
    }

    /// The same ids in the same order, for a story that is to be told again.
    #[cfg(test)]
    pub fn from_seed(state: u64) -> IdMaker {
        IdMaker { state }
    }

    /// An id, which may be some job's already. Grows longer when a quarter of the shorter ones is used up.
    pub fn next(&mut self, jobs_taken: u64) -> JobId {
        let length = length(jobs_taken);
        loop {
            let id = JobId::from_number(length, self.random() % 25u64.pow(length as u32));
            if RESERVED.binary_search(&id.as_str()).is_err() {
                return id;
            }
        }
    }

    /// Where many find room beside each other: a stretch of ids, chosen by chance, and how many of it may be taken
    /// at once. Few of many, so that a slip of the finger seldom names another job of the same file.
    pub fn stretch(&mut self, jobs_taken: u64) -> Stretch {
        let length = length(jobs_taken);
        let size = 25u64.pow(3.min(length as u32));
        let first = self.random() % (25u64.pow(length as u32) / size) * size;
        let left = (25u64.pow(length as u32) / 4).saturating_sub(jobs_taken).max(1);
        Stretch { length, first, size, at_once: (size / 8).min(left) as usize }
    }

    /// Of a stretch, where these are taken; perhaps fewer.
    pub fn some_of(&mut self, stretch: &Stretch, taken: impl Iterator<Item = JobId>, count: usize) -> Vec<JobId> {
        let Stretch { length, first, size, .. } = *stretch;
        let (begin, end) = stretch.ends();
        let mut is_taken = vec![false; size as usize];
        let reserved = RESERVED.iter().filter_map(|word| word.parse().ok());
        for id in taken.chain(reserved).filter(|id| (begin..=end).contains(id) && id.as_str().len() == length) {
            is_taken[(id.number() - first) as usize] = true;
        }
        let mut one = |_| {
            let place = self.random() % size;
            let is_new = !std::mem::replace(&mut is_taken[place as usize], true);
            is_new.then(|| JobId::from_number(length, first + place))
        };
        (0..count).filter_map(&mut one).collect()
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Ids that stand beside each other, in the order of their texts.
pub struct Stretch {
    length: usize,
    first: u64,
    size: u64,
    pub at_once: usize,
}

impl Stretch {
    pub fn ends(&self) -> (JobId, JobId) {
        let id = |number| JobId::from_number(self.length, number);
        (id(self.first), id(self.first + self.size - 1))
    }
}

fn length(jobs_taken: u64) -> usize {
    let enough = |length: &usize| jobs_taken < 25u64.pow(*length as u32) / 4;
    ID_LENGTHS.clone().find(enough).unwrap_or(*ID_LENGTHS.end())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_grow_with_the_space() {
        let mut maker = IdMaker::new();
        let mut used = BTreeSet::new();
        for number in 0..20_000 {
            let id = maker.next(number);
            used.insert(id);
            assert!(!RESERVED.contains(&id.as_str()));
            let expected = if number < 3906 { 3 } else { 4 };
            assert_eq!(id.as_str().len(), expected, "after {number} jobs");
        }
        assert!(used.len() > 19_000, "few come twice");
    }

    #[test]
    fn a_stretch_has_ids_between_its_ends_that_grow_with_the_space() {
        let mut maker = IdMaker::from_seed(7);
        for (taken, length, at_once) in [(0, 3, 1_953), (3_900, 3, 6), (3_906, 4, 1_953), (1_000_000, 5, 1_953)] {
            let stretch = maker.stretch(taken);
            let (first, last) = stretch.ends();
            assert_eq!((first.as_str().len(), stretch.at_once), (length, at_once), "after {taken} jobs");
            let some: BTreeSet<JobId> = maker.some_of(&stretch, [].into_iter(), 500).into_iter().collect();
            assert!(some.len() > 480, "few come twice: {}", some.len());
            assert!(some.iter().all(|id| (first..=last).contains(id) && !RESERVED.contains(&id.as_str())));
            let more = maker.some_of(&stretch, some.iter().copied(), 500);
            assert!(more.len() > 450 && more.iter().all(|id| !some.contains(id)), "those are taken");
        }
    }
}
