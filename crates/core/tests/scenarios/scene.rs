//! One scenario: machines, a disk that never fails, and an engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nexus_core::apply::{self, Command, Edit, Refusal, Report, Revision};
use nexus_core::check::check;
use nexus_core::decide::decide;
use nexus_core::event::{Event, Needs, NewJob, Parent};
use nexus_core::explain::Explainer;
use nexus_core::ids::{JobId, MachineId, RunId, SweepId};
use nexus_core::job::End;
use nexus_core::learned::Learned;
use nexus_core::machine::{Machine, SetUp, Standing};
use nexus_core::policy::Policy;
use nexus_core::reconcile::{Effect, Seen, reconcile};
use nexus_core::request::Same;
use nexus_core::run::Outcome;
use nexus_core::sweep::{Counts, Sweep};
use nexus_core::time::Time;
use nexus_core::world::World;

use crate::{typed, words};

#[derive(Default)]
pub struct Scene {
    world: World,
    seen: Seen,
    now: Time,
    policy: Policy,
    machines: BTreeMap<MachineId, Machine>,
    disk: Disk,
    /// What was asked in the last `Observe` of a run.
    observed: BTreeMap<RunId, bool>,
}

/// What the World does not keep, or loses in a restart.
#[derive(Default)]
struct Disk {
    submitted: i64,
    /// Whether it completed.
    ended: BTreeMap<JobId, bool>,
    specs: BTreeMap<JobId, (Same, Vec<Parent>)>,
    peaks: BTreeMap<RunId, u32>,
    planned: BTreeMap<RunId, Time>,
    learned: BTreeMap<Same, Learned>,
}

impl Disk {
    fn write(&mut self, event: &Event) {
        match event {
            Event::Submitted(new) => {
                self.specs.insert(new.id, (new.needs.same, new.needs.after.clone()));
            }
            Event::Edited { job, needs: Some(needs) } => {
                self.specs.insert(*job, (needs.same, needs.after.clone()));
            }
            Event::Peaked { run, mib } => {
                self.peaks.insert(*run, *mib);
            }
            Event::Planned { run, at, .. } => drop(self.planned.insert(*run, *at)),
            Event::RunEnded { run, outcome, at } => {
                let peak = self.peaks.get(run).copied().unwrap_or(0);
                let took = (*outcome == Outcome::Exited { code: 0 }).then(|| at.since(self.planned[run]));
                if peak > 0 || took.is_some() {
                    self.learned.entry(self.specs[&run.job].0).or_default().add(peak, took);
                }
            }
            Event::JobEnded { job, end, .. } => {
                self.ended.insert(*job, *end == End::Completed);
            }
            _ => {}
        }
    }
}

impl Scene {
    pub fn turn(&mut self, line: &str) -> Vec<String> {
        if line == "why" {
            return self.why();
        }
        let (mut said, mut events) = (Vec::new(), Vec::new());
        for input in line.split(';') {
            match self.apply(input) {
                Ok(made) => events.extend(made),
                Err(refusal) => said.push(words::refusal(refusal)),
            }
        }
        events.extend(decide(&mut self.world, &self.policy, self.now));
        check(&self.world).unwrap_or_else(|broken| panic!("after {line}: {broken}"));
        events.iter().for_each(|event| self.seen.event(event));
        events.iter().for_each(|event| self.disk.write(event));
        said.extend(events.iter().map(|event| words::event(event, self.now)));
        for effect in reconcile(&self.world, &mut self.seen) {
            if let Effect::Observe { run, ran, .. } = effect {
                self.observed.insert(run, ran);
            }
            said.push(words::effect(effect));
        }
        said
    }

    fn apply(&mut self, input: &str) -> Result<Vec<Event>, Refusal> {
        let words: Vec<&str> = input.split_whitespace().collect();
        let (verb, rest) = words.split_first().expect("an input has a word");
        if let Some(command) = self.command(verb, rest) {
            return apply::command(&mut self.world, command, self.now);
        }
        if let Some(report) = self.report(verb, rest) {
            self.seen.report(&report);
            return Ok(apply::report(&mut self.world, report, &self.policy, self.now));
        }
        self.happen(verb, rest);
        Ok(vec![])
    }

