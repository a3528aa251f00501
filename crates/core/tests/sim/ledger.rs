//! What really ran, written by the fake node alone. nexus never sees it; the rules compare with it.

use std::collections::BTreeMap;

use nexus_core::ids::RunId;
use nexus_core::run::{Lease, Outcome};
use nexus_core::time::Time;

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
        for (other, taken) in self.alive() {
            let shared = taken.machine == lease.machine && taken.gpus.overlaps(lease.gpus);
            assert!(!shared, "{run} begins on GPUs {} while {other} lives on GPUs {}", lease.gpus, taken.gpus);
        }
        let entry = Entry { began: Some((at, lease)), ended: None, forgotten: false };
        assert!(self.entries.insert(run, entry).is_none(), "{run} was started twice");
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
