//! All that is known of runs in Slurm's hands, and what is done about them. It does nothing by itself: [`Site`] has the
//! programs, the files and the clock, and the simulation has another.
//!
//! ```text
//!   Waiting ── keep(batch), sbatch ──┬ taken ──> numbered ── squeue ──> over ──┐
//!       ^                            ├ unclear: looked for by its comment ─────┤
//!       └── full, or unclear and ────┘                                        v
//!           not there after a while        news, or over ──> the run directory tells the end
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_api::run_dir::RunSpec;
use nexus_core::ids::RunId;

use super::batch::Batch;
use super::judge::Verdict;
use super::shape::Shape;
use super::site::{Cancel, Site};
use super::words::{SlurmNews, Told};
use crate::inspect::Seen;
use crate::words::{Report, RunPlace};

/// Starts wait this long for company: those that come one by one go out together.
pub(super) const COMPANY: Duration = Duration::from_millis(300);

/// One that is asked to end gets its grace and this, then Slurm ends it.
const STOP_SPARE: Duration = Duration::from_secs(15);
const STOP_AGAIN: Duration = Duration::from_secs(30);

/// What the service asks.
#[derive(Debug)]
pub enum Ask {
    Start(Vec<RunSpec>),
    Observe(Vec<RunPlace>),
    Stop(Vec<RunPlace>),
    Clear(Vec<RunPlace>),
}

pub struct Keeper<S: Site> {
    pub site: S,
    pub(super) service: String,
    pub(super) runs: BTreeMap<RunId, Entry>,
    pub(super) batches: BTreeMap<String, Kept>,
    pub(super) cancels: BTreeMap<(u64, Option<u32>), Cancel>,
    /// All batches could be read: a job of ours that is in none of them is nobody's.
    pub(super) knows_all: bool,
    pub(super) gather_until: Option<Duration>,
    pub(super) not_before: Duration,
    /// Runs that go out in one array.
    pub(super) chunk: usize,
    pub(super) max_array: usize,
    turns: u64,
    /// At what an earlier node left.
    has_looked: bool,
    pub(super) pace: Pace,
    /// Slurm is told no ends before.
    pub(super) cancel_at: Duration,
    pub(super) changed: BTreeMap<RunId, Told>,
}

pub(super) struct Pace {
    pub last: Option<Duration>,
    pub took: Duration,
    /// Somebody waits for an answer.
    pub soon: bool,
    pub failures: u32,
    pub away: bool,
    /// What the cluster has was read once.
    pub is_known: bool,
    pub cluster_at: Option<Duration>,
}

pub(super) struct Kept {
    pub batch: Batch,
    /// When it was submitted without an answer.
    pub unclear: Option<Duration>,
    /// How often it was submitted.
    pub sent: u32,
}

pub(super) struct Entry {
    pub dir: PathBuf,
    pub stage: Stage,
    /// It was submitted so often and given no GPUs.
    pub in_vain: u32,
    /// They are submitted in the order in which they were to start.
    pub turn: u64,
    /// Slurm's number.
    pub number: Option<(u64, Option<u32>)>,
    /// The service has named it since this node began: it has not given it up.
    pub asked: bool,
    pub begun: bool,
    pub ended: bool,
    pub grace: Duration,
    pub stopping: Option<Stopping>,
    /// The shim's record waits for Slurm's word since then.
    pub record_since: Option<Duration>,
    pub verdict: Option<(Verdict, Duration)>,
    /// So many answers of Slurm did not have it.
    pub missing: u32,
    pub was_seen: bool,
    /// To be removed when Slurm is done with it.
    pub clear: bool,
    pub claimed: bool,
    pub fenced: bool,
    /// Its directory could not be read: it is looked at again.
    pub unread: bool,
    pub told: Option<Told>,
}

#[derive(Clone, Debug)]
pub(super) enum Stage {
    Waiting(Shape),
    Sent(String),
    /// Found by its run directory alone.
    Found,
}

pub(super) struct Stopping {
    /// When Slurm is told to end it outright.
    hard_at: Duration,
}

impl Entry {
    pub fn new(dir: PathBuf, stage: Stage) -> Entry {
        Entry {
            dir,
            stage,
            in_vain: 0,
            turn: 0,
            number: None,
            asked: false,
            begun: false,
            ended: false,
            grace: Duration::from_secs(30),
            stopping: None,
            record_since: None,
            verdict: None,
            missing: 0,
            was_seen: false,
            clear: false,
            claimed: false,
            fenced: false,
            unread: false,
            told: None,
        }
    }

    /// Whether anything of it is still to come from Slurm.
    pub fn is_open(&self) -> bool {
        let is_sent = !matches!(self.stage, Stage::Waiting(_));
        is_sent && (!self.ended || self.clear && self.verdict.is_none())
    }

