//! What really ran and what was answered, written by the machines and the users alone. nexus never sees it; the database
//! is compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::run::Outcome;

/// A run as its machine knows it.
pub struct Entry {
    pub machine: MachineId,
    pub gpus: Vec<u16>,
    /// False: its marker was taken, and no process came of it.
    pub began: bool,
    pub ended: Option<Outcome>,
    /// Its machine was taken out of the pool while nobody could reach it: nexus gave it up.
    pub abandoned: bool,
    pub told_by: ToldBy,
}

/// Who tells how a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldBy {
    Record,
    /// There is no record, and Slurm may forget.
    Slurm,
    /// The record does not say why, and Slurm may forget.
    Both,
}

/// A job as its user knows it.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    pub id: Option<JobId>,
    pub after: Vec<JobId>,
    /// Asked for, whether or not anybody was told that it was done.
    pub kill_asked: bool,
    pub remove_asked: bool,
    pub forget_asked: bool,
    pub was_forgotten: bool,
    /// Answered: no run beyond this one may begin.
    pub last_run: Option<u32>,
    /// Answered, and nobody asked for anything else since: it is held, with this run as its last.
    pub held: Option<u32>,
    pub tags: BTreeSet<String>,
}

/// A job as it stands in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: JobId,
    pub text: String,
    pub state: String,
    pub reason: Option<String>,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub runs: u32,
    pub tags: BTreeSet<String>,
}

impl Row {
    pub fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "completed" | "failed" | "killed")
    }
}

#[derive(Default)]
pub struct Ledger {
    runs: BTreeMap<RunId, Entry>,
    /// How long runs took whose shim told their end, whatever clock was set meanwhile.
    ran: BTreeMap<RunId, Duration>,
    /// By the text of its command, which no two have in common.
    pub wishes: BTreeMap<String, Wish>,
    /// Ends that were seen in the database.
    ends: BTreeMap<JobId, Row>,
    /// Answered, and nobody asked to go on since: so many runs had been planned in all.
    pub paused: Option<u64>,
    /// Somebody asked the service to stop and to end what runs.
    pub stop_asked: bool,
}

impl Ledger {
    pub fn wish_of(&mut self, id: JobId) -> Option<&mut Wish> {
        self.wishes.values_mut().find(|wish| wish.id == Some(id))
    }

    /// A process begins: the only one of its job, on GPUs that nobody else has, of a job that may.
    pub fn begins(&mut self, run: RunId, machine: MachineId, gpus: Vec<u16>, text: &str) {
        let wish = self.wishes.get(text).unwrap_or_else(|| panic!("{run} runs {text:?}, which nobody asked for"));
        assert!(wish.id.is_none_or(|id| id == run.job), "{run} runs the command of {:?}", wish.id);
        let may = |last: Option<u32>, what: &str| {
            assert!(last.is_none_or(|last| run.number <= last), "{run} begins, and {what} after run {last:?}");
        };
        may(wish.last_run, "its end was answered");
        may(wish.held, "it was held");
        let alive = self.runs.iter().filter(|(_, entry)| entry.began && entry.ended.is_none() && !entry.abandoned);
        for (other, entry) in alive {
            assert!(other.job != run.job, "{run} begins while {other} lives");
            let both = entry.machine == machine && entry.gpus.iter().any(|gpu| gpus.contains(gpu));
            assert!(!both, "{run} begins on GPUs {gpus:?} of {machine:?}, and {other} has {:?}", entry.gpus);
        }
        let entry = Entry { machine, gpus, began: true, ended: None, abandoned: false, told_by: ToldBy::Record };
        assert!(self.runs.insert(run, entry).is_none(), "{run} began twice");
    }

    pub fn never_begins(&mut self, run: RunId, machine: MachineId, outcome: Outcome) {
        let ended = Some(outcome);
        let entry = Entry { machine, gpus: vec![], began: false, ended, abandoned: false, told_by: ToldBy::Record };
        assert!(self.runs.insert(run, entry).is_none(), "{run} was claimed twice");
    }

    pub fn ends(&mut self, run: RunId, outcome: Outcome) {
        let entry = self.runs.get_mut(&run).expect("only what began ends");
        assert!(entry.ended.is_none(), "{run} ended twice");
        entry.ended = Some(outcome);
    }

    pub fn ends_after(&mut self, run: RunId, outcome: Outcome, ran: Duration) {
        self.ends(run, outcome);
        self.ran.insert(run, ran);
    }

    pub fn is_told_by(&mut self, run: RunId, told_by: ToldBy) {
        self.runs.get_mut(&run).expect("only what began ends").told_by = told_by;
    }

    pub fn get(&self, run: RunId) -> Option<&Entry> {
        self.runs.get(&run)
    }

    /// Nobody will hear of what runs there.
    pub fn abandon(&mut self, machine: MachineId) {
        let there = self.runs.values_mut().filter(|entry| entry.machine == machine);
        there.for_each(|entry| entry.abandoned = true);
    }

    /// GPUs of a machine that processes are on.
    pub fn busy_gpus(&self, machine: MachineId) -> usize {
        let alive = self.runs.values().filter(|entry| entry.began && entry.ended.is_none() && !entry.abandoned);
        alive.filter(|entry| entry.machine == machine).map(|entry| entry.gpus.len()).sum()
    }