    /// What is neither asked nor reported.
    fn happen(&mut self, verb: &str, rest: &[&str]) {
        match verb {
            "wait" => self.now = self.now.after(typed::span(rest[0])),
            "policy" => {
                if let Some(failures) = typed::number(rest, "pause-after-failures") {
                    self.policy.pause_after_failures = failures as u32;
                }
                if let Some(failures) = typed::number(rest, "quarantine-after") {
                    self.policy.quarantine_after = failures as u32;
                }
                if let Some(patience) = typed::value(rest, "patience") {
                    self.policy.patience = typed::span(patience);
                }
            }
            "restart" => self.restart(),
            other => panic!("no such verb: {other}"),
        }
    }

    fn restart(&mut self) {
        let jobs: Vec<_> = self.world.jobs().cloned().collect();
        let paused: Vec<_> = self.world.paused_cards().collect();
        let standings: Vec<_> = self.world.standings().collect();
        let parents: Vec<_> = jobs.iter().map(|job| (job.id, self.disk.specs[&job.id].1.clone())).collect();
        let jobs_in: BTreeSet<SweepId> = jobs.iter().filter_map(|job| job.sweep).collect();
        let world = World::restore(jobs, self.world.queue_pause(), self.disk.submitted);
        let learned = self.disk.learned.iter().map(|(same, mib)| (*same, *mib));
        let sweeps = jobs_in.iter().filter_map(|id| Some((*id, self.world.sweep(*id)?)));
        let sweeps: Vec<_> =
            sweeps.map(|(id, known)| (id, Sweep { counts: Counts::default(), ..known.clone() })).collect();
        let world = world.with_paused_gpus(paused).with_parents(parents).with_learned(learned).with_sweeps(sweeps);
        self.world = world.with_machines(standings);
        self.seen = Seen::default();
        // The lines to the others are yet to be had.
        let own = self.machine(MachineId::LOCAL).clone();
        apply::report(&mut self.world, Report::Machine(own), &self.policy, self.now);
    }

    fn command(&mut self, verb: &str, rest: &[&str]) -> Option<Command> {
        let jobs = || rest.iter().map(|word| word.parse().expect("an id")).collect::<Vec<JobId>>();
        Some(match verb {
            "submit" => {
                self.disk.submitted += 1;
                Command::Submit(vec![self.new_job(rest)])
            }
            "kill" => Command::Kill(jobs()),
            "remove" => Command::Remove(jobs()),
            "cancel" => Command::Cancel(jobs()),
            "hold" => Command::Hold(jobs()),
            "release" => Command::Release(jobs()),
            "first" => Command::First(jobs()),
            "add" => Command::AddMachine {
                machine: typed::machine_id(rest[0])?,
                standing: Standing { class: typed::class(rest), ..Standing::default() },
            },
            "move" => Command::MoveMachines { machines: typed::machine_ids(rest), class: typed::class(rest) },
            "set-up" => Command::SetUpMachine {
                machine: typed::machine_id(rest[0])?,
                set_up: SetUp {
                    class: typed::class(rest)?,
                    last: typed::value(rest, "last").expect("its last job").parse().expect("an id"),
                },
                begin: typed::value(rest, "first").map(|job| {
                    let wait = typed::span(typed::value(rest, "in").expect("when it begins"));
                    (job.parse().expect("an id"), self.now.after(wait))
                }),
            },
            "rm" => Command::RemoveMachine {
                machine: typed::machine_id(rest[0])?,
                drain: rest.contains(&"drain"),
                kill: rest.contains(&"kill"),
            },
            "pause" if !typed::machine_ids(rest).is_empty() => {
                Command::PauseMachines { machines: typed::machine_ids(rest) }
            }
            "resume" if !typed::machine_ids(rest).is_empty() => {
                Command::ResumeMachines { machines: typed::machine_ids(rest) }
            }
            "pause" if rest.is_empty() => Command::PauseQueue,
            "resume" if rest.is_empty() => Command::ResumeQueue,
            "pause" => Command::PauseGpus { machine: MachineId::LOCAL, gpus: typed::indices(rest[0]).collect() },
            "resume" => Command::ResumeGpus { machine: MachineId::LOCAL, gpus: typed::indices(rest[0]).collect() },
            "order" => Command::Revise(Revision { order: jobs(), ..Revision::default() }),
            "edit" => {
                let NewJob { id, needs, priority, .. } = self.new_job(rest);
                let edit = Edit { job: id, needs: Some(Needs::clone(&needs)), priority: Some(priority), held: None };
                Command::Revise(Revision { edits: vec![edit], ..Revision::default() })
            }
            "stop" => Command::Stop { kill: rest == ["kill"] },
            _ => return None,
        })
    }