    /// Whether Slurm has nothing of it.
    pub fn is_out(&self) -> bool {
        self.verdict.is_some() || self.number.is_none() && !matches!(self.stage, Stage::Sent(_))
    }
}

impl<S: Site> Keeper<S> {
    /// With what an earlier node left.
    pub fn open(site: S, service: String) -> io::Result<Keeper<S>> {
        let (mut kept, knows_all) = site.kept()?;
        let now = site.now();
        let pace = Pace {
            last: None,
            took: Duration::ZERO,
            soon: false,
            failures: 0,
            away: false,
            is_known: false,
            cluster_at: None,
        };
        let mut keeper = Keeper {
            site,
            service,
            runs: BTreeMap::new(),
            batches: BTreeMap::new(),
            cancels: BTreeMap::new(),
            knows_all,
            gather_until: None,
            not_before: Duration::ZERO,
            chunk: 1,
            max_array: 1,
            has_looked: false,
            turns: 0,
            pace,
            cancel_at: Duration::ZERO,
            changed: BTreeMap::new(),
        };
        // A run that was submitted again is in two: the later counts.
        kept.sort_by_cached_key(|batch| batch.name.rsplit('-').next().and_then(|at| u64::from_str_radix(at, 16).ok()));
        for batch in kept {
            keeper.adopt(batch, now);
        }
        Ok(keeper)
    }

    fn adopt(&mut self, batch: Batch, now: Duration) {
        // Of what was cleared neither spec nor marker is left.
        let is_cleared =
            |dir: &Path| matches!(self.site.look(dir), Ok(Seen::NotStarted)) && !self.site.is_laid_out(dir);
        let left: Vec<usize> = (0..batch.runs.len()).filter(|place| !is_cleared(&batch.runs[*place].dir)).collect();
        if left.is_empty() {
            return self.site.forget(&batch.name);
        }
        for place in left {
            let run = &batch.runs[place];
            let mut entry = Entry::new(run.dir.clone(), Stage::Sent(batch.name.clone()));
            entry.number = batch.job.map(|job| (job, batch.task(place)));
            entry.grace = entry.grace.max(Duration::from_millis(batch.grace_ms));
            self.runs.insert(run.run, entry);
        }
        // Nobody knows whether its sbatch was ever called.
        let unclear = batch.job.is_none().then_some(now);
        self.batches.insert(batch.name.clone(), Kept { batch, unclear, sent: 0 });
    }

    /// Takes what is asked, and does all that is due.
    pub fn turn(&mut self, asked: Vec<Ask>) {
        for ask in asked {
            self.take(ask);
        }
        for run in self.site.news() {
            self.settle(run);
        }
        if !std::mem::replace(&mut self.has_looked, true) {
            self.runs.keys().copied().collect::<Vec<_>>().into_iter().for_each(|run| self.settle(run));
        }
        self.submit();
        self.query();
        self.settle_due();
        self.stop_harder();
        self.cancel();
        self.clear();
        if !self.changed.is_empty() {
            let told = std::mem::take(&mut self.changed).into_values().collect();
            self.site.tell(SlurmNews::Jobs(told));
        }
    }

    /// How long nothing may be asked before there is something to do; none where only the service can tell.
    pub fn patience(&self) -> Option<Duration> {
        let now = self.site.now();
        let until = |at: Duration| at.saturating_sub(now);
        let may_submit = self.pace.is_known && !self.pace.away;
        let gather = self.gather_until.filter(|_| may_submit).map(|at| until(at.max(self.not_before)));
        let query = self.query_at().map(until);
        let stopping = self.runs.values().filter(|entry| !entry.ended).filter_map(|entry| entry.stopping.as_ref());
        let stop = stopping.map(|it| until(it.hard_at)).min();
        [gather, query, stop].into_iter().flatten().min()
    }

    /// Whether nothing of a batch matters to anybody any more.
    pub(super) fn is_done_with(&self, batch: &str) -> bool {
        let of_batch = |entry: &&Entry| matches!(&entry.stage, Stage::Sent(name) if name == batch);
        self.runs.values().filter(of_batch).all(|entry| entry.ended || entry.clear)
    }

    /// Whether the service still wants a run of a batch.
    pub(super) fn is_asked(&self, batch: &str) -> bool {
        let of_batch = |entry: &&Entry| matches!(&entry.stage, Stage::Sent(name) if name == batch);
        self.runs.values().filter(of_batch).any(|entry| entry.asked && !entry.ended)
    }

    /// Whether shims may have something to say.
    pub fn listens(&self) -> bool {
        self.runs.values().any(|entry| !entry.ended)
    }

