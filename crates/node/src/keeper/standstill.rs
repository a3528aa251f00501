//! Ends a run whose shim stands still. A job can stop its own shim (`kill -STOP $PPID`), which then hears no request and keeps
//! no time limit.
//!
//! ```text
//!   end asked for: TERM, CONT to the shim ── grace + 5 s without its word ───────────────┐
//!   time limit over + 1 s: CONT to a stopped shim ── grace + 5 s, and it is stopped ─────┴─> Emptying
//!
//!   Emptying ── no process of the run is left: CONT to the shim ──> Emptied ── it tells the end: done
//!                                                                     └── 5 s, and it is stopped ──> Replaced:
//!                                              record, KILL to the shim, then the node reports the end itself
//! ```
//! A shim that is only slow loses nothing: KILL for the job's processes after the grace is what it would do itself, and it is
//! killed only while the kernel says that it is stopped (state T or t). The shim holds the locks of the GPUs, so it goes after
//! the last process of the run, and the end is reported after both.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_api::run_dir::{Cause, ExitRecord, ExitStatus, RunSpec, Started};
use nexus_core::ids::RunId;

use super::emptying::Standstill;
use super::{FIRST_LOOK_AGAIN, Keeper, LAST_LOOK_AGAIN, Watched, Why, open_shim};
use crate::inspect::shim_that_holds;
use crate::processes;
use crate::subreaper::Subreaper;
use crate::threads;
use crate::words::{Report, Request, RunTerms};

/// A shim ends its run right at the time limit. One that is stopped is continued this much later.
const WAKE_AFTER: Duration = Duration::from_secs(1);

/// Between two looks at a shim that is overdue and not stopped.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The grace of a run of which nobody has told it: the service does with every request to observe, if it can read its database.
const UNKNOWN_GRACE: Duration = Duration::from_secs(60);

/// How long a run has from the request to end to KILL, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grace {
    /// The shim's own: told with the run, and the same for its life.
    OfShim(Duration),
    /// Told by the service, from its configuration of now. The shim may have been told a longer one.
    Told(Duration),
    Unknown,
}

impl Grace {
    fn duration(self) -> Duration {
        match self {
            Grace::OfShim(grace) | Grace::Told(grace) => grace,
            Grace::Unknown => UNKNOWN_GRACE,
        }
    }

    /// What the shim says counts. Of what the service says the longest does: a shorter one may be of a later configuration.
    fn or_told(self, told: Duration) -> Grace {
        match self {
            Grace::OfShim(_) => self,
            Grace::Told(before) => Grace::Told(before.max(told)),
            Grace::Unknown => Grace::Told(told),
        }
    }
}

/// When a run is to end, and what was done about it so far.
#[derive(Clone, Debug)]
pub(super) struct Term {
    limit: Option<Duration>,
    grace: Grace,
    /// See [`NodeConfig::shim_patience`](crate::NodeConfig::shim_patience).
    patience: Duration,
    began: Option<Instant>,
    asked_at: Option<Instant>,
    /// The shim was continued since the time limit is over.
    is_woken: bool,
    /// No look before this.
    not_before: Option<Instant>,
    stage: Stage,
    /// The process that the launcher named, which may be gone before it was opened.
    pub shim_pid: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// A thread kills its processes.
    Emptying,
    /// None of its processes is left: the shim should tell the end.
    Emptied {
        since: Instant,
    },
    /// A thread records the end and kills the shim.
    Replacing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Continue the shim.
    Wake,
    /// Kill the run's processes.
    Empty,
    /// Record the end in the shim's place, and kill it.
    Replace,
}

impl Term {
    pub fn of(spec: &RunSpec, patience: Duration) -> Term {
        let milliseconds = Duration::from_millis;
        let grace = Grace::OfShim(milliseconds(spec.grace_ms));
        let term = Term::new(spec.time_limit_ms.map(milliseconds), grace, patience);
        // A shim may be stopped before it has told when the command began.
        Term { began: Some(Instant::now()), ..term }
    }

    fn new(limit: Option<Duration>, grace: Grace, patience: Duration) -> Term {
        let (began, asked_at, not_before) = (None, None, None);
        Term {
            limit,
            grace,
            patience,
            began,
            asked_at,
            is_woken: false,
            not_before,
            stage: Stage::Running,
            shim_pid: None,
        }
    }

    /// From the request, or the time limit, until the processes of the run are killed here.
    fn forced_after(&self) -> Duration {
        self.grace.duration().saturating_add(self.patience)
    }

    fn limit_at(&self) -> Option<Instant> {
        self.began?.checked_add(self.limit?)
    }

