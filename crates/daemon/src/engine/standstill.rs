//! Notices that the queue stands still, and tells it once: by a notice, in service.log, and to clients.
//!
//! `nexus_core::standstill` names the reasons to wait that only a person can end. Here is kept how long each has lasted:
//!
//! ```text
//!   no reason ──a look finds one──> seen ──lasts, and no job starts for BLOCKED_AFTER────────────┐
//!      ^                             │ └──a fault lasts for FAULT_FACTOR times that, jobs start──┤
//!      └────── gone at a look ───────┴───────────────── told, once <─────────────────────────────┘
//! ```
//! A look is a timer of the engine's loop, and there is one only while jobs wait. A reason counts from the look that saw it
//! first, so that a line that breaks for a moment behind a long queue is not told. Until something was told, reasons that
//! follow each other count as one. What was told is on disk under
//! [`TOLD`]: a service that starts anew does not tell it again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nexus_api::problem::Problem;
use nexus_api::service::Obstacle;
use nexus_api::standstill::{BlockReason, Standstill};
use nexus_core::event::{Event, QueuePause};
use nexus_core::free::Closed;
use nexus_core::ids::MachineId;
use nexus_core::run::Outcome;
use nexus_core::standstill::{Blocked, Cause, blocked};
use nexus_core::time::Time;

use super::{Engine, Turn, Watch};
use crate::clock;
use crate::pool::{LineState, Member};
use crate::service_log::Line;
use crate::store::{Batch, Store};

/// Jobs wait for a person, and none has started for so long: that is told.
const BLOCKED_AFTER: Duration = Duration::from_secs(600);

/// In seconds, in place of [`BLOCKED_AFTER`]: for tests, which have no minutes to spare.
const VARIABLE: &str = "NEXUS_BLOCKED_AFTER";

/// Where other jobs start, a fault that keeps jobs off idle GPUs is told after so many times [`BLOCKED_AFTER`]: within an hour.
const FAULT_FACTOR: u32 = 4;

/// Looks in one [`BLOCKED_AFTER`].
const LOOKS: u32 = 10;

/// Key of the reasons that were told, one in a line, among the values of the database.
const TOLD: &str = "standstill_told";

/// What the engine keeps of reasons to wait that only a person can end.
pub(super) struct StandstillWatch {
    after: Duration,
    begun_at: Instant,
    /// The last start of a run; that of the service, if there was none.
    started_at: Instant,
    look_at: Option<Instant>,
    /// Since then each look found a reason, if the last one did.
    blocked_since: Option<Instant>,
    seen: BTreeMap<String, SeenReason>,
    /// Keys that an earlier service told. They count until this one has had time to look at everything.
    told_before: BTreeSet<String>,
    /// As on disk.
    stored: String,
    /// No commit has worked since.
    failed_commits: Option<FailedCommits>,
    shown: Option<Standstill>,
}

struct FailedCommits {
    last: Problem,
    count: u32,
    /// When the first of them failed.
    since: Instant,
}

impl FailedCommits {
    /// Why the database cannot be written. One commit that failed is no reason: the next look tries the disk again.
    fn reason(&self) -> Option<Problem> {
        (self.count > 1).then(|| self.last.clone())
    }
}

struct SeenReason {
    since: Instant,
    at: Time,
    is_fault: bool,
    was_told: bool,
    /// None: the database, whose problem is known elsewhere.
    cause: Option<Cause>,
}

impl StandstillWatch {
    pub fn start(store: &Store) -> StandstillWatch {
        let said = std::env::var(VARIABLE).ok().and_then(|text| text.parse().ok());
        let after = said.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(BLOCKED_AFTER);
        // A database that cannot be read now is told of elsewhere.
        let stored = store.meta(TOLD).ok().flatten().unwrap_or_default();
        let told_before: BTreeSet<String> = stored.lines().map(String::from).collect();
        let now = clock::instant();
        // The queue stood still before: it still does.
        let stood_still = if told_before.is_empty() { now } else { now.checked_sub(after).unwrap_or(now) };
        StandstillWatch {
            after,
            begun_at: now,
            started_at: stood_still,
            look_at: None,
            blocked_since: None,
            seen: BTreeMap::new(),
            told_before,
            stored,
            failed_commits: None,
            shown: None,
        }
    }

    /// How long until the next look.
    pub fn left(&self) -> Option<Duration> {
        self.look_at.map(|at| at.saturating_duration_since(clock::instant()))
    }

    pub fn is_due(&self) -> bool {
        self.look_at.is_some_and(|at| at <= clock::instant())
    }