    /// As a service makes it of what was typed: with what became of the jobs it comes after.
    fn new_job(&self, words: &[&str]) -> NewJob {
        let mut new = typed::new_job(words, self.now);
        let ended = |parent: &Parent| self.world.job(parent.job).is_none();
        let completed = |parent: &Parent| self.disk.ended.get(&parent.job).expect("an ended job");
        let failed = new.needs.after.iter().filter(|parent| ended(parent)).find(|it| !it.any_end && !completed(it));
        let failed = failed.map(|parent| parent.job);
        let needs = Arc::make_mut(&mut new.needs);
        needs.failed_parent = failed;
        needs.after.retain(|parent| !ended(parent));
        new
    }

    fn report(&mut self, verb: &str, rest: &[&str]) -> Option<Report> {
        self.memory_falls_free();
        let mut id = MachineId::LOCAL;
        match verb {
            "machine" => {
                let machine = typed::machine(rest);
                id = machine.id;
                self.machines.insert(id, machine);
            }
            "line" => {
                id = typed::machine_id(rest[0])?;
                self.machine(id).reachable = rest[1] == "back";
            }
            "gpu" => typed::change_gpu(&mut self.machine(id).gpus, rest),
            "used" => self.used(rest),
            "disk" => return Some(Report::Disk { full: rest == ["full"] }),
            _ => return self.report_of_run(verb, rest),
        }
        Some(Report::Machine(self.machine(id).clone()))
    }

    fn report_of_run(&self, verb: &str, rest: &[&str]) -> Option<Report> {
        if verb == "copied" {
            return Some(Report::CopyEnded { job: rest.first()?.parse().ok()? });
        }
        let run: RunId = rest.first()?.parse().ok()?;
        let error = || "an error".to_string();
        let outcome = match verb {
            "started" => return Some(Report::Started { run, pid: 1, at: self.now }),
            "not-started" => return Some(Report::NotStarted { run, ran: self.observed[&run] }),
            "end" => typed::outcome(&rest[1..]),
            "lost" => Outcome::Lost { error: error() },
            "start-error" => Outcome::StartError { error: error(), code: None },
            "gpu-locked" => Outcome::GpuLocked { uuid: format!("GPU-{}", rest.get(1)?), user: None, pid: None },
            "machine-error" => Outcome::MachineError { error: error() },
            _ => return None,
        };
        Some(Report::Ended { run, outcome, at: self.now })
    }

    fn machine(&mut self, id: MachineId) -> &mut Machine {
        self.machines.get_mut(&id).expect("a scenario begins with its machines")
    }

    /// `abc.1 0 512`
    fn used(&mut self, words: &[&str]) {
        let run: RunId = words[0].parse().expect("a run");
        let (index, mib): (u16, u32) = (words[1].parse().expect("a GPU number"), words[2].parse().expect("MiB"));
        let gpu =
            self.machine(MachineId::LOCAL).gpus.iter_mut().find(|gpu| gpu.index == index).expect("a GPU that is there");
        let before = u64::from(gpu.used_by(run.job));
        gpu.used.retain(|(job, _)| *job != run.job);
        gpu.used.push((run.job, mib));
        gpu.free_mib = (gpu.free_mib + before).checked_sub(mib.into()).expect("no more than is free");
    }

    /// A reading has nothing of runs that are gone.
    fn memory_falls_free(&mut self) {
        let running: Vec<JobId> = self.world.active_runs().map(|run| run.id.job).collect();
        for gpu in self.machines.values_mut().flat_map(|machine| &mut machine.gpus) {
            let gone = gpu.used.extract_if(.., |(job, _)| !running.contains(job));
            gpu.free_mib += gone.map(|(_, mib)| u64::from(mib)).sum::<u64>();
        }
    }

    fn why(&self) -> Vec<String> {
        let mut explainer = Explainer::new(&self.world, &self.policy, self.now);
        let waiting = self.world.jobs().filter_map(|job| explainer.job(job.id).map(|why| (job.id, why)));
        waiting.map(|(job, why)| format!("{job}: {}", words::waiting(&why, self.now))).collect()
    }
}
