//! Copies what jobs leave behind into a folder, on threads of its own: nothing else waits for a copy.
//!
//! ```text
//!   begin ──> waits for a thread ──> copies ──> told to the sink ──> the end is on disk: `settle`
//!                                      └ trouble that may pass: again after a wait that doubles
//! ```
//! A copy that was begun and not told is begun again by the next service. Files that are there already are left alone,
//! so that it goes on where it was.

mod away;
mod file;
mod progress;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nexus_api::results::Copy;
use nexus_core::ids::JobId;
pub use nexus_node::left::Sources;
use nexus_node::left::{Plan, Trouble};
use nexus_node::threads;

pub use self::away::Away;
use self::progress::Progress;

/// Copies at a time; more would only stand in each other's way on one disk.
const THREADS: usize = 2;

/// How often trouble that may pass is met with another try.
const TRIES_AGAIN: u32 = 5;

/// Before the first of them; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// Ended copies that are remembered for those who ask how they went.
const REMEMBERED: usize = 256;

/// What is to be copied, and where to.
#[derive(Clone, Debug)]
pub struct Order {
    pub job: JobId,
    pub sources: Sources,
    /// The machine that they are on; none for this one.
    pub from: Option<Away>,
    /// The folder that is to have all of it; made if need be.
    pub to: PathBuf,
    /// The job's own folder goes once the copy is on disk.
    pub clears: bool,
    /// Somebody asked for it; none where the job's end waits for it.
    pub by_user: bool,
}

/// How a copy ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub order: Order,
    /// In words why not.
    pub outcome: Result<(), String>,
}

/// Told of each copy that came to its end. Must not block.
pub type Sink = Box<dyn Fn(Ended) + Send + Sync>;

#[derive(Clone)]
pub struct Copier {
    shared: Arc<Shared>,
}

struct Shared {
    books: Mutex<Books>,
    more: Condvar,
    sink: Sink,
}

#[derive(Default)]
struct Books {
    waiting: VecDeque<Work>,
    copies: BTreeMap<JobId, Kept>,
    number: u64,
}

enum Work {
    Copy(Box<Order>, Arc<Progress>),
    /// The folder of a job whose results are safe elsewhere.
    Remove(PathBuf, Option<Away>),
}

struct Kept {
    number: u64,
    to: PathBuf,
    progress: Arc<Progress>,
    /// Its end was told to the sink.
    ended: Option<Result<(), String>>,
    /// The end is on disk, or nobody wants it any more.
    settled: bool,
    clears: Option<(PathBuf, Option<Away>)>,
}

impl Copier {
    pub fn start(sink: Sink) -> std::io::Result<Copier> {
        let shared = Arc::new(Shared { books: Mutex::default(), more: Condvar::new(), sink });
        for _ in 0..THREADS {
            let shared = shared.clone();
            threads::start("nexus-results", move || shared.work())?;
        }
        Ok(Copier { shared })
    }

    /// Has it copied, unless that is being done; the number of the copy, and whether it is a new one. One whose end was
    /// told and did not get to the disk is done again, for what is there already costs nothing.
    pub fn begin(&self, order: Order) -> (u64, bool) {
        let mut books = self.shared.books();
        if let Some(kept) = books.copies.get(&order.job).filter(|kept| kept.ended.is_none()) {
            return (kept.number, false);
        }
        books.number += 1;
        let number = books.number;
        let progress = Arc::new(Progress::default());
        let clears = order.clears.then(|| (order.sources.own.clone(), order.from.clone()));
        let (to, ended, settled) = (order.to.clone(), None, false);
        books.copies.insert(order.job, Kept { number, to, progress: progress.clone(), ended, settled, clears });
        books.waiting.push_back(Work::Copy(Box::new(order), progress));
        books.forget_old();
        drop(books);
        self.shared.more.notify_one();
        (number, true)
    }

    /// What became of the copy is on disk, or it is not wanted any more: then it is given up.
    pub fn settle(&self, job: JobId) {
        let mut books = self.shared.books();
        let Some(kept) = books.copies.get_mut(&job) else { return };
        kept.settled = true;
        match kept.ended {
            None => kept.progress.give_up(),
            Some(Err(_)) => {}
            Some(Ok(())) => {
                let folder = kept.clears.take();
                books.waiting.extend(folder.map(|(folder, from)| Work::Remove(folder, from)));
                self.shared.more.notify_one();
            }
        }
    }

    /// The newest copy of a job's results, as far as it is remembered.
    pub fn look(&self, job: JobId) -> Option<Copy> {
        let books = self.shared.books();
        let kept = books.copies.get(&job)?;
        Some(Copy {
            number: kept.number,
            to: kept.to.display().to_string(),
            done_bytes: kept.progress.done(),
            total_bytes: kept.progress.total(),
            trouble: kept.progress.trouble(),
            ended: kept.settled && kept.ended.is_some(),
            error: kept.ended.clone().and_then(Result::err),
        })
    }
}

impl Books {
    fn forget_old(&mut self) {
        while self.copies.len() > REMEMBERED {
            let over = self.copies.iter().filter(|(_, kept)| kept.settled && kept.ended.is_some());
            let Some(oldest) = over.min_by_key(|(_, kept)| kept.number).map(|(job, _)| *job) else { return };
            self.copies.remove(&oldest);
        }
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    fn work(&self) {
        loop {
            let mut books = self.books();
            let work = loop {
                match books.waiting.pop_front() {
                    Some(work) => break work,
                    None => books = self.more.wait(books).expect("nobody panics with the books in hand"),
                }
            };
            drop(books);
            match work {
                // What cannot be removed lies in nobody's way, and goes with the job.
                Work::Remove(folder, None) => drop(std::fs::remove_dir_all(folder)),
                Work::Remove(folder, Some(away)) => away.remove(folder),
                Work::Copy(order, progress) => {
                    let outcome = copy_patiently(&order, &progress).map_err(|trouble| trouble.to_string());
                    if let Some(kept) = self.books().copies.get_mut(&order.job) {
                        kept.ended = Some(outcome.clone());
                    }
                    (self.sink)(Ended { order: *order, outcome });
                }
            }
        }
    }
}

/// Trouble that may pass is waited for a while.
fn copy_patiently(order: &Order, progress: &Progress) -> Result<(), Trouble> {
    let mut wait = FIRST_WAIT;
    for _ in 0..TRIES_AGAIN {
        match copy(order, progress) {
            Err(trouble) if trouble.may_pass() => progress.troubled(&trouble.to_string()),
            done => return done,
        }
        if progress.gives_up_within(wait) {
            return Err(Trouble::GivenUp);
        }
        wait *= 2;
    }
    copy(order, progress)
}

fn copy(order: &Order, progress: &Progress) -> Result<(), Trouble> {
    let to = file::make_target(&order.to)?;
    let plan = match &order.from {
        None => Plan::of(&order.sources, Some(&to))?,
        Some(away) => away.plan(&order.sources)?,
    };
    progress.begins(plan.bytes);
    let copied = file::copy_all(&plan, order.from.as_ref(), &to, order.job, progress);
    if copied.is_ok() {
        progress.fine();
    }
    copied
}

#[cfg(test)]
mod tests;
