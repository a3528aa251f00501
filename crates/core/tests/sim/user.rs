//! Users: what they ask for, sensible or not.

use std::time::Duration;

use nexus_core::apply::{Command, Edit, Revision};
use nexus_core::event::{Needs, NewJob, Parent};
use nexus_core::ids::{ClassId, JobId, MachineId, SweepId};
use nexus_core::machine::{SetUp, Standing};
use nexus_core::request::{GpuSet, Model, Request, Same, Share, Target, Vram};
use nexus_core::sweep::InSweep;
use nexus_core::time::Time;

use crate::chance::Chance;
use crate::disk::Disk;
use crate::hardware::MOST_GPUS;

/// With so many live jobs users wait: a short queue meets more of what can happen.
const PATIENCE: usize = 16;

pub struct Users {
    /// Few kinds, so that jobs with equal requests meet.
    kinds: Vec<Request>,
    submitted: u64,
    /// They have more machines than the own host.
    has_pool: bool,
}

impl Users {
    pub fn new(has_pool: bool, chance: &mut Chance) -> Users {
        let kinds = (0..2 + chance.below(6)).map(|_| request(has_pool, chance)).collect();
        Users { kinds, submitted: 0, has_pool }
    }

    /// `machine`: a number for one that may be added.
    pub fn command(&mut self, disk: &Disk, machine: Option<MachineId>, chance: &mut Chance, now: Time) -> Command {
        if self.has_pool && chance.one_in(6) {
            return match chance.one_in(8) {
                true => self.set_up(disk, chance, now),
                false => of_machines(disk, machine, chance),
            };
        }
        match chance.below(49) {
            0..18 if disk.jobs.len() < PATIENCE => {
                Command::Submit((0..1 + chance.below(4)).map(|_| self.job(disk, chance, now)).collect())
            }
            18..22 => Command::Kill(self.some_jobs(disk, chance)),
            22..24 => Command::Remove(self.some_jobs(disk, chance)),
            24..26 => Command::Cancel(self.some_jobs(disk, chance)),
            26..28 => Command::Hold(self.some_jobs(disk, chance)),
            28..32 => Command::Release(self.some_jobs(disk, chance)),
            32..35 => Command::First(self.some_jobs(disk, chance)),
            35 => Command::PauseQueue,
            36..41 => Command::Revise(self.revision(disk, chance, now)),
            41..43 => Command::PauseGpus { machine: MachineId::LOCAL, gpus: some_gpus(chance) },
            43..45 => Command::ResumeGpus { machine: MachineId::LOCAL, gpus: some_gpus(chance) },
            _ => Command::ResumeQueue,
        }
    }

    fn set_up(&self, disk: &Disk, chance: &mut Chance, now: Time) -> Command {
        let known: Vec<MachineId> = disk.all_machines().into_iter().collect();
        let (machine, class) = (chance.pick(&known), ClassId(chance.below(3) as u32));
        let [first, last] = [(); 2].map(|()| self.some_jobs(disk, chance)[0]);
        let begin = chance.one_in(2).then(|| (first, now.after(Duration::from_secs(chance.below(9)))));
        Command::SetUpMachine { machine, set_up: SetUp { class, last }, begin }
    }

    fn revision(&mut self, disk: &Disk, chance: &mut Chance, now: Time) -> Revision {
        let edits = if chance.one_in(2) { self.some_jobs(disk, chance) } else { vec![] };
        let edits = edits.into_iter().map(|job| self.edit(job, disk, chance)).collect();
        let remove = if chance.one_in(6) { self.some_jobs(disk, chance) } else { vec![] };
        let add: Vec<NewJob> = (0..chance.below(3)).map(|_| self.job(disk, chance, now)).collect();
        // Mostly all that wait; sometimes some of them, or one that does not.
        let waiting = disk.jobs.values().filter(|job| job.state.waits()).map(|job| job.id);
        let mut order: Vec<JobId> = waiting.filter(|job| !remove.contains(job)).collect();
        order.extend(add.iter().map(|new| new.id));
        chance.shuffle(&mut order);
        order.truncate(if chance.one_in(3) { 3 } else { usize::MAX });
        if chance.one_in(12) {
            order.extend(self.some_jobs(disk, chance));
        }
        Revision { remove, edits, add, order }
    }

    fn edit(&self, job: JobId, disk: &Disk, chance: &mut Chance) -> Edit {
        let needs = self.needs(disk, chance);
        Edit {
            job,
            needs: chance.one_in(2).then_some(needs),
            priority: chance.pick(&[None, None, Some(-1), Some(1), Some(i32::MIN)]),
            held: chance.pick(&[None, None, None, Some(true), Some(false)]),
        }
    }

