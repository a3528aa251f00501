//! Jobs by a number that those have in common which are alike in something, and hardly any others: a hash. Mostly each job
//! has its own, and a hundred thousand that come at once are put in and found at the cost of a few lookups each.
#![expect(clippy::disallowed_types, reason = "what hashes as it is has one order in every run")]

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::ids::JobId;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alike {
    /// The first of each.
    one: HashMap<i64, JobId, BuildHasherDefault<AsItIs>>,
    others: BTreeSet<(i64, JobId)>,
}

impl Alike {
    pub fn add(&mut self, number: i64, job: JobId) {
        match self.one.entry(number) {
            Entry::Vacant(free) => drop(free.insert(job)),
            Entry::Occupied(mut first) => {
                let other = if job < *first.get() { first.insert(job) } else { job };
                if other != *first.get() {
                    self.others.insert((number, other));
                }
            }
        }
    }

    pub fn remove(&mut self, number: i64, job: JobId) {
        if self.one.get(&number) != Some(&job) {
            self.others.remove(&(number, job));
            return;
        }
        let next = self.others_of(number).next();
        match next {
            Some(next) => {
                self.others.remove(&(number, next));
                self.one.insert(number, next);
            }
            None => drop(self.one.remove(&number)),
        }
    }

    pub fn has(&self, number: i64) -> bool {
        self.one.contains_key(&number)
    }

    pub fn of(&self, number: i64) -> impl Iterator<Item = JobId> {
        self.one.get(&number).copied().into_iter().chain(self.others_of(number))
    }

    /// In no order.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.one.values().copied().chain(self.others.iter().map(|(_, job)| *job))
    }

    fn others_of(&self, number: i64) -> impl Iterator<Item = JobId> {
        let from = self.others.range((number, JobId::FIRST)..);
        from.take_while(move |(other, _)| *other == number).map(|(_, job)| *job)
    }
}

/// The hash of what is one.
#[derive(Clone, Copy, Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("it is a number")
    }

    fn write_i64(&mut self, number: i64) {
        self.0 = number.cast_unsigned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_one_number_come_and_go_by_themselves() {
        let job = |number| JobId::from_number(3, number);
        let mut alike = Alike::default();
        for (number, its) in [(7, 1), (7, 2), (7, 3), (8, 4), (7, 2)] {
            alike.add(number, job(its));
        }
        let of = |alike: &Alike, number| alike.of(number).collect::<BTreeSet<_>>();
        assert_eq!(of(&alike, 7), [job(1), job(2), job(3)].into());
        assert_eq!(alike.jobs().count(), 4);
        let mut backwards = Alike::default();
        [3, 2, 1].into_iter().for_each(|its| backwards.add(7, job(its)));
        backwards.add(8, job(4));
        assert_eq!(alike, backwards, "in whatever order they come");
        // The first of them, one of the others, one that is not there.
        for gone in [1, 3, 9] {
            alike.remove(7, job(gone));
        }
        assert_eq!(of(&alike, 7), [job(2)].into());
        alike.remove(8, job(2));
        assert!(alike.has(8), "that was another's");
        alike.remove(7, job(2));
        alike.remove(8, job(4));
        assert_eq!(alike, Alike::default());
    }
}
