//! What the keeper of a login node sees of a cluster that pretends. Each of its calls may be its last.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nexus_api::machines::{SlurmGpus, SlurmPartition};
use nexus_api::run_dir::{ExitRecord, RunSpec};
use nexus_core::ids::RunId;
use nexus_core::run::Outcome;
use nexus_node::inspect::Seen;
use nexus_node::slurm::{Batch, Cancel, Cluster, Site, SlurmNews, State, Submission, Word};
use nexus_node::{Report, RunPlace};

use super::cluster::{Number, Said, World};
use super::park::Killed;
use crate::clock;

#[derive(Clone)]
pub struct PretendSite(pub Arc<Mutex<World>>);

impl PretendSite {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("nobody panics with it in hand")
    }

    /// Each may be the last thing that the login node does.
    fn effect(&self) -> MutexGuard<'_, World> {
        let mut world = self.world();
        if world.dies_in == Some(0) {
            drop(world);
            std::panic::resume_unwind(Box::new(Killed));
        }
        world.dies_in = world.dies_in.map(|left| left - 1);
        world
    }
}

fn broken() -> io::Error {
    io::Error::other("the file system is slow to answer")
}

impl Site for PretendSite {
    fn now(&self) -> Duration {
        Duration::from_millis(self.world().now.0 as u64)
    }

    fn at_ms(&self) -> i64 {
        clock::now().0
    }

    fn submit(&mut self, batch: &Batch) -> Submission {
        let mut world = self.effect();
        let unclear = || Submission::Unclear("it timed out".into());
        if world.is_away() {
            return unclear();
        }
        if world.fails(20) {
            return Submission::Full("no more".into());
        }
        if world.fails(5) {
            // It comes to nothing, or works after all: at once, or late.
            match world.chance.below(3) {
                0 => {}
                1 => drop(world.enter(batch)),
                _ => {
                    let at = world.later(60_000);
                    world.late.push((at, batch.clone()));
                }
            }
            return unclear();
        }
        Submission::Taken(world.enter(batch))
    }

    fn words(&mut self) -> Result<Vec<Word>, String> {
        let mut world = self.effect();
        match world.is_away() || world.fails(10) {
            true => Err("no answer".into()),
            false => Ok(world.jobs.keys().filter_map(|number| world.word(*number)).collect()),
        }
    }

    fn past(&mut self, jobs: &BTreeSet<u64>) -> Result<Vec<Word>, String> {
        let mut world = self.effect();
        match world.is_away() || world.fails(10) {
            true => Err("no answer".into()),
            false if !world.has_accounting => Ok(vec![]),
            false => Ok(world.books.values().filter(|word| jobs.contains(&word.job)).cloned().collect()),
        }
    }

    fn cluster(&mut self) -> Result<Cluster, String> {
        let mut world = self.effect();
        match world.is_away() || world.fails(10) {
            true => Err("no answer".into()),
            false => Ok(cluster()),
        }
    }

    fn cancel(&mut self, jobs: &[Number], how: Cancel) -> Result<(), String> {
        let mut world = self.effect();
        if world.is_away() || world.fails(10) {
            return Err("no answer".into());
        }
        // A whole array where no task is named.
        let wanted = |number: &&Number| {
            jobs.iter().any(|(job, task)| *job == number.0 && task.is_none_or(|_| *task == number.1))
        };
        let numbers: Vec<Number> = world.jobs.keys().filter(wanted).copied().collect();
        for number in numbers {
            let (state, run) = (world.jobs[&number].state, world.jobs[&number].place.run);
            match (state, how) {
                (State::Pending, Cancel::Outright) => world.cancel_waiting(number),
                (State::Running, _) => {
                    let gone = world.later(3_000);
                    let outcome = Outcome::Stopped { code: None, signal: Some(15) };
                    let is_ours = world.living.get(&run).is_some_and(|life| life.number == number);
                    if let Some(life) = world.living.get_mut(&run).filter(|life| is_ours && gone < life.at) {
                        (life.at, life.outcome) = (gone, outcome);
                    }
                }
                _ => {}
            }
        }
        match world.fails(10) {
            true => Err("it worked, and the answer was lost".into()),
            false => Ok(()),
        }
    }

