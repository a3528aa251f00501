//! Machines of the World: what was read of them, what was decided about them, what runs leave of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Hold, World};
use crate::free::{Closed, Free};
use crate::ids::{JobId, MachineId};
use crate::machine::{Machine, Standing};
use crate::request::{GpuSet, Request, Target};
use crate::streak::Streaks;

impl World {
    /// The same with GPUs that were paused, by machine and UUID.
    pub fn with_paused_gpus(mut self, paused: impl IntoIterator<Item = (MachineId, String)>) -> World {
        self.paused_gpus.extend(paused);
        self
    }

    /// The same with what was decided about machines.
    pub fn with_machines(mut self, machines: impl IntoIterator<Item = (MachineId, Standing)>) -> World {
        for (machine, standing) in machines {
            self.stand(machine, |it| *it = standing);
        }
        self
    }

    /// Those that were read, as they were last.
    pub fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.free.values().map(|free| &*free.machine)
    }

    /// What each machine that was read has left.
    pub fn free(&self) -> &BTreeMap<MachineId, Free> {
        &self.free
    }

    /// What was decided about a machine; of one that nothing was decided about, such as the service's own host, what
    /// holds for all.
    pub fn standing(&self, machine: MachineId) -> Standing {
        self.standings.get(&machine).copied().unwrap_or_default()
    }

    /// Machines that something was decided about.
    pub fn standings(&self) -> impl Iterator<Item = (MachineId, Standing)> {
        self.standings.iter().map(|(machine, standing)| (*machine, *standing))
    }

    /// Whether there is such a machine. The service's own host is always there.
    pub fn has_machine(&self, machine: MachineId) -> bool {
        machine == MachineId::LOCAL || self.standings.contains_key(&machine) || self.free.contains_key(&machine)
    }

    /// Whether there is a line to it. One that was never read has none; the own host needs none.
    pub fn reaches(&self, machine: MachineId) -> bool {
        self.free.get(&machine).map_or(machine == MachineId::LOCAL, |free| free.machine.reachable)
    }

    /// What runs hold of it.
    pub(crate) fn holds(&self, machine: MachineId) -> impl Iterator<Item = (JobId, &Hold)> {
        self.on.get(&machine).into_iter().flatten().map(|(id, hold)| (*id, hold))
    }

    /// Machines on their way out that nothing runs on any more.
    pub(crate) fn left_alone(&self) -> Vec<MachineId> {
        let leaving = self.standings.iter().filter(|(_, standing)| standing.leaving).map(|(machine, _)| *machine);
        leaving.filter(|machine| self.holds(*machine).next().is_none()).collect()
    }

    /// Indices of the paused GPUs that the machine has.
    pub fn paused_gpus(&self, machine: MachineId) -> GpuSet {
        if self.paused_gpus.is_empty() {
            return GpuSet::EMPTY;
        }
        let gpus = self.free.get(&machine).into_iter().flat_map(|free| &free.machine.gpus);
        let paused = |uuid: &String| self.paused_gpus.iter().any(|(on, card)| *on == machine && card == uuid);
        gpus.filter(|gpu| paused(&gpu.uuid)).map(|gpu| gpu.index).collect()
    }

    /// GPUs that are paused, by their cards.
    pub fn paused_cards(&self) -> impl Iterator<Item = (MachineId, String)> {
        self.paused_gpus.iter().cloned()
    }

    /// What the request could have of each of its GPUs, were nobody else there.
    pub(crate) fn most_memory(&self, request: &Request) -> u64 {
        let machines = self.free.values().filter(|free| free.is_meant_by(request.target));
        machines.map(|free| free.whole().most_memory(request)).max().unwrap_or(0)
    }

    /// Machines that a target allows, read or not, and what keeps jobs off each.
    pub(crate) fn meant_by(&self, target: Target) -> impl Iterator<Item = (MachineId, Option<Closed>)> {
        let ids = self.standings.keys().chain(self.free.keys()).copied();
        let ids: BTreeSet<MachineId> = ids.chain([MachineId::LOCAL]).collect();
        let meant = ids.into_iter().map(|machine| (machine, self.standing(machine)));
        let meant = meant.filter(move |(machine, standing)| target.allows(*machine, standing.class));
        meant.map(|(machine, standing)| (machine, Closed::of(&standing, self.reaches(machine))))
    }

    /// How jobs ended on each machine lately.
    pub(crate) fn streaks(&self) -> &Streaks {
        &self.streaks
    }

    pub(super) fn pause_gpu(&mut self, machine: MachineId, uuid: &str, paused: bool) {
        let card = (machine, uuid.to_string());
        match paused {
            true => self.paused_gpus.insert(card),
            false => self.paused_gpus.remove(&card),
        };
        self.look_again(machine);
    }

    /// Something is decided about a machine.
    pub(super) fn stand(&mut self, machine: MachineId, decide: impl FnOnce(&mut Standing)) {
        decide(self.standings.entry(machine).or_default());
        self.look_again(machine);
    }

    /// It gets another chance: what failed there before is forgotten.
    pub(super) fn machine_resumed(&mut self, machine: MachineId) {
        self.stand(machine, |it| (it.paused, it.quarantine) = (false, None));
        self.streaks.forget(machine);
    }

    pub(super) fn machine_removed(&mut self, machine: MachineId) {
        assert!(self.holds(machine).next().is_none(), "{machine:?} is removed, and something runs there");
        self.standings.remove(&machine);
        self.streaks.forget(machine);
        self.paused_gpus.retain(|(on, _)| *on != machine);
        self.on.remove(&machine);
        self.free.remove(&machine);
        self.packing.removed(machine);
    }

    /// The machine as it was read, less what runs hold of it.
    pub(super) fn see(&mut self, machine: Arc<Machine>) {
        let id = machine.id;
        self.free.insert(id, Free::of(machine, self.standing(id), GpuSet::EMPTY));
        self.look_again(id);
    }

    pub(super) fn look_again(&mut self, machine: MachineId) {
        let Some(known) = self.free.get(&machine) else { return };
        let mut free = Free::of(known.machine.clone(), self.standing(machine), self.paused_gpus(machine));
        for (job, hold) in self.holds(machine) {
            free.take(&hold.lease, job);
        }
        self.packing.changed(&free);
        self.free.insert(machine, free);
    }
}