    /// What ends the run: the first of both.
    fn cause(&self) -> Cause {
        match (self.asked_at, self.limit_at()) {
            (Some(asked), Some(limit)) if limit <= asked => Cause::Timeout,
            (None, Some(_)) => Cause::Timeout,
            (Some(_), _) | (None, None) => Cause::Asked,
        }
    }

    fn explained(&self, record: ExitRecord) -> ExitRecord {
        let was_killed = record.status == ExitStatus::Signaled { signal: libc::SIGKILL };
        let by_node = matches!(self.stage, Stage::Emptied { .. } | Stage::Replacing) && was_killed;
        match record.cause {
            Cause::Own if by_node => ExitRecord { cause: self.cause(), ..record },
            _ => record,
        }
    }

    /// When to look whether the shim has told the end.
    pub fn due(&self) -> Option<Instant> {
        let after = |at: Option<Instant>, wait: Duration| at?.checked_add(wait);
        let due = match self.stage {
            Stage::Emptying | Stage::Replacing => None,
            Stage::Emptied { since } => after(Some(since), self.patience),
            Stage::Running => {
                let at_limit = if self.is_woken { self.forced_after() } else { WAKE_AFTER };
                let both = [after(self.asked_at, self.forced_after()), after(self.limit_at(), at_limit)];
                both.into_iter().flatten().min()
            }
        };
        due.map(|due| self.not_before.map_or(due, |at| at.max(due)))
    }

    /// What is to be done now. `is_stopped`: the kernel says so of the shim.
    pub fn step(&mut self, now: Instant, is_stopped: bool) -> Option<Step> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let asked_until = self.asked_at.and_then(|at| at.checked_add(self.forced_after()));
        let asked_in_vain = asked_until.is_some_and(|until| until <= now);
        let step = match self.stage {
            // A shim that is not stopped keeps a grace that is not known here.
            Stage::Running if asked_in_vain => {
                (is_stopped || matches!(self.grace, Grace::OfShim(_))).then_some(Step::Empty)
            }
            Stage::Running if !self.is_woken => {
                self.is_woken = true;
                is_stopped.then_some(Step::Wake)
            }
            // The limit may have been changed, of which the shim hears first.
            Stage::Running => is_stopped.then_some(Step::Empty),
            Stage::Emptied { .. } => is_stopped.then_some(Step::Replace),
            Stage::Emptying | Stage::Replacing => None,
        };
        match step {
            Some(Step::Empty) => self.stage = Stage::Emptying,
            Some(Step::Replace) => self.stage = Stage::Replacing,
            Some(Step::Wake) => {}
            None => self.not_before = now.checked_add(LOOK_AGAIN),
        }
        step
    }
}

impl Watched {
    /// Whether its shim was handed the run and certainly has not begun it: the shim is stopped, and has no process. A shim that is
    /// merely slow may have begun the run a moment ago, and told nobody so far.
    fn is_idle(&self, is_stopped: bool) -> bool {
        self.handed.is_some() && is_stopped && Subreaper::new(self.process).is_alone().unwrap_or(false)
    }
}

impl Keeper {
    /// The service says when runs are to end that this node has not started, or that they are to end at another time.
    pub(super) fn know_terms(&mut self, runs: Vec<RunTerms>) {
        for RunTerms { run, time_limit_ms, grace_ms } in runs {
            if self.watched.get(&run).is_none_or(|watched| watched.ended) && !self.unsettled.contains_key(&run) {
                continue;
            }
            let limit = time_limit_ms.map(Duration::from_millis);
            let term = self.term(run);
            term.is_woken &= term.limit == limit;
            term.limit = limit;
            term.grace = term.grace.or_told(Duration::from_millis(grace_ms));
            term.began.get_or_insert_with(Instant::now);
        }
        let Keeper { watched, unsettled, launching, terms, .. } = self;
        terms.retain(|run, _| watched.contains_key(run) || unsettled.contains_key(run) || launching.contains_key(run));
    }

    /// Its command is known to have begun.
    pub(super) fn term_begins(&mut self, run: RunId, started: &Started) {
        // A job may have written anything there; it began before now.
        let lasted = processes::ticks().saturating_sub(started.started_ticks);
        let now = Instant::now();
        let began = now.checked_sub(Duration::from_millis(lasted.saturating_mul(10))).unwrap_or(now);
        let term = self.term(run);
        term.began = Some(term.began.map_or(began, |known| known.min(began)));
        // Of a run that this node has launched the grace is known from its spec.
        if let (false, Some(grace_ms)) = (matches!(term.grace, Grace::OfShim(_)), started.grace_ms) {
            term.grace = Grace::OfShim(Duration::from_millis(grace_ms));
        }
    }

    /// Its end was asked for.
    pub(super) fn term_is_asked(&mut self, run: RunId) {
        self.term(run).asked_at.get_or_insert_with(Instant::now);
    }

