//! Chance that a seed repeats: the same in every version, since seeds are written down.

use std::collections::BTreeSet;

/// SplitMix64.
pub struct Chance {
    state: u64,
}

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 on, below 1.
    pub fn part(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of 0 to `count` - 1, each as likely.
    pub fn below(&mut self, count: u128) -> u128 {
        assert!(count > 0, "there is nothing to choose from");
        // Those above the last whole multiple would make the first ones likelier.
        let fair = u128::MAX - u128::MAX % count;
        loop {
            let number = u128::from(self.number()) << 64 | u128::from(self.number());
            if number < fair {
                return number % count;
            }
        }
    }

    /// So many different ones of 0 to `count` - 1, in an order of chance.
    pub fn different(&mut self, count: u128, wanted: usize) -> Vec<u128> {
        assert!(wanted as u128 <= count, "there are not as many");
        // By Floyd: as many draws as wanted, however many there are.
        let mut seen = BTreeSet::new();
        let mut chosen = Vec::with_capacity(wanted);
        for last in count - wanted as u128..count {
            let drawn = self.below(last + 1);
            let taken = if seen.insert(drawn) { drawn } else { last };
            seen.insert(taken);
            chosen.push(taken);
        }
        for place in (1..chosen.len()).rev() {
            let other = self.below(place as u128 + 1) as usize;
            chosen.swap(place, other);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut chance = Chance::new(7);
        assert_eq!(chance.number(), 7_191_089_600_892_374_487);
        assert_eq!(Chance::new(7).different(10, 10), [3, 9, 8, 4, 2, 5, 6, 1, 0, 7]);
        let large = [344_517_327_579_261_735_475_057_599_546, 57_778_390_083_880_906_747_551_820_235];
        assert_eq!(Chance::new(7).different(1 << 100, 2), large);
        assert_eq!(Chance::new(7).part(), 0.389_829_748_391_271_5);
    }

    #[test]
    fn different_ones_are_different_and_all_are_reached() {
        for seed in 0..200 {
            for (count, wanted) in [(1, 1), (5, 5), (10, 3), (1000, 999)] {
                let chosen = Chance::new(seed).different(count, wanted);
                let apart: BTreeSet<_> = chosen.iter().collect();
                assert!(apart.len() == wanted && chosen.iter().all(|one| *one < count), "seed {seed}");
            }
        }
        let firsts: BTreeSet<_> = (0..200).map(|seed| Chance::new(seed).different(5, 2)[0]).collect();
        assert_eq!(firsts.len(), 5);
    }
}
