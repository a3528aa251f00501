//! Makes job ids: short letters, from time and chance.

use std::collections::BTreeMap;

use nexus_api::select::RESERVED;
use nexus_core::ids::{ID_LENGTHS, JobId};

use crate::clock;

/// Of so many stretches it is kept which ids are taken: of all with four letters.
const REMEMBERED: usize = 25;

pub struct IdMaker {
    state: u64,
    stretches: BTreeMap<(usize, u64), Taken>,
    last_given: Option<Given>,
}

/// The last ids that many jobs got together.
struct Given {
    /// How many were taken with these.
    jobs_taken: u64,
    one: JobId,
}

impl IdMaker {
    pub fn new() -> IdMaker {
        let mut seed = [0; 8];
        // Without the system's randomness the clock alone must do: ids need to be new, not secret.
        let _ = getrandom::fill(&mut seed);
        IdMaker::from_seed(u64::from_le_bytes(seed) ^ (clock::now().0 as u64).rotate_left(20))
    }

    /// The same ids in the same order, for a story that is to be told again.
    pub fn from_seed(state: u64) -> IdMaker {
        IdMaker { state, stretches: BTreeMap::new(), last_given: None }
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

    /// Forgets which ids are taken, unless all that were since are those it gave. `is_there`: whether a job has that id.
    pub fn catch_up(&mut self, jobs_taken: u64, is_there: impl Fn(JobId) -> bool) {
        let is_it = |given: &Given| given.jobs_taken == jobs_taken && is_there(given.one);
        if !self.last_given.as_ref().is_some_and(is_it) {
            self.stretches.clear();
        }
    }

    pub fn remembers(&self, stretch: &Stretch) -> bool {
        self.stretches.contains_key(&stretch.key())
    }

    /// `taken`: all of the stretch that are, and perhaps others.
    pub fn remember(&mut self, stretch: &Stretch, taken: impl Iterator<Item = JobId>) {
        if self.stretches.len() >= REMEMBERED {
            self.stretches.clear();
        }
        let (begin, end) = stretch.ends();
        let mut of_it = Taken::none_of(stretch.size);
        let reserved = RESERVED.iter().filter_map(|word| word.parse().ok());
        for id in taken.chain(reserved).filter(|id| (begin..=end).contains(id) && id.as_str().len() == stretch.length) {
            of_it.take(id.number() - stretch.first);
        }
        self.stretches.insert(stretch.key(), of_it);
    }

    /// Of a stretch that it remembers; perhaps fewer.
    pub fn some_of(&mut self, stretch: &Stretch, count: usize) -> Vec<JobId> {
        let places: Vec<u64> = (0..count).map(|_| self.random() % stretch.size).collect();
        let taken = self.stretches.get_mut(&stretch.key()).expect("it was remembered");
        let id = |place| JobId::from_number(stretch.length, stretch.first + place);
        places.into_iter().filter(|place| taken.take(*place)).map(id).collect()
    }

    /// These were given to jobs, which makes it so many.
    pub fn gave(&mut self, ids: &[JobId], jobs_taken: u64) {
        self.last_given = ids.first().map(|one| Given { jobs_taken, one: *one });
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

    fn key(&self) -> (usize, u64) {
        (self.length, self.first)
    }
}

/// A bit for each place of a stretch.
struct Taken(Vec<u64>);

impl Taken {
    fn none_of(size: u64) -> Taken {
        Taken(vec![0; size.div_ceil(64) as usize])
    }

    /// Whether it was free.
    fn take(&mut self, place: u64) -> bool {
        let (word, bit) = (&mut self.0[(place / 64) as usize], 1 << (place % 64));
        let was_free = *word & bit == 0;
        *word |= bit;
        was_free
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
            maker.remember(&stretch, [].into_iter());
            let some: BTreeSet<JobId> = maker.some_of(&stretch, 500).into_iter().collect();
            assert!(some.len() > 480, "few come twice: {}", some.len());
            assert!(some.iter().all(|id| (first..=last).contains(id) && !RESERVED.contains(&id.as_str())));
            let more = maker.some_of(&stretch, 500);
            assert!(more.len() > 450 && more.iter().all(|id| !some.contains(id)), "those are taken");
            maker.remember(&stretch, some.iter().copied());
            let more = maker.some_of(&stretch, 500);
            assert!(more.len() > 450 && more.iter().all(|id| !some.contains(id)), "those were taken before");
        }
    }

    #[test]
    fn what_is_taken_is_forgotten_when_others_gave_ids() {
        let mut maker = IdMaker::from_seed(7);
        let stretch = maker.stretch(0);
        maker.remember(&stretch, [].into_iter());
        let ids = maker.some_of(&stretch, 10);
        maker.gave(&ids, 10);
        maker.catch_up(10, |id| ids.contains(&id));
        assert!(maker.remembers(&stretch), "these ten were taken, and no others");
        maker.catch_up(10, |_| false);
        assert!(!maker.remembers(&stretch), "ten others were taken");
        maker.remember(&stretch, [].into_iter());
        maker.catch_up(11, |id| ids.contains(&id));
        assert!(!maker.remembers(&stretch), "and another one");
    }

    #[test]
    fn not_all_stretches_are_remembered() {
        let mut maker = IdMaker::from_seed(7);
        for _ in 0..1_000 {
            let stretch = maker.stretch(1_000_000);
            maker.remember(&stretch, [].into_iter());
            assert!(maker.remembers(&stretch) && maker.stretches.len() <= REMEMBERED);
        }
    }
}