    /// After these words nobody waits for an end of the run.
    pub(super) fn term_is_over(&mut self, report: &Report) {
        if let Report::Ended { run, .. }
        | Report::Claimed { run }
        | Report::StartFailed { run, .. }
        | Report::NotStarted { run }
        | Report::Lost { run, .. } = report
        {
            self.terms.remove(run);
        }
    }

    /// The record of an end as it is to be told. A shim that was stopped while the processes of its run were killed here knows
    /// nothing of why.
    pub(super) fn explained(&self, run: RunId, record: ExitRecord) -> ExitRecord {
        match self.terms.get(&run) {
            Some(term) => term.explained(record),
            None => record,
        }
    }

    fn term(&mut self, run: RunId) -> &mut Term {
        let patience = self.config.shim_patience;
        self.terms.entry(run).or_insert_with(|| Term::new(None, Grace::Unknown, patience))
    }

    /// A shim has the lock, and `started` does not say who it is, or names a process that is not the shim. Where its job has stopped it before it could, or has put
    /// something else in the place of `started`, it is watched all the same: its run can be ended then. `wait` is what was
    /// waited since the last look: a shim that is on its way says who it is before that is [`LAST_LOOK_AGAIN`].
    pub(super) fn starting(&mut self, run: RunId, dir: PathBuf, why: Why, wait: Duration) {
        let is_late = wait >= LAST_LOOK_AGAIN;
        if !self.watched.contains_key(&run)
            && let Some(process) = shim_that_holds(&dir, run)
            && let Some(shim) = open_shim(process, run)
            && (is_late || processes::is_stopped(process))
        {
            let shim = Arc::new(shim);
            // One that is late has begun, as far as anybody knows: its run must not be started a second time.
            let watched = Watched { begun: is_late, reusable: false, ..Watched::new(dir.clone(), shim, process) };
            self.watched.insert(run, watched);
            self.report(Report::Underway { run });
            if why == Why::Stopping {
                self.signal(run);
            }
        }
        self.look_later(run, dir, why, FIRST_LOOK_AGAIN);
    }

    /// Looks after shims that should have told an end by now.
    pub(super) fn mind_standstills(&mut self) {
        let now = Instant::now();
        let is_due = |term: &Term| term.due().is_some_and(|due| due <= now);
        let due: Vec<RunId> = self.terms.iter().filter(|(_, term)| is_due(term)).map(|(run, _)| *run).collect();
        for run in due {
            let Some(watched) = self.watched.get(&run).filter(|watched| !watched.ended) else {
                self.postpone(run, now);
                continue;
            };
            let is_stopped = processes::is_stopped(watched.process);
            let Some(step) = self.terms.get_mut(&run).and_then(|term| term.step(now, is_stopped)) else { continue };
            match step {
                Step::Wake => drop(processes::send_signal(&watched.shim, libc::SIGCONT)),
                // The run has not begun: the end of this shim tells who is to start it instead.
                Step::Empty if watched.is_idle(is_stopped) => {
                    let _ = processes::send_signal(&watched.shim, libc::SIGKILL);
                }
                Step::Empty => self.empty(run),
                Step::Replace => self.replace(run),
            }
        }
    }

    /// The run is due and its shim is not known yet: the shim is looked for. A run that nobody looks for is over.
    fn postpone(&mut self, run: RunId, now: Instant) {
        let is_on_its_way = self.launching.contains_key(&run) || self.unsettled.contains_key(&run);
        match self.terms.get_mut(&run).filter(|_| is_on_its_way) {
            Some(term) => term.not_before = now.checked_add(LOOK_AGAIN),
            None => drop(self.terms.remove(&run)),
        }
    }

    /// Kills the run's processes, on a thread of its own since they may take long to die.
    fn empty(&mut self, run: RunId) {
        let Some(still) = self.standstill(run) else { return };
        let mailbox = self.mailbox.clone();
        let work = move || {
            if still.empty(&mailbox) {
                mailbox.post(Request::Emptied { run });
            }
        };
        self.spawn_for(run, "empty", work);
    }

    /// No process of the run is left. The shim, awake, would tell the end at once.
    pub(super) fn emptied(&mut self, run: RunId) {
        let Some(watched) = self.watched.get(&run).filter(|watched| !watched.ended) else { return };
        let _ = processes::send_signal(&watched.shim, libc::SIGCONT);
        self.term(run).stage = Stage::Emptied { since: Instant::now() };
    }

    fn replace(&mut self, run: RunId) {
        let Some(still) = self.standstill(run) else { return };
        let mailbox = self.mailbox.clone();
        let work = move || {
            let record = still.replace(&mailbox).map(Box::new);
            mailbox.post(Request::Replaced { run, record });
        };
        self.spawn_for(run, "replace", work);
    }