    pub fn commit_failed(&mut self, problem: &Problem) {
        let count = self.failed_commits.as_ref().map_or(0, |failed| failed.count).saturating_add(1);
        let since = self.failed_commits.as_ref().map_or_else(clock::instant, |failed| failed.since);
        self.failed_commits = Some(FailedCommits { last: problem.clone(), count, since });
    }

    /// How long no commit has succeeded since one failed.
    pub fn commits_fail_for(&self) -> Duration {
        let since = self.failed_commits.as_ref().map(|failed| failed.since);
        since.map_or(Duration::ZERO, |since| clock::instant().saturating_duration_since(since))
    }

    /// A start counts once it is on disk: that of a batch that failed did not happen.
    pub fn committed(&mut self, batch: &Batch) {
        if batch.writes() {
            self.failed_commits = None;
        }
        if batch.events.iter().any(is_start) {
            self.started_at = clock::instant();
            // What keeps all jobs waiting is over. A GPU or a machine may be lost though others work.
            self.told_before.retain(|key| key.starts_with("machine ") && !key.ends_with("aused"));
        }
    }

    /// Takes in what a look found.
    fn see(&mut self, found: BTreeMap<String, Option<Cause>>, now: Instant) {
        let may_be_missed = now.saturating_duration_since(self.begun_at) < self.after;
        let told_before = &self.told_before;
        self.seen.retain(|key, _| found.contains_key(key));
        self.blocked_since = (!found.is_empty()).then(|| self.blocked_since.unwrap_or(now));
        for (key, cause) in found {
            let was_told = told_before.contains(&key) || is_told_of_gpus(told_before, &key);
            let since = if was_told { now.checked_sub(self.after).unwrap_or(now) } else { now };
            let is_fault = cause.is_none_or(|cause| cause.is_fault());
            let new = || SeenReason { since, at: clock::now(), is_fault, was_told, cause };
            self.seen.entry(key).or_insert_with(new).cause = cause;
        }
        if !may_be_missed {
            self.told_before.clear();
        }
    }

    fn stands_still(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.started_at) >= self.after
    }

    /// When a reason is to be told, if nothing changes.
    fn due_at(&self, reason: &SeenReason) -> Instant {
        // Reasons that follow each other are one standstill, until something of it was told.
        let is_told = self.seen.values().any(|reason| reason.was_told);
        let since = self.blocked_since.filter(|_| !is_told).map_or(reason.since, |since| since.min(reason.since));
        let still = since.max(self.started_at) + self.after;
        if reason.is_fault { still.min(reason.since + self.after * FAULT_FACTOR) } else { still }
    }

    fn told_keys(&self) -> String {
        let seen = self.seen.iter().filter(|(_, reason)| reason.was_told).map(|(key, _)| key);
        let keys: BTreeSet<&String> = seen.chain(&self.told_before).collect();
        keys.into_iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }
}

/// GPUs that could not be read are not known by number any more after the service, or the machine, was started anew.
fn is_told_of_gpus(told: &BTreeSet<String>, key: &str) -> bool {
    let of_machine = key.strip_suffix("gpus").map(|machine| format!("{machine}gpu "));
    of_machine.is_some_and(|prefix| told.iter().any(|key| key.starts_with(&prefix) && key.ends_with("unreadable")))
}

