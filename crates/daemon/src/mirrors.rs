//! Copies of what runs on other machines print, kept here where clients read them.
//!
//! ```text
//!   somebody reads ──> followed while they do
//!   the run ended  ──> brought here as a whole, once ──> the machine may clear its directory
//! ```
//! A copy has one writer at a time. One that a lost line cut short is gone on with over the next.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use nexus_api::run_dir::LAST_LINES;
use nexus_core::ids::RunId;
use nexus_node::line::{Channel, Last, LogCopy, Stream, ToNode};
use nexus_node::threads;
use nexus_node::{RunPlace, run_file};
use tokio::sync::watch;

use crate::backend::ssh::Remote;

/// Logs that are brought here at the same time, of whichever machines.
const THREADS: usize = 2;

/// Trouble of this machine's own (a full disk) is met with another try, so often and after so long.
const TRIES: u32 = 6;
const BETWEEN_TRIES: Duration = Duration::from_secs(5);

const STACK: usize = 256 << 10;

/// A run on another machine whose end is on disk.
pub struct Ended {
    pub run: RunId,
    pub there: PathBuf,
    pub here: PathBuf,
    /// Where its job is found by its project, once its logs are here.
    pub link: Option<PathBuf>,
    /// It ended before the line that there is now.
    pub is_leftover: bool,
    pub remote: Remote,
}

/// Told of trouble that this machine has with a copy.
pub type Complain = Box<dyn Fn(String) + Send + Sync>;

#[derive(Clone)]
pub struct Mirrors {
    shared: Arc<Shared>,
    queue: Sender<Ended>,
}

struct Shared {
    books: Mutex<Books>,
    /// One of those that are followed has its channel, or is over.
    changed: Condvar,
    /// Changes whenever a copy became whole, or could not.
    settled: watch::Sender<u64>,
    complain: Complain,
}

#[derive(Default)]
struct Books {
    followed: BTreeMap<RunId, Followed>,
    /// Being brought here as a whole (true), or about to be.
    finishing: BTreeMap<RunId, bool>,
    /// All of it is here; until the machine has cleared its own.
    whole: BTreeSet<RunId>,
}

struct Followed {
    readers: usize,
    stage: watch::Sender<Stage>,
    channel: Option<Arc<Channel>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Begun,
    /// It has all that was there when somebody began to read.
    Level,
    Over(Result<(), String>),
}

/// Somebody reads: the copy is kept up as long as this is held.
pub struct Reading {
    run: RunId,
    stage: watch::Receiver<Stage>,
    shared: Arc<Shared>,
}

impl Mirrors {
    pub fn start(complain: Complain) -> io::Result<Mirrors> {
        let (queue, ended) = channel();
        let shared = Arc::new(Shared {
            books: Mutex::default(),
            changed: Condvar::new(),
            settled: watch::Sender::new(0),
            complain,
        });
        let ended = Arc::new(Mutex::new(ended));
        for _ in 0..THREADS {
            let (shared, ended) = (shared.clone(), ended.clone());
            threads::start_with_stack("nexus-mirror", STACK, move || shared.work(&ended))?;
        }
        Ok(Mirrors { shared, queue })
    }

    /// Brings all of a run's logs here, then lets its machine clear the directory. Asked again it changes nothing.
    pub fn finish(&self, ended: Ended) {
        let mut books = self.shared.books();
        if let Entry::Vacant(place) = books.finishing.entry(ended.run) {
            place.insert(false);
            // Its threads end with the process.
            let _ = self.queue.send(ended);
        }
    }

    /// These runs are forgotten: nothing of them is written here once this returns.
    pub async fn let_go(&self, runs: &[RunId]) {
        for run in runs {
            let mut books = self.shared.books();
            if books.finishing.get(run) == Some(&false) {
                books.finishing.remove(run);
            }
        }
        self.shared.settled.send_modify(|count| *count += 1);
        for run in runs {
            self.whole(*run).await;
            self.forget(*run);
        }
    }

    /// The machine has cleared its directory: that the copy is whole is on disk now.
    pub fn forget(&self, run: RunId) {
        self.shared.books().whole.remove(&run);
    }

    pub fn is_whole(&self, run: RunId) -> bool {
        self.shared.books().whole.contains(&run)
    }