    /// Jobs that it comes after are named as they are known, live or not: the service looks what became of them.
    fn needs(&self, disk: &Disk, chance: &mut Chance) -> Needs {
        let request = chance.pick(&self.kinds);
        let same = match request.share {
            Some(Share { vram: Vram::Learned(same), .. }) => same,
            _ => Same(chance.below(3) as i64),
        };
        let parents = if chance.one_in(4) { self.some_jobs(disk, chance) } else { vec![] };
        let after = parents.into_iter().map(|job| Parent { job, any_end: chance.one_in(3) }).collect();
        let (retries, retry_on_timeout) = (chance.pick(&[0, 0, 0, 1, 3]), chance.one_in(2));
        let copies = chance.one_in(3);
        let limit = chance.pick(&[None, None, Some(2), Some(70)]).map(Duration::from_secs);
        Needs { request, same, limit, retries, retry_on_timeout, copies, after, ..Needs::default() }
    }

    fn job(&mut self, disk: &Disk, chance: &mut Chance, now: Time) -> NewJob {
        let needs = self.needs(disk, chance);
        let id = JobId::from_number(3, self.submitted);
        self.submitted += 1;
        NewJob {
            id,
            needs: needs.into(),
            sweep: chance.one_in(3).then(|| sweep(chance)),
            priority: chance.pick(&[0, 0, 0, 0, -1, 1, i32::MIN, i32::MAX]),
            held: chance.one_in(10),
            at: now,
        }
    }

    /// Mostly live ones; sometimes one that ended, or that nobody submitted, or one twice.
    fn some_jobs(&self, disk: &Disk, chance: &mut Chance) -> Vec<JobId> {
        let live: Vec<JobId> = disk.jobs.keys().copied().collect();
        let one = |chance: &mut Chance| match live.is_empty() || chance.one_in(12) {
            true => JobId::from_number(3, chance.below(self.submitted + 3)),
            false => chance.pick(&live),
        };
        (0..1 + chance.below(3)).map(|_| one(chance)).collect()
    }
}

/// Sensible or not, and mostly of machines that are there.
fn of_machines(disk: &Disk, new: Option<MachineId>, chance: &mut Chance) -> Command {
    let known: Vec<MachineId> = disk.all_machines().into_iter().collect();
    let one = |chance: &mut Chance| if chance.one_in(12) { MachineId(7) } else { chance.pick(&known) };
    let some = |chance: &mut Chance| (0..1 + chance.below(2)).map(|_| one(chance)).collect::<Vec<_>>();
    let class = |chance: &mut Chance| chance.pick(&[None, Some(0), Some(0), Some(1), Some(1), Some(2)]).map(ClassId);
    match (chance.below(12), new) {
        (0..4, Some(machine)) => {
            Command::AddMachine { machine, standing: Standing { class: class(chance), ..Standing::default() } }
        }
        (4..6, _) => Command::MoveMachines { machines: some(chance), class: class(chance) },
        (6, _) => Command::PauseMachines { machines: some(chance) },
        (7, _) => Command::AddMachine { machine: chance.pick(&known), standing: Standing::default() },
        (8, _) => Command::RemoveMachine { machine: one(chance), drain: chance.one_in(2), kill: chance.one_in(3) },
        _ => Command::ResumeMachines { machines: some(chance) },
    }
}

fn target(chance: &mut Chance) -> Target {
    match chance.below(8) {
        0 | 1 => Target::Class(ClassId(chance.below(3) as u32)),
        2 => Target::Machine(MachineId(chance.below(4) as u32)),
        _ => Target::Default,
    }
}

fn request(has_pool: bool, chance: &mut Chance) -> Request {
    let gpus = chance.pick(&[0, 1, 1, 1, 2, 2, 3, 4]);
    let cpus = if gpus == 0 { chance.below(4) } else { chance.pick(&[0, 0, 0, 1, 3]) };
    let on: GpuSet = (0..MOST_GPUS).filter(|_| !chance.one_in(3)).collect();
    Request {
        gpus,
        share: if gpus > 0 && chance.one_in(2) { Some(share(chance)) } else { None },
        cpus: cpus as u32,
        ram_mib: chance.pick(&[0, 0, 0, 300, 600, 1001]),
        on: chance.one_in(4).then_some(on),
        model: if chance.one_in(6) { Model::new(chance.pick(&["pretend", "tend a", "B", "none"])) } else { None },
        force: chance.one_in(6),
        target: if has_pool { target(chance) } else { Target::Default },
        driver: has_pool && chance.one_in(6),
        within: None,
    }
}

/// One of a few, each with its own limits.
fn sweep(chance: &mut Chance) -> InSweep {
    let id = chance.below(6) as i64;
    let (max_running, stop_after) = ([None, Some(1), Some(2)][id as usize % 3], [0, 2, 3][id as usize / 2]);
    InSweep { id: SweepId(id), max_running, stop_after }
}

fn share(chance: &mut Chance) -> Share {
    let milli = chance.pick(&[0, 0, 0, 250, 500, 700]);
    let vram = match chance.below(if milli > 0 { 8 } else { 4 }) {
        0 => Vram::Learned(Same(chance.below(3) as i64)),
        1..4 => Vram::Mib(chance.pick(&[1, 100, 300, 600, 1024, 3000])),
        _ => Vram::Unsaid,
    };
    Share { milli, vram }
}

/// One or two; not all of them exist.
fn some_gpus(chance: &mut Chance) -> GpuSet {
    (0..1 + chance.below(2)).map(|_| chance.below(u64::from(MOST_GPUS)) as u16).collect()
}
