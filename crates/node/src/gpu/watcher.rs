//! Looks at the GPUs at every poll, whatever the driver does. The watcher's own thread never calls the driver: each
//! call has a thread of its own, which is left alone when it hangs, and there is never a second one of its kind.
//!
//! ```text
//!   look ──> list ── answered ──> every card that is not asked already ──> reading ──> rest until the next poll,
//!              │ hangs: known GPUs are unreadable      │ hangs: that one is             or a late answer
//!              └── fails ──> nvidia-smi <── library fails ──┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::combine::{self, Answer};
use super::locks::Locks;
use super::nvml::{CardRead, Fault, Library, Trouble};
use super::smi::{self, SmiRead};
use super::{GpuSeen, GpuState, Reading, Source};
use crate::threads;

const LIBRARY: &str = "libnvidia-ml.so.1";
pub const LIBRARY_VARIABLE: &str = "NEXUS_NVML";
pub const SMI_VARIABLE: &str = "NEXUS_NVIDIA_SMI";

const LEAST_DEADLINE: Duration = Duration::from_secs(1);
const MOST_DEADLINE: Duration = Duration::from_secs(30);

/// How long a reading waits for its slowest card.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
const MOST_PATIENCE: Duration = Duration::from_secs(5);

/// `nvidia-smi` ends itself by its limit, and needs this to say so.
const SMI_GRACE: Duration = Duration::from_secs(1);

/// How often the GPUs are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatcherConfig {
    pub poll: Duration,
}

/// Where the driver is asked.
#[derive(Clone, Debug)]
pub struct Drivers {
    /// Name or path of NVIDIA's library.
    pub library: OsString,
    /// Instead of the `nvidia-smi` in `PATH`.
    pub smi: Option<PathBuf>,
    pub locks: Locks,
}

impl Drivers {
    /// `NEXUS_NVML` and `NEXUS_NVIDIA_SMI` name other ones than the system's.
    pub fn of_environment() -> Drivers {
        let named = |variable| std::env::var_os(variable).filter(|value| !value.is_empty());
        Drivers {
            library: named(LIBRARY_VARIABLE).unwrap_or_else(|| LIBRARY.into()),
            smi: named(SMI_VARIABLE).map(PathBuf::from),
            locks: Locks::of_environment(),
        }
    }
}

/// Reads the GPUs until it is dropped, which never waits for the driver.
pub struct Watcher {
    messages: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// The sink gets the first reading and one at each poll. It is called by the watcher's own thread and must not
    /// block.
    pub fn start(config: WatcherConfig, sink: Box<dyn Fn(Reading) + Send + Sync>) -> Watcher {
        Watcher::start_with(config, Drivers::of_environment(), sink)
    }

    pub fn start_with(config: WatcherConfig, drivers: Drivers, sink: Box<dyn Fn(Reading) + Send + Sync>) -> Watcher {
        let (messages, received) = channel();
        let looker = Looker {
            messages: received,
            own: messages.clone(),
            drivers: Arc::new(drivers),
            poll: config.poll,
            library: None,
            retired: Vec::new(),
            calls: BTreeMap::new(),
            late: Came::default(),
            last: None,
            look_again: false,
            locked: BTreeSet::new(),
            awaited: BTreeSet::new(),
        };
        let thread = threads::start("gpu-watcher", move || looker.run(&sink));
        // A machine that cannot start one thread more has no GPUs to watch: nothing else of the service would run.
        Watcher { messages, thread: thread.ok() }
    }

    pub fn set_poll(&self, poll: Duration) {
        // The thread lives as long as this.
        let _ = self.messages.send(Message::Poll(poll));
    }

    /// Looks as soon as one of these GPUs, which other services hold, is free. Replaces the GPUs named before.
    pub fn await_locks(&self, uuids: BTreeSet<String>) {
        let _ = self.messages.send(Message::AwaitLocks(uuids));
    }

