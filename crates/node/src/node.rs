//! The part of the service that runs jobs on this machine. Every request returns at once; what comes of it is
//! reported, in any order and perhaps more than once.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering};
use std::thread::JoinHandle;

use nexus_api::run_dir::{ExitRecord, RunSpec};
use nexus_core::ids::RunId;
use rustix::event::{EventfdFlags, eventfd};

use crate::cgroup::{self, Containment};
use crate::keeper::{Keeper, Parts};
use crate::launch::Launcher;
use crate::reports::Reports;
use crate::tidy;

/// Where a node listens and what it starts.
pub struct NodeConfig {
    /// Path of the socket on which shims report; its folder exists.
    pub reports: PathBuf,
    /// Program and arguments that end up in [`crate::launcher::main`].
    pub launcher: Vec<OsString>,
    /// Whether to use cgroups where they can be used.
    pub cgroups: bool,
}

/// A run and its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPlace {
    pub run: RunId,
    pub dir: PathBuf,
}

/// What a node has to say of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Started {
        run: RunId,
        pid: u32,
        at_ms: i64,
    },
    Ended {
        run: RunId,
        record: ExitRecord,
    },
    /// Seen by `observe`: nothing ever started in its directory.
    NotStarted {
        run: RunId,
    },
    /// `stop` found it unstarted and claimed its marker: it will never start.
    Claimed {
        run: RunId,
    },
    /// The launch itself failed (fork, launcher gone, directory cannot be made).
    StartFailed {
        run: RunId,
        error: String,
    },
    /// Its shim is dead without a record, or the machine was restarted, and all that it left is ended.
    Lost {
        run: RunId,
        error: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("failed to listen for reports on {}", path.display())]
    Reports { path: PathBuf, source: io::Error },
    #[error("failed to start the launcher {}", program.to_string_lossy())]
    Launcher { program: OsString, source: io::Error },
    #[error("failed to read which boot of the machine this is")]
    BootId { source: io::Error },
    #[error("failed to set up the thread that watches runs")]
    Thread { source: io::Error },
}

/// What is asked of the keeper.
pub(crate) enum Request {
    Start(Vec<RunSpec>),
    Observe(Vec<RunPlace>),
    Stop(Vec<RunPlace>),
    /// All that a lost run had left is ended.
    Cleared {
        run: RunId,
        error: String,
    },
    Close,
}

/// A way to the keeper's thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Request>,
    wake: Arc<OwnedFd>,
    /// Set when the node is closed: threads that wait for processes give up.
    pub closed: Arc<AtomicBool>,
}

impl Mailbox {
    pub fn post(&self, request: Request) {
        // The keeper outlives every node; a thread that still clears up after that has nobody to tell.
        if self.sender.send(request).is_ok() {
            let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        }
    }
}

/// Starts, watches and stops runs on this machine.
pub struct Node {
    mailbox: Mailbox,
    tidied: Option<Sender<PathBuf>>,
    containment: Containment,
    keeper: Option<JoinHandle<()>>,
    tidier: Option<JoinHandle<()>>,
}

impl Node {
    /// Runs started by an earlier node are not known until `observe` names them. Their reports may come before that.
    /// The sink is called by the node's own thread and must not block.
    pub fn open(config: NodeConfig, sink: Box<dyn Fn(Report) + Send + Sync>) -> Result<Node, NodeError> {
        let containment = if config.cgroups { cgroup::probe(&config.reports) } else { Containment::Session };
        let thread = |source| NodeError::Thread { source };
        let boot_id = crate::processes::boot_id().map_err(|source| NodeError::BootId { source })?;
        let reports = Reports::open(&config.reports)
            .map_err(|source| NodeError::Reports { path: config.reports.clone(), source })?;
        let launcher = Launcher::start(&config.launcher).map_err(|source| NodeError::Launcher {
            program: config.launcher.first().cloned().unwrap_or_default(),
            source,
        })?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| thread(errno.into()))?;
        let (sender, requests) = channel();
        let mailbox = Mailbox { sender, wake: Arc::new(wake), closed: Arc::new(AtomicBool::new(false)) };
        let parts = Parts {
            config,
            containment: containment.clone(),
            boot_id,
            sink,
            requests,
            wake: mailbox.wake.clone(),
            mailbox: mailbox.clone(),
            reports,
            launcher,
        };
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let keeper = named("nexus-node").spawn(move || Keeper::new(parts).run()).map_err(thread)?;
        let (tidied, incoming) = channel();
        let tidier = named("nexus-tidy").spawn(move || tidy::run(incoming)).map_err(thread)?;
        Ok(Node { mailbox, tidied: Some(tidied), containment, keeper: Some(keeper), tidier: Some(tidier) })
    }

    /// Starts runs. Their `reports` and `cgroup_base` are filled in here. A run that was started before, by
    /// whomever, is not started again; its state is reported.
    ///
    /// # Panics
    /// If a `run` is no run's id.
    pub fn start(&self, runs: Vec<RunSpec>) {
        for spec in &runs {
            spec.run.parse::<RunId>().expect("a spec carries the id of its run");
        }
        self.mailbox.post(Request::Start(runs));
    }

    /// Reports where runs stand that this node did not start, and watches those that live.
    pub fn observe(&self, runs: Vec<RunPlace>) {
        self.mailbox.post(Request::Observe(runs));
    }

    /// Ends runs: those that live get their grace, those that did not start never will.
    pub fn stop(&self, runs: Vec<RunPlace>) {
        self.mailbox.post(Request::Stop(runs));
    }

    /// The ends of these runs are in the database: what their directories held for that is removed, by and by.
    pub fn tidy(&self, runs: Vec<RunPlace>) {
        for place in runs {
            if let Some(tidied) = &self.tidied {
                let _ = tidied.send(place.dir);
            }
        }
    }

    /// How the processes of a run are kept together here.
    pub fn containment(&self) -> Containment {
        self.containment.clone()
    }
}

impl Drop for Node {
    /// Jobs and their shims go on; the launcher ends.
    fn drop(&mut self) {
        self.mailbox.closed.store(true, Ordering::Relaxed);
        self.mailbox.post(Request::Close);
        self.tidied = None;
        for thread in [self.keeper.take(), self.tidier.take()].into_iter().flatten() {
            let _ = thread.join();
        }
        if let Containment::Cgroup(base) = &self.containment {
            // Fails, as it should, while runs have groups in it.
            let _ = std::fs::remove_dir(base);
        }
    }
}
