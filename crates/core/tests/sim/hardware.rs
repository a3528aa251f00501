//! The GPUs of the story: they come, fail, vanish and return, and others use them.

use nexus_core::ids::MachineId;
use nexus_core::machine::{Gpu, Machine, Obstacle};

use crate::chance::Chance;

pub const CPUS: u16 = 4;
pub const MOST_GPUS: u16 = 6;

const MEMORY_MIB: u64 = 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// No card, or one that vanished.
    Empty,
    Fine {
        free_mib: u64,
    },
    Obstructed(Obstacle),
}

pub struct Hardware {
    slots: Vec<Slot>,
    prefer: Vec<u16>,
}

impl Hardware {
    pub fn new(chance: &mut Chance) -> Hardware {
        let count = chance.below(5);
        let slot = |index| if index < count { Slot::Fine { free_mib: MEMORY_MIB } } else { Slot::Empty };
        let slots = (0..u64::from(MOST_GPUS)).map(slot).collect();
        let prefer = if chance.one_in(3) { vec![chance.below(u64::from(MOST_GPUS)) as u16] } else { vec![] };
        Hardware { slots, prefer }
    }

    /// Something happens to one of them.
    pub fn change(&mut self, chance: &mut Chance) -> String {
        let index = chance.below(self.slots.len() as u64) as usize;
        self.slots[index] = match chance.below(10) {
            0 => Slot::Empty,
            1 => Slot::Obstructed(Obstacle::Unreadable),
            2 => Slot::Obstructed(Obstacle::InUse),
            3 => Slot::Obstructed(chance.pick(&[Obstacle::Locked, Obstacle::Mig, Obstacle::LeftOut])),
            _ => Slot::Fine { free_mib: chance.pick(&[0, MEMORY_MIB / 2, MEMORY_MIB]) },
        };
        match self.slots[index] {
            Slot::Empty => format!("GPU {index} is not there"),
            Slot::Fine { free_mib } => format!("GPU {index} is fine, {free_mib} MiB free"),
            Slot::Obstructed(obstacle) => format!("GPU {index}: {obstacle:?}"),
        }
    }

    /// All obstacles go.
    pub fn mend(&mut self) {
        self.slots.fill(Slot::Fine { free_mib: MEMORY_MIB });
    }

    pub fn is_fine(&self, index: u16) -> bool {
        matches!(self.slots.get(usize::from(index)), Some(Slot::Fine { .. }))
    }

    pub fn exists(&self, index: u16) -> bool {
        self.slots.get(usize::from(index)).is_some_and(|slot| *slot != Slot::Empty)
    }

    pub fn uuid(&self, index: u16) -> String {
        format!("GPU-{index}")
    }

    /// As a reading tells it.
    pub fn machine(&self) -> Machine {
        let gpu = |index: u16| {
            let (free_mib, obstacle) = match self.slots[usize::from(index)] {
                Slot::Empty => return None,
                Slot::Fine { free_mib } => (free_mib, None),
                Slot::Obstructed(obstacle) => (0, Some(obstacle)),
            };
            let (uuid, name) = (self.uuid(index), "Pretend".into());
            Some(Gpu {
                index,
                uuid,
                name,
                memory_mib: MEMORY_MIB,
                free_mib,
                simulated: true,
                obstacle,
                ..Gpu::default()
            })
        };
        Machine {
            id: MachineId::LOCAL,
            name: "local".into(),
            cpus: CPUS,
            gpus: (0..MOST_GPUS).filter_map(gpu).collect(),
            prefer: self.prefer.clone(),
            ..Machine::default()
        }
    }
}