    fn take(&mut self, ask: Ask) {
        match ask {
            Ask::Start(specs) => specs.into_iter().for_each(|spec| self.start(spec)),
            Ask::Observe(places) => places.into_iter().for_each(|place| self.observe(place)),
            Ask::Stop(places) => places.into_iter().for_each(|place| self.stop(place)),
            Ask::Clear(places) => {
                for RunPlace { run, dir } in places {
                    let entry = self.runs.entry(run).or_insert_with(|| Entry::new(dir, Stage::Found));
                    entry.clear = true;
                    entry.claimed |= !matches!(self.site.look(&entry.dir), Ok(Seen::Exited(_)));
                }
            }
        }
    }

    fn start(&mut self, spec: RunSpec) {
        let Ok(run) = spec.run.parse::<RunId>() else { return };
        if let Some(entry) = self.runs.get_mut(&run) {
            entry.asked = true;
            return;
        }
        let place = RunPlace { run, dir: spec.dir.clone() };
        match self.site.look(&spec.dir) {
            Ok(Seen::NotStarted) => {}
            Ok(_) => return self.observe(place),
            Err(error) => return self.start_failed(run, format!("its run directory cannot be read: {error}")),
        }
        if let Err(error) = self.site.lay_out(&spec) {
            return self.start_failed(run, format!("its run directory cannot be made: {error}"));
        }
        let mut entry = Entry::new(place.dir, Stage::Waiting(Shape::of(&spec)));
        self.turns += 1;
        (entry.asked, entry.turn, entry.grace) = (true, self.turns, Duration::from_millis(spec.grace_ms));
        self.runs.insert(run, entry);
        let now = self.site.now();
        self.gather_until.get_or_insert(now + COMPANY);
    }

    pub(super) fn start_failed(&mut self, run: RunId, error: String) {
        self.site.report(Report::StartFailed { run, error });
    }

    /// What is known of it is told again.
    fn observe(&mut self, RunPlace { run, dir }: RunPlace) {
        if let Some(entry) = self.runs.get_mut(&run) {
            (entry.asked, entry.begun, entry.ended) = (true, false, false);
            self.changed.extend(entry.told.clone().map(|told| (run, told)));
            self.pace.soon = true;
            return self.settle(run);
        }
        match self.site.look_hard(&dir) {
            Ok(Seen::NotStarted) => self.site.report(Report::NotStarted { run }),
            _ => {
                let mut entry = Entry::new(dir, Stage::Found);
                entry.asked = true;
                entry.number = self.site.begun_by(&entry.dir).map(|(job, task, _)| (job, task));
                self.runs.insert(run, entry);
                self.settle(run);
            }
        }
    }

    fn stop(&mut self, RunPlace { run, dir }: RunPlace) {
        let now = self.site.now();
        let entry = self.runs.entry(run).or_insert_with(|| Entry::new(dir, Stage::Found));
        entry.asked = true;
        if entry.number.is_none() && matches!(entry.stage, Stage::Found) {
            entry.number = self.site.begun_by(&entry.dir).map(|(job, task, _)| (job, task));
        }
        match self.site.claim(&entry.dir) {
            // It never starts, whatever Slurm does with it.
            Ok(true) => {
                (entry.ended, entry.claimed) = (true, true);
                if let Some(number) = entry.number {
                    self.cancels.insert(number, Cancel::Outright);
                }
                if matches!(entry.stage, Stage::Waiting(_)) {
                    entry.stage = Stage::Found;
                }
                self.site.report(Report::Claimed { run });
            }
            // Its shim was first. A directory that cannot be written to is tried again.
            Ok(false) | Err(_) => {
                entry.ended = false;
                if let Some(number) = entry.number.filter(|_| entry.stopping.is_none()) {
                    self.cancels.entry(number).or_insert(Cancel::Gently);
                }
                entry.stopping.get_or_insert(Stopping { hard_at: now + entry.grace + STOP_SPARE });
                self.settle(run);
            }
        }
    }

    /// Slurm itself ends what did not end by its shim.
    fn stop_harder(&mut self) {
        let now = self.site.now();
        for entry in self.runs.values_mut().filter(|entry| !entry.ended) {
            let Some(stopping) = entry.stopping.as_mut().filter(|stopping| stopping.hard_at <= now) else { continue };
            stopping.hard_at = now + STOP_AGAIN;
            self.cancels.extend(entry.number.map(|number| (number, Cancel::Outright)));
        }
    }
}

/// The service hears of a run what it was not told yet.
pub(super) fn tell(entry: &mut Entry, told: Told, changed: &mut BTreeMap<RunId, Told>) {
    if entry.told.as_ref() != Some(&told) {
        entry.told = Some(told.clone());
        changed.insert(told.run, told);
    }
}