impl Engine {
    /// Looks whether the queue stands still, if that is due, and tells what is new.
    pub(super) fn look_for_standstill(&mut self, turn: &mut Turn, watch: &mut Watch) {
        let (now, problem) = (clock::instant(), self.trouble.get());
        let it = &mut watch.standstill;
        // What was told stays told for the next service. A timer that nobody renews would keep the loop turning.
        if self.world.stopping() {
            it.look_at = None;
            return;
        }
        // Whether it stands still is seen once this is on disk.
        if turn.batch.events.iter().any(is_start) {
            it.look_at = it.look_at.map(|_| now);
            return;
        }
        let may_have_changed = it.shown.is_some() && !turn.batch.events.is_empty();
        if !(it.look_at.is_none() && self.world.pending() > 0 || it.is_due() || may_have_changed) {
            return;
        }
        let problem = problem.or_else(|| it.failed_commits.as_ref().and_then(FailedCommits::reason));
        let waiting = self.world.pending() - self.world.held();
        // Reasons that were told before the trouble stay told.
        let Blocked { jobs, causes } = blocked(&self.world);
        let jobs = if problem.is_some() { waiting.max(jobs) } else { jobs };
        let of_database = problem.iter().filter(|_| waiting > 0).map(|_| ("database".to_string(), None));
        let of_world = causes.iter().map(|cause| (self.key_of(cause), Some(*cause)));
        it.see(of_database.chain(of_world).collect(), now);
        let is_due: Vec<bool> = it.seen.values().map(|reason| it.due_at(reason) <= now).collect();
        let mut is_news = false;
        for (reason, _) in it.seen.values_mut().zip(is_due).filter(|(_, is_due)| *is_due) {
            is_news |= !std::mem::replace(&mut reason.was_told, true);
        }
        let told = it.told_keys();
        // Nothing else may be written for hours: this write tells whether the disk takes commits again.
        if told != it.stored || it.failed_commits.is_some() {
            it.stored.clone_from(&told);
            turn.batch.meta.push((TOLD, told));
        }
        let shown = self.standstill_now(&watch.standstill, jobs, problem.as_ref(), now);
        let it = &mut watch.standstill;
        let next_due = it.seen.values().filter(|reason| !reason.was_told).map(|reason| it.due_at(reason)).min();
        let look = now + (it.after / LOOKS).max(Duration::from_millis(1));
        it.look_at = (self.world.pending() > 0).then(|| next_due.map_or(look, |due| due.min(look)).max(now));
        self.show_standstill(shown, is_news, turn, watch);
    }

    /// Passes on what is new of a standstill, and that it is over.
    fn show_standstill(&mut self, shown: Option<Standstill>, is_news: bool, turn: &mut Turn, watch: &mut Watch) {
        let reasons = |it: &Option<Standstill>| it.as_ref().map(|it| it.reasons.clone());
        let differs = reasons(&shown) != reasons(&watch.standstill.shown);
        if let Some(standstill) = shown.as_ref().filter(|_| is_news) {
            let all: Vec<&str> = standstill.reasons.iter().map(|reason| reason.text.as_str()).collect();
            turn.lines.push(Line::warn(format!("Blocked: {}: {}", standstill.title, all.join("; "))));
            self.teller.tell_standstill(standstill.clone());
        } else if shown.is_none() && watch.standstill.shown.is_some() {
            turn.lines.push("The queue is not blocked any more".into());
        }
        watch.standstill.shown.clone_from(&shown);
        self.trouble.set_standstill(shown);
        if differs {
            // Clients read anew what they show.
            self.events.publish(nexus_api::events::What::Missed);
        }
    }

    /// What clients are told: reasons that were told and last. One that is as somebody asked counts while no job starts.
    fn standstill_now(
        &self,
        it: &StandstillWatch,
        jobs: u64,
        problem: Option<&Problem>,
        now: Instant,
    ) -> Option<Standstill> {
        let stands_still = it.stands_still(now);
        let counts = |reason: &&SeenReason| reason.was_told && (stands_still || reason.is_fault);
        let reasons: Vec<&SeenReason> = it.seen.values().filter(counts).collect();
        let since = reasons.iter().map(|reason| reason.at).min()?;
        let facts = reasons.iter().map(|reason| self.fact(reason.cause, problem)).collect();
        let idle = stands_still.then(|| now.saturating_duration_since(it.started_at).as_secs());
        // To the minute, so that what clients show does not change all the time.
        let idle = idle.map(|seconds| if seconds < 60 { seconds } else { seconds / 60 * 60 });
        Some(Standstill::new(clock::rfc3339(since), jobs, idle, joined(facts)))
    }

    /// The same for the same reason, in this service and in the next.
    fn key_of(&self, cause: &Cause) -> String {
        match *cause {
            Cause::QueuePaused(_) => "queue paused".into(),
            Cause::DiskFull => "disk full".into(),
            Cause::SweepStopped(sweep) => format!("sweep {}", sweep.0),
            Cause::MachineClosed { machine, why } => format!("machine {} {why:?}", machine.0),
            Cause::GpuUnreadable { machine, gpu } => format!("machine {} gpu {gpu} unreadable", machine.0),
            Cause::GpuPaused { machine, gpu } => format!("machine {} gpu {gpu} paused", machine.0),
            Cause::NeverFits { gpus, .. } if gpus > 0 && self.unread_machine().is_some() => {
                let machine = self.unread_machine().map_or(0, |(machine, _)| machine.0);
                format!("machine {machine} gpus")
            }
            Cause::NeverFits { job, .. } => format!("job {job}"),
        }
    }