    /// Looks at once, or as soon as the look that is on its way has ended.
    pub fn look_now(&self) {
        let _ = self.messages.send(Message::Look);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // It panicked if at all in the sink, which is not ours to tell.
            let _ = thread.join();
        }
    }
}

enum Message {
    Poll(Duration),
    Look,
    AwaitLocks(BTreeSet<String>),
    /// Its lock could be had for an instant.
    LockFree(String),
    Stop,
    Done(Outcome),
}

/// What is asked of the driver, at most once at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    List,
    Card(u16),
    Smi,
}

enum Outcome {
    List(Result<Listing, Trouble>),
    Card(u16, CardRead),
    Smi(Result<SmiRead, String>),
}

struct Listing {
    library: Arc<Library>,
    count: u16,
    driver: Option<String>,
}

impl Outcome {
    fn call(&self) -> Call {
        match self {
            Outcome::List(_) => Call::List,
            Outcome::Card(index, _) => Call::Card(*index),
            Outcome::Smi(_) => Call::Smi,
        }
    }

    fn failed(call: Call, error: String) -> Outcome {
        match call {
            Call::List => Outcome::List(Err(Trouble::Library(error))),
            Call::Card(index) => Outcome::Card(index, CardRead::failed(Fault::Card(error))),
            Call::Smi => Outcome::Smi(Err(error)),
        }
    }
}

/// The answers that came.
#[derive(Default)]
struct Came {
    list: Option<Result<Listing, Trouble>>,
    cards: BTreeMap<u16, CardRead>,
    smi: Option<Result<SmiRead, String>>,
}

impl Came {
    fn keep(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::List(list) => self.list = Some(list),
            Outcome::Card(index, read) => drop(self.cards.insert(index, read)),
            Outcome::Smi(read) => self.smi = Some(read),
        }
    }
}

/// The watcher was dropped.
struct Stopped;

struct Looker {
    messages: Receiver<Message>,
    own: Sender<Message>,
    drivers: Arc<Drivers>,
    poll: Duration,
    library: Option<Arc<Library>>,
    /// Those to be shut down before one is opened again. That is a call to the driver too.
    retired: Vec<Arc<Library>>,
    /// Those on their way, and since when.
    calls: BTreeMap<Call, Instant>,
    /// What was answered after its look had ended. Counts where the next look gets nothing newer.
    late: Came,
    last: Option<Reading>,
    look_again: bool,
    /// GPUs that other services hold, by UUID; and those for whose lock a thread waits.
    locked: BTreeSet<String>,
    awaited: BTreeSet<String>,
}

impl Looker {
    fn run(mut self, sink: &dyn Fn(Reading)) {
        loop {
            let begun = Instant::now();
            let Ok(reading) = self.look() else { return };
            self.await_locks_again(&reading);
            self.last = Some(reading.clone());
            sink(reading);
            if self.rest(begun).is_err() {
                return;
            }
        }
    }