    /// Keeps the copy up from now on. None: it is whole, or about to be.
    pub fn read(&self, run: RunId, there: PathBuf, here: PathBuf, remote: &Remote) -> Option<Reading> {
        let mut books = self.shared.books();
        if books.whole.contains(&run) || books.finishing.contains_key(&run) {
            return None;
        }
        if let Some(followed) = books.followed.get_mut(&run) {
            followed.readers += 1;
            return Some(Reading { run, stage: followed.stage.subscribe(), shared: self.shared.clone() });
        }
        let (stage, told) = watch::channel(Stage::Begun);
        books.followed.insert(run, Followed { readers: 1, stage, channel: None });
        let (shared, remote) = (self.shared.clone(), remote.clone());
        let follow = move || {
            let over = shared.follow(run, there, here, &remote).map_err(|error| error.to_string());
            if let Some(followed) = shared.books().followed.remove(&run) {
                followed.stage.send_replace(Stage::Over(over));
            }
            shared.changed.notify_all();
        };
        if let Err(error) = threads::start_with_stack("nexus-mirror", STACK, follow)
            && let Some(followed) = books.followed.remove(&run)
        {
            followed.stage.send_replace(Stage::Over(Err(error.to_string())));
        }
        Some(Reading { run, stage: told, shared: self.shared.clone() })
    }

    /// Waits until the copy of a run that has ended is whole, for as long as somebody works on it.
    pub async fn whole(&self, run: RunId) {
        let mut settled = self.shared.settled.subscribe();
        while self.shared.books().finishing.contains_key(&run) {
            if settled.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Reading {
    /// Waits until the copy has what was there when this began.
    pub async fn level(&mut self) -> Result<(), String> {
        let stage = self.stage.wait_for(|stage| *stage != Stage::Begun).await;
        match stage.as_deref() {
            Ok(Stage::Over(Err(error))) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut books = self.shared.books();
        let Some(followed) = books.followed.get_mut(&self.run) else { return };
        followed.readers -= 1;
        if followed.readers == 0
            && let Some(channel) = &followed.channel
        {
            channel.close();
        }
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    fn follow(&self, run: RunId, there: PathBuf, here: PathBuf, remote: &Remote) -> io::Result<()> {
        let mut copy = LogCopy::open(&here)?;
        let channel = Arc::new(remote.open(Stream::Logs { dir: there, had: copy.had(), follow: true })?);
        match self.books().followed.get_mut(&run) {
            // All who wanted it have gone meanwhile.
            Some(followed) if followed.readers == 0 => return Ok(()),
            Some(followed) => followed.channel = Some(channel.clone()),
            None => return Ok(()),
        }
        self.changed.notify_all();
        copy.keep_up(&channel, || {
            if let Some(followed) = self.books().followed.get(&run) {
                followed.stage.send_replace(Stage::Level);
            }
        })
    }

    fn work(&self, ended: &Mutex<Receiver<Ended>>) {
        loop {
            let next = ended.lock().expect("nobody panics while they wait").recv();
            let Ok(ended) = next else { return };
            let run = ended.run;
            match self.books().finishing.get_mut(&run) {
                Some(begun) => *begun = true,
                // It was forgotten meanwhile.
                None => continue,
            }
            self.end_following(run);
            let brought = bring(&ended);
            let mut books = self.books();
            books.finishing.remove(&run);
            if brought.is_ok() {
                books.whole.insert(run);
            }
            drop(books);
            match brought {
                Ok(()) => {
                    if let Some(link) = &ended.link {
                        nexus_node::link_job(link);
                    }
                    let (runs, leftovers) = (vec![RunPlace { run, dir: ended.there }], ended.is_leftover);
                    ended.remote.send(&ToNode::Clear { runs, leftovers });
                }
                // The next line brings it.
                Err(error) if is_lines(&error) => {}
                Err(error) => (self.complain)(format!("Logs of {run} are not brought here: {error}")),
            }
            self.settled.send_modify(|count| *count += 1);
        }
    }

    /// A copy has one writer.
    fn end_following(&self, run: RunId) {
        let mut books = self.books();
        while let Some(followed) = books.followed.get(&run) {
            if let Some(channel) = &followed.channel {
                channel.close();
            }
            books = self.changed.wait(books).expect("nobody panics with the books in hand");
        }
    }
}

fn bring(ended: &Ended) -> io::Result<()> {
    let once = || {
        let mut copy = LogCopy::open(&ended.here)?;
        let stream = Stream::Logs { dir: ended.there.clone(), had: copy.had(), follow: false };
        copy.keep_up(&ended.remote.open(stream)?, || {})?;
        bring_said(ended)?;
        // The machine clears its own once this is done.
        copy.sync()
    };
    for _ in 1..TRIES {
        match once() {
            Err(error) if may_pass(&error) => std::thread::sleep(BETWEEN_TRIES),
            done => return done,
        }
    }
    once()
}

/// Whether this machine may take it later.
fn may_pass(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What it printed last, of a run whose log names values that are nobody's to see.
fn bring_said(ended: &Ended) -> io::Result<()> {
    let last: Last = ended.remote.open(Stream::Said { dir: ended.there.clone(), lines: 0 })?.answer()?;
    let Some(kept) = last.kept else { return Ok(()) };
    let text = serde_json::to_vec(&kept)?;
    run_file::create(&ended.here.join(LAST_LINES))?.write_all(&text)
}

/// Whether the line is to blame.
pub fn is_lines(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::NotConnected)
}
