//! A cluster that pretends: the real keeper of its login node, and a Slurm whose answers are late, lost, wrong or repeated.
//!
//! Submissions that timed out arrive after all, or do not; jobs are preempted, requeued, cancelled by others and lost with
//! their nodes; the login node dies between any two things that it does. What runs on compute nodes knows nothing of that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use nexus_api::results::Found;
use nexus_api::run_dir::{Cause, ExitRecord, ExitStatus, FORMAT, RunSpec, Started};
use nexus_core::ids::RunId;
use nexus_core::run::Outcome;
use nexus_core::time::Time;
use nexus_node::slurm::{Batch, Exit, SlurmNews, State, Word};
use nexus_node::{Report, RunPlace};
use nexus_testkit::Chance;

use super::ledger::ToldBy;
use crate::clock;

/// As Slurm numbers it.
pub type Number = (u64, Option<u32>);

/// What the service is called in comments.
pub const SERVICE: &str = "sim";

/// What the node says.
pub enum Said {
    Report(Report),
    News(SlurmNews),
}

/// What happened on compute nodes, for the ledger.
pub enum Truth {
    Begins {
        run: RunId,
        text: String,
    },
    /// `told_by`: who tells of it.
    Ends {
        run: RunId,
        outcome: Outcome,
        told_by: ToldBy,
    },
}

/// A run directory.
#[derive(Default)]
pub struct Dir {
    pub spec: Option<RunSpec>,
    pub claimed: bool,
    pub begun: Option<(Started, Number)>,
    pub record: Option<ExitRecord>,
}

/// A job in Slurm's queue.
pub struct Job {
    pub place: RunPlace,
    pub comment: String,
    pub state: State,
    /// When something happens to it by itself: it starts, ends, or is forgotten.
    pub at: Time,
    pub restarts: u32,
    pub exit: Option<Exit>,
}

/// A process on a compute node, and how it is to end.
pub struct Life {
    pub at: Time,
    pub outcome: Outcome,
    pub number: Number,
    /// Its shim writes the record; one that is killed does not.
    pub records: bool,
    /// Slurm ended it, which its shim does not know.
    pub by_slurm: bool,
    pub is_requeued: bool,
}

/// All that outlives the login node.
pub struct World {
    pub chance: Chance,
    pub now: Time,
    pub faults: bool,
    pub has_accounting: bool,
    pub away_until: Time,
    pub next_job: u64,
    next_pid: u32,
    pub jobs: BTreeMap<Number, Job>,
    /// What Slurm remembers for longer.
    pub books: BTreeMap<Number, Word>,
    pub late: Vec<(Time, Batch)>,
    pub dirs: BTreeMap<PathBuf, Dir>,
    pub living: BTreeMap<RunId, Life>,
    pub kept: BTreeMap<String, Batch>,
    pub news: BTreeSet<RunId>,
    pub said: Vec<Said>,
    pub truths: Vec<Truth>,
    /// So many things more, and the login node dies.
    pub dies_in: Option<u64>,
    pub told: Vec<String>,
}

impl World {
    pub fn new(seed: u64, now: Time, faults: bool) -> World {
        let mut chance = Chance::from_seed(seed ^ 0x51a2);
        World {
            has_accounting: chance.one_in(2),
            chance,
            now,
            faults,
            away_until: now,
            next_job: 10,
            next_pid: 50_000,
            jobs: BTreeMap::new(),
            books: BTreeMap::new(),
            late: Vec::new(),
            dirs: BTreeMap::new(),
            living: BTreeMap::new(),
            kept: BTreeMap::new(),
            news: BTreeSet::new(),
            said: Vec::new(),
            truths: Vec::new(),
            dies_in: None,
            told: Vec::new(),
        }
    }

    pub fn fails(&mut self, one_in: u64) -> bool {
        self.faults && self.chance.one_in(one_in)
    }

    pub fn later(&mut self, most_ms: u64) -> Time {
        self.now.after(Duration::from_millis(self.chance.below(most_ms)))
    }

    pub fn is_away(&self) -> bool {
        self.faults && self.away_until > self.now
    }

    /// Nobody uses it any more: what runs is nobody's.
    pub fn abandon(&mut self) {
        self.living.clear();
        self.jobs.clear();
        self.late.clear();
    }

