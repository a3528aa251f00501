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
        let enough = |length: &usize| jobs_taken < 25u64.pow(*length as u32) / 4;
        let length = ID_LENGTHS.clone().find(enough).unwrap_or(*ID_LENGTHS.end());
        loop {
            let id = JobId::from_number(length, self.random() % 25u64.pow(length as u32));
            if RESERVED.binary_search(&id.as_str()).is_err() {
                return id;
            }
        }
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
}