    fn look(&self, dir: &Path) -> io::Result<Seen> {
        let mut world = self.world();
        if world.fails(60) {
            return Err(broken());
        }
        let Some(found) = world.dirs.get(dir) else { return Ok(Seen::NotStarted) };
        Ok(match (&found.record, &found.begun) {
            (Some(record), _) => Seen::Exited(record.clone()),
            (None, Some((started, _))) => Seen::Alive(started.clone()),
            (None, None) if found.claimed => Seen::Claimed,
            (None, None) => Seen::NotStarted,
        })
    }

    fn look_hard(&self, dir: &Path) -> io::Result<Seen> {
        self.look(dir)
    }

    fn begun_by(&self, dir: &Path) -> Option<(u64, Option<u32>, u32)> {
        // Only what was not restarted begins here.
        self.world().dirs.get(dir)?.begun.as_ref().map(|(_, (job, task))| (*job, *task, 0))
    }

    fn claim(&self, dir: &Path) -> io::Result<bool> {
        let mut world = self.effect();
        if world.fails(60) {
            return Err(broken());
        }
        let found = world.dirs.entry(dir.to_owned()).or_default();
        let may = !found.claimed && found.begun.is_none();
        if may {
            (found.claimed, found.spec) = (true, None);
        }
        Ok(may)
    }

    fn write_record(&mut self, dir: &Path, record: &ExitRecord) -> io::Result<()> {
        let mut world = self.effect();
        if world.fails(60) {
            return Err(broken());
        }
        world.dirs.entry(dir.to_owned()).or_default().record = Some(record.clone());
        Ok(())
    }

    /// What Slurm runs as ever is nobody's to end.
    fn fence(&mut self, dir: &Path) {
        let world = self.effect();
        let begun_by = world.dirs.get(dir).and_then(|found| found.begun.as_ref()).map(|(_, number)| *number);
        let job = begun_by.and_then(|number| world.jobs.get(&number));
        assert!(job.is_none_or(|job| job.state != State::Running), "{dir:?} is given up, and Slurm runs it");
    }

    fn lay_out(&self, spec: &RunSpec) -> io::Result<()> {
        let mut world = self.effect();
        if world.fails(60) {
            return Err(broken());
        }
        world.dirs.entry(spec.dir.clone()).or_default().spec = Some(spec.clone());
        Ok(())
    }

    fn is_laid_out(&self, dir: &Path) -> bool {
        self.world().dirs.get(dir).is_some_and(|found| found.spec.is_some())
    }

    fn complaint(&self, _: &str) -> String {
        String::new()
    }

    fn keep(&mut self, batch: &Batch) -> io::Result<()> {
        let mut world = self.effect();
        if world.fails(60) {
            return Err(broken());
        }
        world.kept.insert(batch.name.clone(), batch.clone());
        Ok(())
    }

    fn forget(&mut self, batch: &str) {
        self.effect().kept.remove(batch);
    }

    fn kept(&self) -> io::Result<(Vec<Batch>, bool)> {
        Ok((self.world().kept.values().cloned().collect(), true))
    }

    fn news(&mut self) -> Vec<RunId> {
        std::mem::take(&mut self.world().news).into_iter().collect()
    }

    fn tidy(&mut self, place: RunPlace) {
        let mut world = self.effect();
        assert!(!world.living.contains_key(&place.run), "{} is tidied away while it lives", place.run);
        world.dirs.remove(&place.dir);
        world.said.push(Said::Report(Report::Tidied { run: place.run }));
    }

    fn report(&mut self, report: Report) {
        self.effect().said.push(Said::Report(report));
    }

    fn tell(&mut self, news: SlurmNews) {
        self.effect().said.push(Said::News(news));
    }
}

pub fn cluster() -> Cluster {
    let gpus = vec![SlurmGpus { kind: "x".into(), per_node: 2, total: 4 }];
    let partition = SlurmPartition {
        name: "gpu".into(),
        is_up: true,
        cpus: 8,
        memory_mib: 8192,
        gpus,
        ..SlurmPartition::default()
    };
    Cluster { partitions: vec![partition], max_array: 4, ..Cluster::default() }
}