    /// What is stored of how long a run took is what passed on the boot clock.
    pub fn check_run_time(&self, run: RunId, stored_ms: i64) {
        if self.get(run).is_some_and(|entry| !entry.abandoned)
            && let Some(ran) = self.ran.get(&run)
        {
            assert_eq!(stored_ms, ran.as_millis() as i64, "{run} ran for so many milliseconds");
        }
    }

    pub fn living(&self) -> usize {
        self.runs.values().filter(|entry| entry.began && entry.ended.is_none() && !entry.abandoned).count()
    }

    /// Holds what is on disk against all that was answered and all that ran.
    pub fn compare(&mut self, rows: &[Row]) {
        let mut seen = BTreeMap::new();
        for row in rows {
            let twin = seen.insert(row.text.as_str(), row.id);
            assert!(twin.is_none(), "{:?} was asked for once: {twin:?} and {}", row.text, row.id);
            let wish = self.wishes.get_mut(&row.text);
            let wish = wish.unwrap_or_else(|| panic!("{} is {:?}, which nobody asked for", row.id, row.text));
            // Whoever asked for it may have been told nothing.
            let id = *wish.id.get_or_insert(row.id);
            assert_eq!(id, row.id, "{:?} was told another id", row.text);
            let wish = wish.clone();
            let other = self.wishes.iter().find(|(text, other)| other.id == Some(id) && **text != row.text);
            assert!(other.is_none(), "{id} is {:?}, and was {other:?} before", row.text);
            assert!(!wish.was_forgotten, "{} was forgotten and is there", row.id);
            assert!(wish.tags.is_subset(&row.tags), "{} lost a tag: {:?}, {:?}", row.id, row.tags, wish.tags);
            assert!(wish.held.is_none() || row.has_ended() || row.state == "held", "{} was held: {row:?}", row.id);
            if row.has_ended() {
                self.ended_rightly(row, &wish, rows);
            }
        }
        for (text, wish) in self.wishes.iter().filter(|(_, wish)| wish.id.is_some() && !wish.forget_asked) {
            assert!(seen.contains_key(text.as_str()), "{:?} was acknowledged and is not there", wish.id);
        }
        let planned: u64 = rows.iter().map(|row| u64::from(row.runs)).sum();
        assert!(self.paused.is_none_or(|then| planned <= then), "runs are planned while the queue is paused");
    }

    fn ended_rightly(&mut self, row: &Row, wish: &Wish, rows: &[Row]) {
        let id = row.id;
        let ended = Row { tags: BTreeSet::new(), ..row.clone() };
        let before = self.ends.entry(id).or_insert_with(|| ended.clone());
        assert_eq!(*before, ended, "{id} had ended, and its end is another now");
        let last = (row.runs > 0).then(|| self.get(RunId { job: id, number: row.runs })).flatten();
        assert!(last.is_none_or(|last| last.ended.is_some() || last.abandoned), "{id} lives and is {row:?}");
        let truth = last.and_then(|last| last.ended.as_ref());
        let told_by = last.map_or(ToldBy::Record, |last| last.told_by);
        let is_abandoned = last.is_some_and(|last| last.abandoned);
        assert!(truth != Some(&Outcome::Exited { code: 0 }) || row.state == "completed" || is_abandoned, "{row:?}");
        let parent_failed = || {
            let failed = |parent: &JobId| rows.iter().all(|other| other.id != *parent || other.state != "completed");
            wish.after.iter().any(failed)
        };
        let is_right = match (row.state.as_str(), row.reason.as_deref(), truth) {
            ("completed", None, Some(Outcome::Exited { code: 0 })) => row.code == Some(0),
            ("failed", Some("exit"), Some(Outcome::Exited { code })) => row.code == Some(*code),
            ("failed", Some("signal"), Some(Outcome::Signaled { signal })) => row.signal == Some(*signal),
            ("failed", Some("timeout"), Some(Outcome::TimedOut { .. })) => true,
            ("failed", Some("lost"), truth) => {
                is_abandoned || told_by == ToldBy::Slurm || matches!(truth, Some(Outcome::Lost { .. }))
            }
            // Slurm has forgotten why it asked for that.
            ("failed", Some("signal"), _) if told_by == ToldBy::Both => row.signal == Some(15),
            // Requeued, and cancelled by somebody before anybody looked.
            ("failed", Some("cancelled"), Some(Outcome::Preempted)) if told_by != ToldBy::Record => true,
            // The service itself may not have come so far as to ask.
            ("failed", Some("start-error"), truth) => {
                matches!(truth, None | Some(Outcome::MachineError { .. } | Outcome::StartError { .. }))
            }
            // Whoever did it past nexus may have done so before it began.
            ("failed", Some("cancelled"), truth) => matches!(truth, None | Some(Outcome::Cancelled { .. })),
            ("failed", Some("dependency"), _) => parent_failed(),
            ("killed", Some("user"), _) => wish.kill_asked || is_abandoned,
            ("killed", Some("removed"), _) => wish.remove_asked,
            ("killed", Some("stopped"), _) => self.stop_asked,
            _ => false,
        };
        assert!(is_right, "{id} ended as {truth:?}, and is said to have as {row:?}");
    }
}
