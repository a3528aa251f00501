//! Removes what a run directory needs no more once the run's end is in the database. Slowly: deleting many files
//! in a hurry slows the starts of other jobs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use nexus_api::run_dir::{
    EXIT, EXIT_PART, FENCED, LAST_LINES, ORDER, OUT, SCRIPT, SLURM_JOB, SPARE_FOLDERS, SPEC, START_ERROR, STARTED,
    STDERR, STDOUT, run_of,
};

use crate::inspect::{InspectError, Seen, inspect, is_occupied};
use crate::run_file;
use crate::threads;
use crate::words::{Report, RunPlace, Sink};

/// Nothing is removed until no run was started for this long. File systems keep new files away from what was
/// deleted lately, so that deleting amid a burst of short jobs makes each of them dearer.
const QUIET: Duration = Duration::from_secs(3);

/// However busy the machine is, nothing waits longer than this.
const LONGEST: Duration = Duration::from_secs(600);

/// Between one directory and the next, for the same reason.
const PAUSE: Duration = Duration::from_millis(100);

/// What is overdue is not done all at once either.
const BREATH: Duration = Duration::from_millis(20);

/// Nor do more than these wait: in a long series of short jobs they would take more of the disk than all that is kept of
/// them.
const MOST: usize = 2000;

/// What the tidier is told.
pub enum Tidying {
    Tidy(RunPlace, How),
    /// A run is being started.
    Started,
}

/// What goes of a run directory beside what it held for its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Left by an earlier service, whose launcher is gone: claims go as well.
    pub claims: bool,
    /// The service has a copy: logs go as well.
    pub logs: bool,
}

/// The thread that tidies. It ends when this is dropped.
pub struct Tidier {
    told: Arc<Told>,
    thread: Option<JoinHandle<()>>,
}

impl Tidier {
    /// Says by `sink` which directories are tidy.
    pub fn start(sink: Arc<Sink>) -> io::Result<Tidier> {
        let told = Arc::new(Told::default());
        let of_thread = told.clone();
        let thread = threads::start("nexus-tidy", move || of_thread.tidy(&sink))?;
        Ok(Tidier { told, thread: Some(thread) })
    }

