//! The GPUs of a machine of the story: they come, fail, vanish and return, and others use them, with memory and load.

use nexus_core::ids::{MachineId, RunId};
use nexus_core::machine::{Gpu, Machine, Obstacle, Shares, Sharing};
use nexus_core::run::Lease;

use crate::chance::Chance;

pub const CPUS: u32 = 4;
pub const RAM_MIB: u64 = 1000;
pub const MOST_GPUS: u16 = 6;

pub const MODELS: [&str; 2] = ["Pretend A", "Pretend B"];

/// Of the card in a slot, which is always the same one.
pub fn memory_mib(index: u16) -> u64 {
    [1024, 1024, 2048, 512, 1024, 4096][usize::from(index)]
}

pub fn model(index: u16) -> &'static str {
    MODELS[usize::from(index % 3 / 2)]
}

pub fn uuid(index: u16) -> String {
    format!("GPU-{index}")
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Card {
    /// Memory that processes of others have.
    others_mib: u64,
    busy: bool,
    obstacle: Option<Obstacle>,
}

pub struct Hardware {
    /// None: no card, or one that vanished.
    slots: Vec<Option<Card>>,
    prefer: Vec<u16>,
    sharing: Sharing,
}

impl Hardware {
    pub fn new(chance: &mut Chance) -> Hardware {
        let count = chance.below(5);
        let slots = (0..u64::from(MOST_GPUS)).map(|index| (index < count).then(Card::default)).collect();
        let prefer = if chance.one_in(3) { vec![chance.below(u64::from(MOST_GPUS)) as u16] } else { vec![] };
        let order = chance.pick(&[Shares::Auto, Shares::Auto, Shares::Pack, Shares::Spread]);
        Hardware { slots, prefer, sharing: Sharing { order, mem_threshold_percent: chance.pick(&[80, 50]) } }
    }

    /// Something happens to one of them.
    pub fn change(&mut self, chance: &mut Chance) -> String {
        let index = chance.below(self.slots.len() as u64) as u16;
        let some = memory_mib(index) * chance.below(5) / 4;
        let obstructed = |obstacle| Some(Card { obstacle: Some(obstacle), ..Card::default() });
        let card = match chance.below(12) {
            0 => None,
            1 => obstructed(Obstacle::Unreadable),
            2..4 => Some(Card { others_mib: some, busy: chance.one_in(2), obstacle: Some(Obstacle::InUse) }),
            4 => obstructed(chance.pick(&[Obstacle::Locked, Obstacle::Mig, Obstacle::LeftOut])),
            // Of processes that count for nothing.
            5 => Some(Card { others_mib: some / 4, ..Card::default() }),
            _ => Some(Card::default()),
        };
        self.slots[usize::from(index)] = card;
        match card {
            None => format!("GPU {index} is not there"),
            Some(Card { others_mib, busy, obstacle }) => {
                format!("GPU {index}: {obstacle:?}, {others_mib} MiB of others, busy {busy}")
            }
        }
    }

    /// All obstacles go.
    pub fn mend(&mut self) {
        self.slots.fill(Some(Card::default()));
    }

    pub fn exists(&self, index: u16) -> bool {
        self.slots.get(usize::from(index)).is_some_and(Option::is_some)
    }

    /// As a reading tells it. `usage`: what living runs have on each of their GPUs.
    pub fn machine(&self, id: MachineId, usage: &[(RunId, Lease, u32)]) -> Machine {
        let gpu = |index: u16| {
            let card = self.slots[usize::from(index)]?;
            let here = usage.iter().filter(|(_, lease, _)| lease.machine == id && !lease.driver);
            let users = here.filter(|(_, lease, mib)| lease.gpus.contains(index) && *mib > 0);
            let used: Vec<_> = users.map(|(run, _, mib)| (run.job, *mib)).collect();
            let ours: u64 = used.iter().map(|(_, mib)| u64::from(*mib)).sum();
            Some(Gpu {
                index,
                uuid: uuid(index),
                name: model(index).into(),
                memory_mib: memory_mib(index),
                free_mib: memory_mib(index).saturating_sub(card.others_mib + ours),
                used,
                busy: card.busy,
                simulated: true,
                obstacle: card.obstacle,
            })
        };
        Machine {
            id,
            name: format!("m{}", id.0),
            reachable: true,
            cpus: CPUS,
            ram_mib: RAM_MIB,
            gpus: (0..MOST_GPUS).filter_map(gpu).collect(),
            prefer: self.prefer.clone(),
            sharing: self.sharing,
            cluster: None,
        }
    }
}
