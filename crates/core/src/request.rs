//! What a job needs.

use std::fmt;

use crate::ids::{ClassId, MachineId, SweepId};

/// A set of GPU indices of one machine.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuSet([u64; 2]);

/// One more than the largest GPU index that exists.
pub const MAX_GPUS: u16 = 128;

impl GpuSet {
    pub const EMPTY: GpuSet = GpuSet([0; 2]);

    /// Indices of [`MAX_GPUS`] and over are refused by those who read them; here they are a bug.
    pub fn insert(&mut self, index: u16) {
        assert!(index < MAX_GPUS);
        self.0[usize::from(index / 64)] |= 1 << (index % 64);
    }

    pub fn contains(self, index: u16) -> bool {
        index < MAX_GPUS && self.0[usize::from(index / 64)] & (1 << (index % 64)) != 0
    }

    pub fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(self) -> bool {
        self == GpuSet::EMPTY
    }

    pub fn overlaps(self, other: GpuSet) -> bool {
        !self.and(other).is_empty()
    }

    pub fn union(self, other: GpuSet) -> GpuSet {
        GpuSet([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    pub fn and(self, other: GpuSet) -> GpuSet {
        GpuSet([self.0[0] & other.0[0], self.0[1] & other.0[1]])
    }

    pub fn minus(self, other: GpuSet) -> GpuSet {
        GpuSet([self.0[0] & !other.0[0], self.0[1] & !other.0[1]])
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// GPUs it is on at once. 0 = a CPU job.
    pub gpus: u16,
    /// What it takes of each; none = all, held alone.
    pub share: Option<Share>,
    pub cpus: u32,
    /// Memory of the machine; 0 = not counted.
    pub ram_mib: u32,
    /// Only these GPUs, if given.
    pub on: Option<GpuSet>,
    /// Only GPUs of this model, if given.
    pub model: Option<Model>,
    /// May have paused GPUs too.
    pub force: bool,
    /// The machines it may be on.
    pub target: Target,
    /// Its command runs on the service's host, while it holds the machine it is for, all of it.
    pub driver: bool,
    /// The sweep whose limit of jobs at once it counts against.
    pub within: Option<SweepId>,
}

/// The machines that a job may be on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Those of the class that is meant where none is named.
    #[default]
    Default,
    Class(ClassId),
    /// This one, whatever its class.
    Machine(MachineId),
}

impl Target {
    /// Whether a machine of this class is meant.
    pub fn allows(self, machine: MachineId, class: Option<ClassId>) -> bool {
        match self {
            Target::Default => class == Some(ClassId::DEFAULT),
            Target::Class(named) => class == Some(named),
            Target::Machine(named) => machine == named,
        }
    }
}

/// What is taken of a GPU that others may be on too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    /// Thousandths of it; 0 where memory alone is counted.
    pub milli: u16,
    pub vram: Vram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vram {
    /// As much as its part of the GPU.
    Unsaid,
    Mib(u32),
    /// What earlier runs of the same command reached.
    Learned(Same),
}

/// Jobs with the same command have the same: what was learned of one holds for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Same(pub i64);

/// All parts of a GPU.
pub const WHOLE_MILLI: u16 = 1000;

/// More memory is asked for after a run that did not have enough: half as much again as it reached.
const RAISED_BY: (u64, u64) = (3, 2);

/// Memory learned is asked for with a tenth on top: no two runs are quite alike.
const LEARNED_BY: (u64, u64) = (11, 10);

/// What a job asks for instead, after a run that ran out of GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raise {
    /// So much memory of each GPU.
    Mib(u32),
    /// GPUs of its own.
    Alone,
}

/// What is asked for where so much was not enough.
pub fn raised(mib: u32) -> u32 {
    more(mib, RAISED_BY)
}

/// What is asked for where so much was reached before.
pub fn learned(peak_mib: u32) -> u32 {
    more(peak_mib, LEARNED_BY)
}

fn more(mib: u32, (times, of): (u64, u64)) -> u32 {
    u32::try_from((u64::from(mib) * times).div_ceil(of)).unwrap_or(u32::MAX)
}

impl Request {
    /// The same with what was raised since.
    pub fn raised(self, raise: Option<Raise>) -> Request {
        match (raise, self.share) {
            (None, _) | (_, None) => self,
            (Some(Raise::Alone), _) => Request { share: None, ..self },
            (Some(Raise::Mib(mib)), Some(share)) => {
                Request { share: Some(Share { vram: Vram::Mib(mib), ..share }), ..self }
            }
        }
    }
}

/// The name of a GPU model, or a part of it, without regard to the case of letters; several with `|` between.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Model {
    length: u8,
    bytes: [u8; Model::LONGEST],
}

impl Model {
    pub const LONGEST: usize = 63;

    /// None for an empty name or one that is too long.
    pub fn new(name: &str) -> Option<Model> {
        let name = name.to_ascii_lowercase();
        let length = u8::try_from(name.len()).ok().filter(|length| (1..=Model::LONGEST as u8).contains(length))?;
        let mut bytes = [0; Model::LONGEST];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Model { length, bytes })
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("made from text")
    }

    pub fn fits(&self, name: &str) -> bool {
        let contains = |part: &str| {
            name.as_bytes().windows(part.len().max(1)).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
        };
        self.as_str().split('|').any(contains)
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
