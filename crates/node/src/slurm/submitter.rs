//! The thread of a keeper, and the way to it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use nexus_api::run_dir::RunSpec;

use super::keeper::{Ask, Keeper};
use super::real::RealSite;
use super::site::Site;
use super::words::{Options, Said, SlurmNews};
use crate::threads;
use crate::tidy::Tidier;
use crate::words::{Report, RunPlace};

/// A folder that cannot be read is tried again.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// Tells the service something; called by two threads.
pub type Tell = Arc<dyn Fn(Said) + Send + Sync>;

/// Runs on a cluster, as [`crate::Node`] has them on its machine. Dropped, nothing more is submitted; what Slurm has
/// goes on.
pub struct Submitter {
    asks: Sender<Ask>,
    /// While it is held no other node uses this folder.
    _lock: File,
}

impl Submitter {
    pub fn start(home: &Path, options: Options, lock: File, tell: Tell) -> io::Result<Submitter> {
        let tidied = tell.clone();
        let tidier = Tidier::start(Arc::new(Box::new(move |report: Report| tidied(Said::Report(report)))))?;
        let told = tell.clone();
        let site = RealSite::open(home, options, tidier, Box::new(move |said| told(said)))?;
        let (asks, incoming) = channel();
        threads::start("nexus-slurm", move || work(site, &incoming, &tell))?;
        Ok(Submitter { asks, _lock: lock })
    }

    pub fn start_runs(&self, runs: Vec<RunSpec>) {
        self.ask(Ask::Start(runs));
    }

    pub fn observe(&self, runs: Vec<RunPlace>) {
        self.ask(Ask::Observe(runs));
    }

    pub fn stop(&self, runs: Vec<RunPlace>) {
        self.ask(Ask::Stop(runs));
    }

    pub fn clear(&self, runs: Vec<RunPlace>) {
        self.ask(Ask::Clear(runs));
    }

    fn ask(&self, ask: Ask) {
        // Its thread has told why it ended.
        let _ = self.asks.send(ask);
    }
}

fn work(site: RealSite, asks: &Receiver<Ask>, tell: &Tell) {
    let (service, listens_every) = (site.service(), site.listens_every());
    while let Err(error) = site.kept() {
        let error = format!("what was submitted before cannot be read: {error}");
        tell(Said::News(SlurmNews::Away { error }));
        std::thread::sleep(READ_AGAIN);
    }
    let Ok(mut keeper) = Keeper::open(site, service) else { return };
    let mut waiting = Vec::new();
    loop {
        keeper.turn(std::mem::take(&mut waiting));
        let listens = keeper.listens().then_some(listens_every);
        let first = match keeper.patience().into_iter().chain(listens).min() {
            Some(wait) => asks.recv_timeout(wait),
            None => asks.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match first {
            Ok(ask) => waiting.push(ask),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waiting.extend(asks.try_iter());
    }
}
