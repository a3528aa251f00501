//! What a job needs.

use std::fmt;

/// A set of GPU indices of one machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuSet(u128);

/// One more than the largest GPU index that exists.
pub const MAX_GPUS: u16 = 128;

impl GpuSet {
    pub const EMPTY: GpuSet = GpuSet(0);

    /// Indices of [`MAX_GPUS`] and over are refused by those who read them; here they are a bug.
    pub fn insert(&mut self, index: u16) {
        assert!(index < MAX_GPUS);
        self.0 |= 1 << index;
    }

    pub fn contains(self, index: u16) -> bool {
        index < MAX_GPUS && self.0 & (1 << index) != 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn overlaps(self, other: GpuSet) -> bool {
        self.0 & other.0 != 0
    }

    pub fn union(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 | other.0)
    }

    pub fn and(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & other.0)
    }

    pub fn minus(self, other: GpuSet) -> GpuSet {
        GpuSet(self.0 & !other.0)
    }

    /// Lowest first.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        (0..MAX_GPUS).filter(move |index| self.contains(*index))
    }
}

impl FromIterator<u16> for GpuSet {
    fn from_iter<I: IntoIterator<Item = u16>>(indices: I) -> GpuSet {
        let mut set = GpuSet::EMPTY;
        for index in indices {
            set.insert(index);
        }
        set
    }
}

impl fmt::Display for GpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.iter().map(|index| index.to_string()).collect();
        f.write_str(&texts.join(","))
    }
}

impl fmt::Debug for GpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}

/// What a job needs. Jobs with equal requests share one answer in a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Whole GPUs, held alone. 0 = a CPU job.
    pub gpus: u16,
    pub cpus: u16,
    /// Only these GPUs, if given.
    pub on: Option<GpuSet>,
    /// May have paused GPUs too.
    pub force: bool,
}