    /// Without a record its shim has ended, or lives and was not replaced: that is tried again.
    pub(super) fn replaced(&mut self, run: RunId, record: Option<ExitRecord>) {
        match record {
            Some(record) => self.ended(run, record),
            None if self.watched.contains_key(&run) => self.term(run).stage = Stage::Emptied { since: Instant::now() },
            None => {}
        }
    }

    fn spawn_for(&mut self, run: RunId, what: &str, work: impl FnOnce() + Send + 'static) {
        if threads::start(format!("nexus-{what}-{run}"), work).is_err() {
            let term = self.term(run);
            (term.stage, term.not_before) = (Stage::Running, Instant::now().checked_add(LOOK_AGAIN));
        }
    }

    fn standstill(&mut self, run: RunId) -> Option<Standstill> {
        let watched = self.watched.get(&run)?;
        Some(Standstill {
            run,
            dir: watched.dir.clone(),
            shim: watched.shim.clone(),
            process: watched.process,
            started: watched.started.clone(),
            group: self.group_of(run),
            cause: self.terms.get(&run)?.cause(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(limit: Option<u64>) -> Term {
        let grace = Grace::OfShim(Duration::from_secs(10));
        Term::new(limit.map(Duration::from_secs), grace, Duration::from_secs(5))
    }

    /// Seconds after the begin at which each step is taken, looking whenever it is due.
    fn steps(mut term: Term, begin: Instant, is_stopped: impl Fn(u64) -> bool) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        while let Some(due) = term.due().filter(|due| *due < begin + Duration::from_secs(1000)) {
            let second = (due - begin).as_secs();
            if let Some(step) = term.step(due, is_stopped(second)) {
                steps.push((second, step));
                if step == Step::Empty {
                    term.stage = Stage::Emptied { since: due };
                }
            }
        }
        steps
    }

    #[test]
    fn a_stopped_shim_is_replaced_after_the_grace_and_some_seconds() {
        let begin = Instant::now();
        let at = |second| Some(begin + Duration::from_secs(second));
        let base = Term { began: at(0), ..term(Some(100)) };
        let asked = Term { asked_at: at(20), ..base.clone() };
        assert_eq!(steps(asked.clone(), begin, |_| true), [(35, Step::Empty), (40, Step::Replace)]);
        assert_eq!(asked.cause(), Cause::Asked);
        let timed = [(101, Step::Wake), (115, Step::Empty), (120, Step::Replace)];
        assert_eq!(steps(base.clone(), begin, |_| true), timed);
        assert_eq!(base.cause(), Cause::Timeout);
        let late = Term { asked_at: at(102), ..base };
        assert_eq!((steps(late.clone(), begin, |_| true).last(), late.cause()), (timed.last(), Cause::Timeout));
        assert_eq!(steps(term(None), begin, |_| true), [], "nobody wants its end");
    }

    #[test]
    fn a_shim_whose_grace_is_not_known_is_left_to_keep_it() {
        let begin = Instant::now();
        let told = Grace::Unknown.or_told(Duration::from_secs(30)).or_told(Duration::from_secs(10));
        assert_eq!(told, Grace::Told(Duration::from_secs(30)), "the configuration changed meanwhile");
        for (grace, stops_at, first) in
            [(told, 0, 35), (told, 500, 500), (Grace::Unknown, 0, 65), (Grace::Unknown, 500, 500)]
        {
            let asked = Term { asked_at: Some(begin), grace, ..term(None) };
            let expected = [(first, Step::Empty), (first + 5, Step::Replace)];
            assert_eq!(steps(asked.clone(), begin, |second| second >= stops_at), expected, "{grace:?}");
            assert_eq!(steps(asked, begin, |_| false), [], "{grace:?}: the shim is awake");
        }
        let of_shim = Grace::OfShim(Duration::from_secs(10));
        assert_eq!(of_shim.or_told(Duration::ZERO).or_told(Duration::from_secs(60)), of_shim);
    }

    #[test]
    fn a_shim_that_is_slow_is_never_killed() {
        let begin = Instant::now();
        let at = |second| Some(begin + Duration::from_secs(second));
        let base = Term { began: at(0), ..term(Some(100)) };
        assert_eq!(steps(base.clone(), begin, |_| false), [], "the shim keeps the limit, which it may know better");
        let asked = Term { asked_at: at(20), ..base.clone() };
        assert_eq!(steps(asked, begin, |_| false), [(35, Step::Empty)], "what the shim would do itself");
        let later = steps(base, begin, |second| second > 300);
        assert_eq!(later, [(301, Step::Empty), (306, Step::Replace)], "stopped later");
    }
}