    /// A machine that there is a line to and whose GPUs cannot be read.
    fn unread_machine(&self) -> Option<(MachineId, &Member)> {
        let is_unread = |member: &Member| {
            member.line.is_up()
                && member.cluster.is_none()
                && member.machine.gpus.is_empty()
                && member.gpus.error().is_some()
        };
        self.pool.members.iter().find(|(_, member)| is_unread(member)).map(|(id, member)| (*id, member))
    }

    fn fact(&self, cause: Option<Cause>, problem: Option<&Problem>) -> BlockReason {
        let name = |machine: MachineId| self.pool.member(machine).map_or("?".into(), |member| member.name.clone());
        let Some(cause) = cause else {
            let error = problem.map_or("the database cannot be used".into(), ToString::to_string);
            return BlockReason::Database { error, advice: problem.and_then(Problem::hint) };
        };
        match cause {
            Cause::QueuePaused(QueuePause::ByUser) => BlockReason::QueuePaused { after_failures: None },
            Cause::QueuePaused(QueuePause::AfterFailures(count)) => {
                BlockReason::QueuePaused { after_failures: Some(count) }
            }
            Cause::DiskFull => BlockReason::DiskFull,
            Cause::SweepStopped(sweep) => {
                // A name that cannot be read now is read at the next look.
                let name = self.store.sweep_name(sweep).ok().flatten().unwrap_or_default();
                BlockReason::SweepStopped { sweep: name }
            }
            Cause::MachineClosed { machine, why: Closed::Paused } => {
                BlockReason::MachinePaused { machine: name(machine) }
            }
            Cause::MachineClosed { machine, why: Closed::Quarantined } => {
                BlockReason::MachineQuarantined { machine: name(machine) }
            }
            Cause::MachineClosed { machine, why: Closed::Unreachable } => {
                let error = self.pool.member(machine).and_then(|member| match &member.line {
                    LineState::Down { trouble, .. } => Some(trouble.why.clone()),
                    LineState::Own | LineState::Calling(_) | LineState::Up { .. } => None,
                });
                BlockReason::MachineUnreachable { machine: name(machine), error }
            }
            Cause::GpuUnreadable { machine, gpu } => {
                let shown = self.pool.member(machine).and_then(|member| member.gpus.shown(gpu));
                let error = shown.and_then(|gpu| match gpu.obstacle {
                    Some(Obstacle::Unreadable { error }) => Some(error),
                    _ => None,
                });
                BlockReason::GpusUnreadable { machine: name(machine), gpus: vec![gpu], error }
            }
            Cause::GpuPaused { machine, gpu } => BlockReason::GpusPaused { machine: name(machine), gpus: vec![gpu] },
            Cause::NeverFits { job, gpus } => match self.unread_machine().filter(|_| gpus > 0) {
                Some((_, member)) => {
                    let (machine, error) = (member.name.clone(), member.gpus.error());
                    BlockReason::GpusUnreadable { machine, gpus: vec![], error }
                }
                None => BlockReason::NeverFits { job: job.to_string() },
            },
        }
    }
}

/// GPUs of one machine with the same trouble are one reason.
fn joined(facts: Vec<BlockReason>) -> Vec<BlockReason> {
    let mut all: Vec<BlockReason> = Vec::new();
    for fact in facts {
        let is_like = |other: &&mut BlockReason| match (&**other, &fact) {
            (
                BlockReason::GpusUnreadable { machine, error, .. },
                BlockReason::GpusUnreadable { machine: same, error: alike, .. },
            ) => (machine, error) == (same, alike),
            (BlockReason::GpusPaused { machine, .. }, BlockReason::GpusPaused { machine: same, .. }) => machine == same,
            _ => false,
        };
        match (all.iter_mut().find(is_like), fact) {
            (
                Some(BlockReason::GpusUnreadable { gpus, .. } | BlockReason::GpusPaused { gpus, .. }),
                BlockReason::GpusUnreadable { gpus: more, .. } | BlockReason::GpusPaused { gpus: more, .. },
            ) => {
                gpus.extend(more);
                gpus.sort_unstable();
            }
            (_, fact) => all.push(fact),
        }
    }
    // What stops everything comes first.
    all.sort();
    all
}

/// Whether a run of ours began. One that ended may have been too short for its start to be told.
fn is_start(event: &Event) -> bool {
    match event {
        Event::Running { .. } => true,
        Event::RunEnded { outcome, .. } => !matches!(
            outcome,
            Outcome::MachineError { .. }
                | Outcome::StartError { .. }
                | Outcome::GpuLocked { .. }
                | Outcome::NeverStarted
        ),
        _ => false,
    }
}
