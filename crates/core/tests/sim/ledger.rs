//! What really ran, written by the fake node alone. nexus never sees it; the rules compare with it.

use std::collections::BTreeMap;

use nexus_core::ids::RunId;
use nexus_core::run::{Lease, Outcome};
use nexus_core::time::Time;

use crate::hardware::{CPUS, MOST_GPUS, RAM_MIB, memory_mib};

pub struct Entry {
    /// None: it never became a process.
    pub began: Option<(Time, Lease)>,
    pub ended: Option<(Time, Outcome)>,
    /// Somebody deleted the run's folder, so its end cannot be known.
    pub forgotten: bool,
}

#[derive(Default)]
pub struct Ledger {
    entries: BTreeMap<RunId, Entry>,
}

impl Ledger {
    pub fn get(&self, run: RunId) -> Option<&Entry> {
        self.entries.get(&run)
    }

    pub fn runs(&self) -> impl Iterator<Item = (&RunId, &Entry)> {
        self.entries.iter()
    }

    pub fn alive(&self) -> impl Iterator<Item = (&RunId, &Lease)> {
        let living = self.entries.iter().filter(|(_, entry)| entry.ended.is_none());
        living.filter_map(|(run, entry)| entry.began.as_ref().map(|(_, lease)| (run, lease)))
    }

    /// A process begins.
    pub fn begins(&mut self, run: RunId, lease: Lease, at: Time) {
        let entry = Entry { began: Some((at, lease)), ended: None, forgotten: false };
        assert!(self.entries.insert(run, entry).is_none(), "{run} was started twice");
        let (_, begun) = self.entries[&run].began.as_ref().expect("just begun");
        let beside = self.alive().filter(|(other, lease)| **other != run && lease.machine == begun.machine);
        let beside: Vec<&Lease> = beside.map(|(_, lease)| lease).collect();
        let is_empty = |lease: &Lease| lease.gpus.is_empty() && lease.cpus == 0 && lease.ram_mib == 0;
        // What holds nothing may have been planned before the driver, and begin after it.
        let is_whole = |lease: &Lease| lease.driver && !is_empty(begun) || begun.driver && !is_empty(lease);
        let whole = beside.iter().find(|lease| is_whole(lease));
        assert!(whole.is_none(), "{run} begins with {begun:?}, beside {whole:?}");
        let living: Vec<&Lease> = beside.into_iter().chain([begun]).collect();
        (0..MOST_GPUS).for_each(|index| fits_on(run, index, &living));
        let cpus: u64 = living.iter().map(|lease| u64::from(lease.cpus)).sum();
        let ram: u64 = living.iter().map(|lease| u64::from(lease.ram_mib)).sum();
        assert!(cpus <= u64::from(CPUS), "{run} begins, and {cpus} CPUs are taken");
        assert!(ram <= RAM_MIB, "{run} begins, and {ram} MiB of memory are taken");
    }

    /// Its claim was taken and no process came of it.
    pub fn never_begins(&mut self, run: RunId, outcome: Outcome, at: Time) {
        let entry = Entry { began: None, ended: Some((at, outcome)), forgotten: false };
        assert!(self.entries.insert(run, entry).is_none(), "{run} was claimed twice");
    }

    pub fn ends(&mut self, run: RunId, outcome: Outcome, at: Time) {
        let entry = self.entries.get_mut(&run).expect("only what began ends");
        assert!(entry.ended.is_none(), "{run} ended twice");
        entry.ended = Some((at, outcome));
    }

    pub fn forget(&mut self, run: RunId) {
        self.entries.get_mut(&run).expect("only what began is forgotten").forgotten = true;
    }
}

/// One alone, or several whose parts and memory come to no more than the card has.
fn fits_on(run: RunId, index: u16, living: &[&Lease]) {
    let here: Vec<&&Lease> = living.iter().filter(|lease| lease.gpus.contains(index)).collect();
    let alone = here.iter().filter(|lease| lease.share.is_none()).count();
    assert!(
        alone == 0 || here.len() == 1,
        "{run} begins, and {} live on GPU {index}, {alone} of them alone",
        here.len()
    );
    let shares = || here.iter().filter_map(|lease| lease.share);
    let milli: u64 = shares().map(|share| u64::from(share.milli)).sum();
    assert!(milli <= 1000, "{run} begins, and {milli} thousandths of GPU {index} are taken");
    let memory = memory_mib(index);
    let promised: u64 =
        shares().map(|share| share.vram_mib.map_or(memory * u64::from(share.milli) / 1000, u64::from)).sum();
    assert!(promised <= memory, "{run} begins, and {promised} MiB of GPU {index} are promised, which has {memory}");
}