    pub fn tell(&self, told: Tidying) {
        let mut waiting = self.told.waiting();
        let before = waiting.places.len();
        waiting.hear(told, Instant::now());
        // Not by every run: only when there is something to do, or suddenly too much.
        let wakes = waiting.places.len() > before && (before == 0 || before == MOST);
        drop(waiting);
        if wakes && let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Tidier {
    fn drop(&mut self) {
        self.told.closed.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// What it was told.
#[derive(Default)]
struct Told {
    waiting: Mutex<Waiting>,
    closed: AtomicBool,
}

impl Told {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tidies directories as they come, until it is closed.
    fn tidy(&self, sink: &Sink) {
        while !self.closed.load(Ordering::Relaxed) {
            let now = Instant::now();
            let (due_in, first) = {
                let mut waiting = self.waiting();
                (waiting.due_in(now), waiting.take(now))
            };
            let Some((place, how)) = first else {
                match due_in {
                    None => thread::park(),
                    Some(wait) => thread::park_timeout(wait),
                }
                continue;
            };
            match may_go(&place.dir, how) {
                None => self.waiting().put_back(place, how, now),
                // A claim stays for as long as a launcher of this service may hold a start for it.
                Some(false) => {}
                Some(true) if tidy(&place.dir).is_ok() => {
                    if how.logs {
                        remove_logs(&place.dir);
                    }
                    sink(Report::Tidied { run: place.run });
                }
                // The disk is read-only, say: it is not always.
                Some(true) => self.waiting().put_back(place, how, now),
            }
        }
    }
}

/// Directories that wait, and when the first of them may be tidied.
struct Waiting {
    /// Each with the time it is tidied at the latest, in that order.
    places: VecDeque<(Instant, RunPlace, How)>,
    not_before: Instant,
    breath_until: Instant,
    /// One could not be tidied: however many wait, the next has time.
    rest_until: Instant,
}

impl Default for Waiting {
    fn default() -> Waiting {
        let now = Instant::now();
        Waiting { places: VecDeque::new(), not_before: now, breath_until: now, rest_until: now }
    }
}

impl Waiting {
    fn hear(&mut self, told: Tidying, now: Instant) {
        match told {
            Tidying::Tidy(place, how) => self.places.push_back((now + LONGEST, place, how)),
            Tidying::Started => self.not_before = now + QUIET,
        }
    }

    fn put_back(&mut self, place: RunPlace, how: How, now: Instant) {
        self.rest_until = now + BREATH;
        self.hear(Tidying::Tidy(place, how), now);
    }

    /// How long until the first is due; none while nothing waits.
    fn due_in(&self, now: Instant) -> Option<Duration> {
        let (at_latest, ..) = self.places.front()?;
        let due = match self.places.len() > MOST {
            true => self.rest_until,
            false => self.not_before.min((*at_latest).max(self.breath_until)),
        };
        Some(due.saturating_duration_since(now))
    }

    /// The first, if it is due.
    fn take(&mut self, now: Instant) -> Option<(RunPlace, How)> {
        self.due_in(now).filter(Duration::is_zero)?;
        self.not_before = self.not_before.max(now + PAUSE);
        self.breath_until = now + BREATH;
        self.places.pop_front().map(|(_, place, how)| (place, how))
    }
}

/// Whether a directory may be tidied. None while nobody can tell, as without descriptors, and while the shim is still
/// there: it may yet write its record.
fn may_go(dir: &Path, how: How) -> Option<bool> {
    is_occupied(dir).ok().filter(|occupied| !occupied)?;
    match inspect(dir) {
        Ok(Seen::Claimed) => Some(how.claims),
        Ok(_) | Err(InspectError::Newer { .. }) => Some(true),
        Err(InspectError::Io { .. }) => None,
    }
}

/// What a shim takes away itself, unless it was killed, goes as well. The marker goes last: as long as it is there, nobody
/// takes the run for one that never began.
fn tidy(dir: &Path) -> io::Result<()> {
    for name in SPARE_FOLDERS {
        // One that is not empty is a job's own.
        let _ = fs::remove_dir(dir.join(name));
    }
    let is_empty = |name| run_file::length(&dir.join(name)).map_or(true, |length| length == 0);
    let unneeded = [ORDER].into_iter().filter(|_| is_empty(STDOUT) || is_empty(STDERR));
    for name in [SPEC, SCRIPT, SLURM_JOB, FENCED, EXIT_PART].into_iter().chain(unneeded).chain([EXIT, STARTED]) {
        match run_file::remove_if_there(&dir.join(name)) {
            // The job put something else in the place of the directory.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(()),
            removed => removed?,
        }
    }
    Ok(())
}

/// With the folder, if nothing is left in it. Later attempts lie in that of the first, and what the job itself put there
/// stays until it is forgotten.
fn remove_logs(dir: &Path) {
    for name in [ORDER, LAST_LINES, START_ERROR, OUT, STDERR, STDOUT] {
        let _ = run_file::remove(&dir.join(name));
    }
    let of_job = dir.parent().filter(|_| run_of(dir).is_some_and(|run| run.number > 1));
    if fs::remove_dir(dir).is_ok()
        && let Some(of_job) = of_job
    {
        let _ = fs::remove_dir(of_job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_core::ids::RunId;

    fn place(number: u32) -> Tidying {
        let run: RunId = format!("abc.{number}").parse().unwrap();
        Tidying::Tidy(RunPlace { run, dir: "/nowhere".into() }, How::default())
    }

    #[test]
    fn nothing_is_tidied_while_runs_start_until_it_has_waited_long_enough() {
        let mut waiting = Waiting::default();
        let begin = Instant::now();
        (1..=3).for_each(|number| waiting.hear(place(number), begin));
        for step in 0..600 {
            let now = begin + Duration::from_secs(step);
            waiting.hear(Tidying::Started, now);
            assert!(waiting.take(now + Duration::from_millis(900)).is_none(), "{step}");
        }
        let late = begin + LONGEST;
        waiting.hear(Tidying::Started, late);
        assert!(waiting.take(late).is_some());
        assert_eq!(waiting.due_in(late), Some(BREATH), "what is overdue is not done at once");
        assert!(waiting.take(late + BREATH).is_some());
        assert_eq!(waiting.due_in(late + QUIET), Some(Duration::ZERO), "nothing starts any more");
        assert!(waiting.take(late + QUIET).is_some());
        assert_eq!(waiting.due_in(late + QUIET), None);
    }

    #[test]
    fn no_more_than_so_many_wait_though_runs_start() {
        let mut waiting = Waiting::default();
        let now = Instant::now();
        waiting.hear(Tidying::Started, now);
        (0..MOST as u32 + 2).for_each(|number| waiting.hear(place(number + 1), now));
        let (first, how) = waiting.take(now).unwrap();
        waiting.put_back(first, how, now);
        assert_eq!(waiting.due_in(now), Some(BREATH));
        let later = now + BREATH;
        assert!(waiting.take(later).is_some() && waiting.take(later).is_some());
        assert!(waiting.take(later).is_none());
    }

    #[test]
    fn a_folder_that_cannot_be_looked_at_is_left_for_later() {
        let temporary = tempfile::tempdir().unwrap();
        let (missing, turning) = (temporary.path().join("missing"), temporary.path().join("turning"));
        std::os::unix::fs::symlink(&turning, &turning).unwrap();
        assert_eq!(may_go(&missing, How::default()), Some(true));
        assert_eq!(may_go(&turning, How::default()), None);
        let claimed = temporary.path().join("claimed");
        fs::create_dir(&claimed).unwrap();
        assert!(crate::inspect::claim(&claimed).unwrap());
        assert_eq!(may_go(&claimed, How::default()), Some(false));
        assert_eq!(may_go(&claimed, How { claims: true, ..How::default() }), Some(true));
        let shim = fs::File::open(&claimed).unwrap();
        rustix::fs::flock(&shim, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(may_go(&claimed, How { claims: true, ..How::default() }), None);
    }

    #[test]
    fn what_cannot_be_removed_keeps_its_marker_and_is_not_called_tidy() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        fs::write(dir.join(STARTED), "").unwrap();
        // Neither can be moved, since both are a job's own folders.
        for name in ["exit.json/own", "exit.json.moved/own"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        assert!(tidy(dir).is_err() && dir.join(STARTED).exists());
        fs::remove_dir_all(dir.join("exit.json.moved")).unwrap();
        assert!(tidy(dir).is_ok() && !dir.join(STARTED).exists() && dir.join("exit.json.moved/own").exists());
    }

    #[test]
    fn what_a_shim_left_that_was_killed_goes_and_what_a_job_put_there_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        let [checkpoints, results] = SPARE_FOLDERS.map(|name| dir.join(name));
        fs::create_dir(&checkpoints).unwrap();
        fs::create_dir(&results).unwrap();
        fs::write(results.join("own"), "of the job").unwrap();
        fs::write(dir.join(EXIT_PART), "{").unwrap();
        tidy(dir).unwrap();
        assert!(!checkpoints.exists() && !dir.join(EXIT_PART).exists() && results.join("own").exists());
    }

    #[test]
    fn logs_that_are_elsewhere_go_with_their_folder_and_nothing_else_does() {
        let temporary = tempfile::tempdir().unwrap();
        let first = temporary.path().join("logs/job_abc");
        let second = first.join("attempt_2");
        fs::create_dir_all(&second).unwrap();
        for dir in [&first, &second] {
            for name in [ORDER, STDOUT, STDERR, LAST_LINES] {
                fs::write(dir.join(name), "x").unwrap();
            }
        }
        fs::write(first.join("own"), "of the job").unwrap();
        remove_logs(&first);
        assert!(!first.join(STDOUT).exists() && first.join("own").exists() && second.join(STDOUT).exists());
        fs::remove_file(first.join("own")).unwrap();
        remove_logs(&second);
        assert!(!first.exists() && temporary.path().join("logs").exists());
        let only = temporary.path().join("logs/job_abd");
        fs::create_dir(&only).unwrap();
        remove_logs(&only);
        assert!(!only.exists() && temporary.path().join("logs").exists(), "of others");
    }

    #[test]
    fn logs_stay_and_the_order_stays_while_it_means_something() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        for name in [SCRIPT, EXIT, STARTED, ORDER, STDOUT, STDERR] {
            fs::write(dir.join(name), "x").unwrap();
        }
        tidy(dir).unwrap();
        let there = |name: &str| dir.join(name).exists();
        assert!(!there(SCRIPT) && !there(EXIT) && !there(STARTED) && there(ORDER) && there(STDOUT) && there(STDERR));
        fs::write(dir.join(STDERR), "").unwrap();
        tidy(dir).unwrap();
        assert!(!there(ORDER));
    }
}