    /// Until the next look is due.
    fn rest(&mut self, begun: Instant) -> Result<(), Stopped> {
        while !std::mem::take(&mut self.look_again) {
            let left = (begun + self.poll).saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                // It was waited for in vain: what it tells is news.
                Ok(Message::Done(outcome)) => {
                    self.look_again = true;
                    self.come_late(outcome);
                }
                Ok(message) => self.obey(message)?,
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn obey(&mut self, message: Message) -> Result<(), Stopped> {
        match message {
            Message::Poll(poll) => self.poll = poll,
            Message::Look => self.look_again = true,
            Message::AwaitLocks(uuids) => {
                uuids.iter().for_each(|uuid| self.await_lock(uuid));
                self.locked = uuids;
            }
            Message::LockFree(uuid) => {
                self.awaited.remove(&uuid);
                self.look_again |= self.locked.contains(&uuid);
            }
            Message::Done(outcome) => self.come_late(outcome),
            Message::Stop => return Err(Stopped),
        }
        Ok(())
    }

    /// Waits for a lock on a thread of its own: the kernel tells nobody else that a lock is free. Where there is no thread to be
    /// had, the next poll sees it.
    fn await_lock(&mut self, uuid: &str) {
        if self.awaited.contains(uuid) {
            return;
        }
        let (drivers, done, awaited) = (Arc::clone(&self.drivers), self.own.clone(), uuid.to_owned());
        let wait = move || {
            drivers.locks.wait_until_free(&awaited);
            // Nobody listens any more when the watcher is dropped.
            let _ = done.send(Message::LockFree(awaited));
        };
        if threads::start("gpu-lock", wait).is_ok() {
            self.awaited.insert(uuid.to_owned());
        }
    }

    /// Somebody else may have taken a GPU that was free for a moment.
    fn await_locks_again(&mut self, reading: &Reading) {
        let is_held = |gpu: &&GpuSeen| matches!(&gpu.state, GpuState::Read(vitals) if vitals.lock.is_some());
        for gpu in reading.gpus.iter().filter(is_held) {
            if self.locked.contains(&gpu.uuid) {
                self.await_lock(&gpu.uuid);
            }
        }
    }

    fn come_late(&mut self, outcome: Outcome) {
        self.calls.remove(&outcome.call());
        if let Outcome::List(Ok(listing)) = &outcome {
            self.library = Some(Arc::clone(&listing.library));
        }
        self.late.keep(outcome);
    }

    fn deadline(&self) -> Duration {
        (self.poll * 2).clamp(LEAST_DEADLINE, MOST_DEADLINE)
    }

    /// The first reading may take longer: nothing is known to show in the meantime.
    fn patience(&self) -> Duration {
        if self.last.is_none() { self.deadline() } else { self.poll.clamp(LEAST_PATIENCE, MOST_PATIENCE) }
    }

    fn look(&mut self) -> Result<Reading, Stopped> {
        let until = Instant::now() + self.patience();
        let mut came = std::mem::take(&mut self.late);
        let asked = if self.calls.contains_key(&Call::List) { None } else { self.ask_list() };
        self.gather(&mut came, asked.into_iter().collect(), until)?;
        match came.list.take() {
            Some(Ok(listing)) => self.look_at_cards(listing, came, until),
            Some(Err(trouble)) => self.look_by_smi(trouble),
            None => Ok(self.without_list()),
        }
    }

    fn ask_list(&mut self) -> Option<Call> {
        let (library, drivers) = (self.library.clone(), Arc::clone(&self.drivers));
        let retired = std::mem::take(&mut self.retired);
        self.ask(Call::List, move || {
            drop(retired);
            Outcome::List(list(library, &drivers))
        })
    }

    fn look_at_cards(&mut self, listing: Listing, mut came: Came, until: Instant) -> Result<Reading, Stopped> {
        let Listing { library, count, driver } = listing;
        self.library = Some(Arc::clone(&library));
        let asked = (0..count).filter_map(|index| {
            let (library, drivers) = (Arc::clone(&library), Arc::clone(&self.drivers));
            self.ask(Call::Card(index), move || Outcome::Card(index, library.read(index, &drivers.locks)))
        });
        let asked = asked.collect();
        drop(library);
        self.gather(&mut came, asked, until)?;
        let broken = came.cards.values().find_map(|read| match &read.state {
            Err(Fault::Library(error)) => Some(error.clone()),
            _ => None,
        });
        if let Some(error) = broken {
            return self.look_by_smi(Trouble::Library(error));
        }
        let answers = (0..count).map(|index| {
            let since = self.calls.get(&Call::Card(index)).map_or(Duration::ZERO, Instant::elapsed);
            (index, came.cards.remove(&index).map_or(Answer::Waiting(since), Answer::Read))
        });
        Ok(combine::by_nvml(answers.collect(), driver, self.deadline(), self.last.as_ref()))
    }

    /// The driver does not even say what there is.
    fn without_list(&self) -> Reading {
        let age = self.calls.get(&Call::List).map_or(Duration::ZERO, Instant::elapsed);
        match &self.last {
            Some(last) if age < self.deadline() => last.clone(),
            last => combine::by_nobody(combine::unanswered(age), Some(Source::Nvml), last.as_ref()),
        }
    }

    /// The library is let go of, to be initialised anew at the next look.
    fn look_by_smi(&mut self, trouble: Trouble) -> Result<Reading, Stopped> {
        self.retired.extend(self.library.take());
        let Some(program) = smi::find(self.drivers.smi.as_deref()) else { return Ok(self.without_driver(trouble)) };
        let (limit, drivers) = (self.deadline(), Arc::clone(&self.drivers));
        let asked = self.ask(Call::Smi, move || Outcome::Smi(smi::read(&program, limit, &drivers.locks)));
        let mut came = Came::default();
        // Two queries, at most two limits; nobody else is kept waiting.
        self.gather(&mut came, asked.into_iter().collect(), Instant::now() + limit * 2 + SMI_GRACE)?;
        let last = self.last.as_ref();
        let error = match came.smi {
            Some(Ok(read)) => return Ok(combine::by_smi(read, last)),
            Some(Err(error)) => error,
            None => combine::unanswered(self.calls.get(&Call::Smi).map_or(Duration::ZERO, Instant::elapsed)),
        };
        match trouble {
            Trouble::Absent => Ok(combine::by_nobody(error, Some(Source::Smi), last)),
            Trouble::Library(nvml) => {
                Ok(combine::by_nobody(format!("NVML: {nvml}; {error}"), Some(Source::Nvml), last))
            }
        }
    }

    /// There is no `nvidia-smi` either.
    fn without_driver(&self, trouble: Trouble) -> Reading {
        let error = match trouble {
            Trouble::Library(error) => format!("NVML: {error}; there is no {}", smi::PROGRAM),
            Trouble::Absent => {
                let known = self.last.as_ref().is_some_and(|last| !last.gpus.is_empty());
                if !known {
                    return Reading::default();
                }
                "the driver is no longer there".to_owned()
            }
        };
        combine::by_nobody(error, None, self.last.as_ref())
    }

    /// Makes a call on a thread of its own, unless one of the kind is on its way.
    fn ask(&mut self, call: Call, work: impl FnOnce() -> Outcome + Send + 'static) -> Option<Call> {
        if self.calls.contains_key(&call) {
            return None;
        }
        self.calls.insert(call, Instant::now());
        let done = self.own.clone();
        let answer = move || {
            let outcome = work();
            // Nobody listens any more when the watcher is dropped.
            let _ = done.send(Message::Done(outcome));
        };
        if let Err(error) = threads::start("gpu-call", answer) {
            let failed = Outcome::failed(call, format!("cannot start a thread to ask the driver: {error}"));
            let _ = self.own.send(Message::Done(failed));
        }
        Some(call)
    }

    /// Waits for the answers to these calls, at most until then.
    fn gather(&mut self, came: &mut Came, mut awaited: Vec<Call>, until: Instant) -> Result<(), Stopped> {
        while !awaited.is_empty() {
            match self.messages.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Message::Done(outcome)) if awaited.contains(&outcome.call()) => {
                    awaited.retain(|call| *call != outcome.call());
                    self.calls.remove(&outcome.call());
                    came.keep(outcome);
                }
                Ok(message) => self.obey(message)?,
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Stopped),
            }
        }
        Ok(())
    }
}

impl Drop for Looker {
    fn drop(&mut self) {
        self.retired.extend(self.library.take());
        let retired = std::mem::take(&mut self.retired);
        // Without a thread for it the library is shut down by the end of the process.
        let _ = threads::start("gpu-call", move || drop(retired));
    }
}

/// Opens the library if that is not done, and asks what there is.
fn list(library: Option<Arc<Library>>, drivers: &Drivers) -> Result<Listing, Trouble> {
    let library = match library {
        Some(library) => library,
        None => Arc::new(Library::open(&drivers.library)?),
    };
    let count = library.count()?;
    Ok(Listing { count, driver: library.driver(), library })
}