    /// What happens by itself until now.
    pub fn pass(&mut self) {
        if self.fails(60) {
            self.away_until = self.later(90_000);
            self.told.push("Slurm is away".into());
        }
        let now = self.now;
        for (_, batch) in self.late.extract_if(.., |(at, _)| *at <= now).collect::<Vec<_>>() {
            self.told.push(format!("the submission of {} arrives late", batch.name));
            self.enter(&batch);
        }
        self.mischief();
        self.end_processes();
        let due: Vec<Number> = self.jobs.iter().filter(|(_, job)| job.at <= now).map(|(number, _)| *number).collect();
        for number in due {
            self.step(number);
        }
    }

    pub fn enter(&mut self, batch: &Batch) -> u64 {
        self.next_job += 1 + self.chance.below(3);
        let number = self.next_job;
        for (place, run) in batch.runs.iter().enumerate() {
            let wait = self.chance.pick(&[500, 5_000, 60_000]);
            let job = Job {
                place: run.clone(),
                comment: batch.comment(SERVICE),
                state: State::Pending,
                at: self.later(wait),
                restarts: 0,
                exit: None,
            };
            self.jobs.insert((number, batch.task(place)), job);
        }
        number
    }

    /// The next thing that happens to a job.
    fn step(&mut self, number: Number) {
        let forgotten = self.later(if self.faults { 90_000 } else { 300_000 });
        let Some(job) = self.jobs.get(&number) else { return };
        match job.state {
            State::Pending => self.begin(number),
            // Its process ends it.
            State::Running => {}
            _ if job.state.is_over() => {
                // Its books do not count restarts.
                let word = self.word(number).map(|word| Word { restarts: 0, ..word });
                self.books.extend(word.map(|word| (number, word)));
                self.jobs.remove(&number);
            }
            _ => {
                if let Some(job) = self.jobs.get_mut(&number) {
                    job.at = forgotten;
                }
            }
        }
    }

    /// Slurm starts the batch script, which is the shim: it begins if nobody was first.
    fn begin(&mut self, number: Number) {
        let Some(job) = self.jobs.get(&number) else { return };
        let (run, dir) = (job.place.run, job.place.dir.clone());
        if self.fails(20) {
            // It was given no GPUs.
            return self.over(number, State::Failed, Exit { code: 77, signal: 0 });
        }
        let found = self.dirs.entry(dir).or_default();
        let may_begin = !found.claimed && found.begun.is_none();
        let Some(spec) = found.spec.take_if(|_| may_begin) else {
            let (code, state) = match (may_begin, found.claimed) {
                (true, _) => (75, State::Failed),
                (false, true) => (0, State::Completed),
                (false, false) => (76, State::Failed),
            };
            return self.over(number, state, Exit { code, signal: 0 });
        };
        self.next_pid += 1;
        let started = Started {
            format: FORMAT,
            run: run.to_string(),
            shim_pid: self.next_pid,
            shim_start: 1,
            boot_id: "node".into(),
            pid: self.next_pid,
            started_at_ms: clock::now().0,
            started_ticks: 0,
            grace_ms: Some(spec.grace_ms),
            cgroup: None,
            terminal: None,
            screen: None,
        };
        found.begun = Some((started, number));
        self.told.push(format!("{run} begins as {number:?}"));
        let text = spec.argv.last().expect("a command").clone();
        self.truths.push(Truth::Begins { run, text });
        let longest = self.chance.pick(&[1, 500, 5_000, 60_000]);
        let life = Life {
            at: self.later(longest),
            outcome: super::said::natural_end(&mut self.chance),
            number,
            records: true,
            by_slurm: false,
            is_requeued: false,
        };
        self.living.insert(run, life);
        if let Some(job) = self.jobs.get_mut(&number) {
            job.state = State::Running;
        }
        if !self.fails(3) {
            self.news.insert(run);
        }
    }

    fn over(&mut self, number: Number, state: State, exit: Exit) {
        let at = self.later(if self.faults { 60_000 } else { 300_000 });
        if let Some(job) = self.jobs.get_mut(&number) {
            (job.state, job.exit, job.at) = (state, Some(exit), at);
        }
    }

    /// A process is to end now, in a way that Slurm knows; whatever it would have come to by itself.
    fn cut_short(&mut self, run: RunId, outcome: Outcome, state: State) {
        let records = !self.chance.one_in(3);
        let Some(life) = self.living.get_mut(&run) else { return };
        (life.outcome, life.records, life.by_slurm, life.at) = (outcome, records, true, self.now);
        life.is_requeued = state == State::Requeued;
        let number = life.number;
        let Some(job) = self.jobs.get_mut(&number) else { return };
        if state == State::Requeued {
            (job.state, job.restarts) = (State::Pending, job.restarts + 1);
            let wait = self.later(20_000);
            self.jobs.entry(number).and_modify(|job| job.at = wait);
        } else {
            self.over(number, state, Exit { code: 0, signal: 15 });
        }
    }

