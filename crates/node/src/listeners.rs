//! Shims whose runs have ended and that listen for another. All else that is known of runs is the keeper's; this it shares with
//! whoever has the next run, and tells a shim so without a third thread in between: a shim makes ready for what is announced
//! beside whoever writes it down.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nexus_api::run_dir::RunSpec;
use nexus_core::ids::RunId;

use crate::reports::{Line, Next, tell};

/// A shim that listens.
#[derive(Clone)]
pub struct Listener {
    pub line: Line,
    pub socket: Arc<OwnedFd>,
    /// The one that has ended.
    pub run: RunId,
    /// Its end is in the database.
    pub settled: bool,
}

#[derive(Default)]
pub struct Listeners(Mutex<Places>);

#[derive(Default)]
struct Places {
    /// The longest first.
    idle: VecDeque<Listener>,
    /// Those that were told of a run.
    ready: HashMap<RunId, Listener>,
}

impl Listeners {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, listener: Listener) {
        self.places().idle.push_back(listener);
    }

    /// Tells one of a run that will be handed to it. Where there is none, nothing is lost.
    pub fn announce(&self, run: RunId, spec: &RunSpec) {
        let mut places = self.places();
        if places.ready.contains_key(&run) {
            return;
        }
        while let Some(listener) = places.idle.pop_front() {
            if tell(&listener.socket, &Next::Announced(spec), None) {
                places.ready.insert(run, listener);
                return;
            }
        }
    }

    /// What was announced may come otherwise, or not at all: nobody is told to begin it as it was announced, and who made ready
    /// for it lets go of it.
    pub fn withdraw(&self) {
        for (_, listener) in self.places().ready.drain() {
            // One that is gone has let go of it.
            let _ = rustix::net::shutdown(&listener.socket, rustix::net::Shutdown::Both);
        }
    }

    /// The one that was told of this run.
    pub fn ready(&self, run: RunId) -> Option<Listener> {
        self.places().ready.remove(&run)
    }

    /// One that was told of none.
    pub fn idle(&self) -> Option<Listener> {
        self.places().idle.pop_front()
    }

    /// The ends of these runs are in the database.
    pub fn settled(&self, runs: &[RunId]) {
        let places = &mut *self.places();
        for listener in places.idle.iter_mut().chain(places.ready.values_mut()) {
            listener.settled |= runs.contains(&listener.run);
        }
    }

    /// Nobody listens on this line any more.
    pub fn forget(&self, line: Line) {
        let mut places = self.places();
        places.idle.retain(|listener| listener.line != line);
        places.ready.retain(|_, listener| listener.line != line);
    }

    /// Lets go of all.
    pub fn close(&self) {
        *self.places() = Places::default();
    }
}
