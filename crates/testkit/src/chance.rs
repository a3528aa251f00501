//! Chance from a seed, for tests that stir.

/// SplitMix64.
pub struct Chance(u64);

impl Chance {
    pub fn from_seed(seed: u64) -> Chance {
        Chance(seed)
    }

    /// From the variable, or another one each time. Whoever uses it prints it.
    pub fn seed_from(variable: &str) -> u64 {
        match std::env::var(variable) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text}")),
            Err(_) => {
                let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                since.map_or(1, |since| since.as_nanos() as u64 % 1_000_000)
            }
        }
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to one less than `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}