    fn mischief(&mut self) {
        if !self.fails(12) {
            return;
        }
        let running: Vec<RunId> = self.living.keys().copied().collect();
        let waiting = self.jobs.iter().filter(|(_, job)| job.state == State::Pending);
        let waiting: Vec<Number> = waiting.map(|(number, _)| *number).collect();
        if let Some(run) = (!running.is_empty()).then(|| self.chance.pick(&running)) {
            let (outcome, state) = match self.chance.below(5) {
                0 => (Outcome::Preempted, State::Preempted),
                1 => (Outcome::Preempted, State::Requeued),
                2 => (Outcome::Lost { error: "its node failed".into() }, State::NodeFail),
                3 => (Outcome::TimedOut { code: None, signal: Some(15) }, State::TimedOut),
                _ => (Outcome::Cancelled { code: None, signal: Some(15) }, State::Cancelled),
            };
            self.told.push(format!("Slurm ends {run}: {state:?}"));
            self.cut_short(run, outcome, state);
        } else if let Some(number) = (!waiting.is_empty()).then(|| self.chance.pick(&waiting)) {
            self.told.push(format!("somebody cancels {number:?}"));
            self.cancel_waiting(number);
        }
    }

    /// A task of an array that waits goes without a word.
    pub fn cancel_waiting(&mut self, number: Number) {
        match number.1 {
            Some(_) => drop(self.jobs.remove(&number)),
            None => self.over(number, State::Cancelled, Exit { code: 0, signal: 0 }),
        }
    }

    fn end_processes(&mut self) {
        let now = self.now;
        for (run, life) in self.living.extract_if(.., |_, life| life.at <= now).collect::<Vec<_>>() {
            self.told.push(format!("{run} ends: {:?}", life.outcome));
            let dir = self
                .dirs
                .values_mut()
                .find(|dir| dir.begun.as_ref().is_some_and(|(begun, _)| begun.run == run.to_string()));
            let dir = dir.expect("it began somewhere");
            let begun_at = dir.begun.as_ref().map(|(started, _)| (started.pid, started.started_at_ms));
            let is_lost = matches!(life.outcome, Outcome::Lost { .. });
            let record = record_of(run, &life.outcome, begun_at.expect("it began"));
            let may_be_forgotten = !self.has_accounting || life.is_requeued;
            let told_by = match (life.records, life.by_slurm && may_be_forgotten) {
                (false, _) => ToldBy::Slurm,
                (true, true) => ToldBy::Both,
                (true, false) => ToldBy::Record,
            };
            let outcome = life.outcome.clone();
            if life.records && !is_lost {
                dir.record = Some(record);
            }
            if life.records && !self.fails(3) {
                self.news.insert(run);
            }
            let code = match life.outcome {
                Outcome::Exited { code } => code,
                _ => 1,
            };
            self.truths.push(Truth::Ends { run, outcome, told_by });
            let state = if code == 0 { State::Completed } else { State::Failed };
            if self.jobs.get(&life.number).is_some_and(|job| job.state == State::Running) {
                self.over(life.number, state, Exit { code, signal: 0 });
            }
        }
    }

    pub fn word(&self, number: Number) -> Option<Word> {
        let job = self.jobs.get(&number)?;
        Some(Word {
            job: number.0,
            task: number.1,
            state: job.state,
            reason: "Resources".into(),
            exit: job.exit,
            nodes: "n1".into(),
            restarts: job.restarts,
            start: None,
            comment: job.comment.clone(),
        })
    }
}

fn record_of(run: RunId, outcome: &Outcome, (pid, started_at_ms): (u32, i64)) -> ExitRecord {
    let (status, cause) = match outcome {
        Outcome::Exited { code } => (ExitStatus::Exited { code: *code }, Cause::Own),
        Outcome::Signaled { signal } => (ExitStatus::Signaled { signal: *signal }, Cause::Own),
        Outcome::TimedOut { .. } => (ExitStatus::Signaled { signal: 15 }, Cause::Timeout),
        // The shim was asked, by whom it does not know.
        _ => (ExitStatus::Signaled { signal: 15 }, Cause::Asked),
    };
    ExitRecord {
        format: FORMAT,
        run: run.to_string(),
        status,
        cause,
        pid: Some(pid),
        started_at_ms: Some(started_at_ms),
        ended_at_ms: clock::now().0,
        lost_output_bytes: 0,
        oom: None,
        found: Found::default(),
    }
}
