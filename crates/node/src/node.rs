//! The part of the service that runs jobs on this machine. Every request returns at once; what comes of it is
//! reported, in any order and perhaps more than once.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, atomic::AtomicBool, atomic::Ordering};
use std::thread::JoinHandle;

use nexus_api::run_dir::RunSpec;
use nexus_core::ids::RunId;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::cgroup::{self, Containment};
use crate::keeper::{Keeper, Parts};
use crate::launch::Launcher;
use crate::listeners::{Listener, Listeners};
use crate::reports::{Next, Reports, tell};
use crate::sockets;
use crate::threads;
use crate::tidy::{How, Tidier, Tidying};
use crate::turns;
use crate::words::{Mailbox, NodeConfig, Request, RunPlace, RunTerms, Sink};

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("failed to listen for reports on {}", path.display())]
    Reports { path: PathBuf, source: io::Error },
    #[error("failed to start the launcher {}", program.to_string_lossy())]
    Launcher { program: OsString, source: io::Error },
    #[error("failed to watch a process by pidfd_open, which Linux has from 5.3 on")]
    Watch { source: io::Error },
    #[error("failed to read which boot of the machine this is")]
    BootId { source: io::Error },
    #[error("failed to set up the thread that watches runs")]
    Thread { source: io::Error },
}

/// Starts, watches and stops runs on this machine.
pub struct Node {
    mailbox: Mailbox,
    /// Shims that may be told of runs.
    listeners: Arc<Listeners>,
    tidier: Tidier,
    reports: ReportsPlace,
    /// See [`NodeConfig`].
    guard: Option<Arc<File>>,
    containment: Containment,
    keeper: Option<JoinHandle<()>>,
}

/// Where shims report.
#[derive(Clone)]
pub struct ReportsPlace {
    mailbox: Mailbox,
    /// None once the node is closed.
    path: Arc<Mutex<Option<PathBuf>>>,
}

impl ReportsPlace {
    /// Listens there from now on, whatever became of the socket before. Runs that were started with that are told of by their
    /// directories.
    pub fn listen_at(&self, path: &Path) -> io::Result<()> {
        let mut current = self.path.lock().expect("a plain value");
        if current.is_none() {
            return Err(io::Error::other("the node is closed"));
        }
        let listener = sockets::listen_for_packets(path)?;
        self.mailbox.post(Request::Listen { listener, path: path.to_owned() });
        *current = Some(path.to_owned());
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.path.lock().expect("a plain value").clone().unwrap_or_default()
    }

    fn close(&self) {
        *self.path.lock().expect("a plain value") = None;
    }
}

impl Node {
    /// Runs started by an earlier node are not known until `observe` names them. Their reports may come before that.
    /// The sink is called by the node's own thread and must not block.
    pub fn open(config: NodeConfig, sink: Sink) -> Result<Node, NodeError> {
        let containment = if config.cgroups { cgroup::probe(&config.reports) } else { Containment::Session };
        let thread = |source| NodeError::Thread { source };
        // Without it no end of a run would ever be seen.
        pidfd_open(getpid(), PidfdFlags::empty()).map_err(|errno| NodeError::Watch { source: errno.into() })?;
        let boot_id = crate::processes::boot_id().map_err(|source| NodeError::BootId { source })?;
        let reports = Reports::open(&config.reports)
            .map_err(|source| NodeError::Reports { path: config.reports.clone(), source })?;
        let sink = Arc::new(sink);
        let launcher = Launcher::start(&config.launcher, config.guard.as_deref()).map_err(|source| {
            NodeError::Launcher { program: config.launcher.first().cloned().unwrap_or_default(), source }
        })?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| thread(errno.into()))?;
        let (sender, requests) = channel();
        let mailbox = Mailbox { sender, wake: Arc::new(wake), closed: Arc::new(AtomicBool::new(false)) };
        let listeners = Arc::new(Listeners::default());
        let path = Arc::new(Mutex::new(Some(config.reports.clone())));
        let (reports_at, guard) = (ReportsPlace { mailbox: mailbox.clone(), path }, config.guard.clone());
        let parts = Parts {
            config,
            listeners: listeners.clone(),
            containment: containment.clone(),
            boot_id,
            sink: sink.clone(),
            requests,
            wake: mailbox.wake.clone(),
            mailbox: mailbox.clone(),
            reports,
            launcher,
        };
        let work = move || {
            turns::shorten();
            Keeper::new(parts).run();
        };
        let keeper = threads::start("nexus-node", work).map_err(thread)?;
        let tidier = Tidier::start(sink).map_err(thread)?;
        Ok(Node { mailbox, listeners, tidier, reports: reports_at, guard, containment, keeper: Some(keeper) })
    }

    /// A run that will be started as soon as that is in the database: whoever can makes ready for it meanwhile. Nothing
    /// comes of one that is not started then. It is filled in as for [`Node::start`].
    ///
    /// # Panics
    /// If its `run` is no run's id.
    pub fn announce(&self, spec: &mut RunSpec) {
        self.complete(spec);
        self.listeners.announce(run_of(spec), spec);
    }

    /// What was announced is not to be.
    pub fn withdraw(&self) {
        self.listeners.withdraw();
    }

    /// Starts runs. Their `reports` and `cgroup_base` are filled in here. A run that was started before, by
    /// whomever, is not started again; its state is reported. `settled` are runs whose ends are in the database since the
    /// last request: whoever watched them has nothing to write down any more.
    ///
    /// # Panics
    /// If a `run` is no run's id.
    pub fn start(&self, mut runs: Vec<RunSpec>, settled: Vec<RunId>) {
        runs.iter_mut().for_each(|spec| self.complete(spec));
        self.listeners.settled(&settled);
        let mut others = Vec::new();
        for spec in runs {
            let run = run_of(&spec);
            match self.listeners.ready(run) {
                Some(shim) => self.begin(run, spec, shim),
                None => others.push(spec),
            }
        }
        self.mailbox.post(Request::Start(others));
        self.tidier.tell(Tidying::Started);
    }

    /// The keeper's request lies there before the shim is told: whatever it hears of the run comes after. When the shim does
    /// not take it, its line closes.
    fn begin(&self, run: RunId, spec: RunSpec, shim: Listener) {
        self.mailbox.leave(Request::Begun { run, spec: spec.into(), by: shim.clone() });
        let next = Next::Begin { spec: None, last_settled: shim.settled };
        tell(&shim.socket, &next, self.guard.as_deref());
    }

    /// Adds what the node alone knows.
    fn complete(&self, spec: &mut RunSpec) {
        spec.reports = self.reports.path();
        spec.cgroup_base = match &self.containment {
            Containment::Cgroup(base) => Some(base.clone()),
            Containment::Session => None,
        };
    }

    /// Reports where runs stand that this node did not start, and watches those that live.
    pub fn observe(&self, runs: Vec<RunPlace>) {
        self.mailbox.post(Request::Observe(runs));
    }

    /// When runs are to end that were observed, or that are to end at another time than they were started with. A run whose
    /// shim stands still then is ended all the same.
    pub fn know_terms(&self, runs: Vec<RunTerms>) {
        self.mailbox.post(Request::Terms(runs));
    }

    /// Ends runs: those that live get their grace, those that did not start never will.
    pub fn stop(&self, runs: Vec<RunPlace>) {
        self.mailbox.post(Request::Stop(runs));
    }

    /// The ends of these runs are in the database: what their directories held for that is removed, by and by.
    pub fn tidy(&self, runs: Vec<RunPlace>) {
        self.tidy_so(runs, How::default());
    }

    /// As [`Node::tidy`], for runs that ended under an earlier service.
    pub fn tidy_leftovers(&self, runs: Vec<RunPlace>) {
        self.tidy_so(runs, How { claims: true, ..How::default() });
    }

    /// As these two, for runs whose logs the service has a copy of: nothing is needed here any more.
    pub fn clear(&self, runs: Vec<RunPlace>, leftovers: bool) {
        self.tidy_so(runs, How { claims: leftovers, logs: true });
    }

    fn tidy_so(&self, runs: Vec<RunPlace>, how: How) {
        for place in runs {
            self.tidier.tell(Tidying::Tidy(place, how));
        }
    }

    /// To be told where shims report, should the socket vanish.
    pub fn reports(&self) -> ReportsPlace {
        self.reports.clone()
    }

    /// How the processes of a run are kept together here.
    pub fn containment(&self) -> Containment {
        self.containment.clone()
    }
}

impl Drop for Node {
    /// Jobs and their shims go on; the launcher ends.
    fn drop(&mut self) {
        // Its socket is removed now, and not made again.
        self.reports.close();
        self.mailbox.closed.store(true, Ordering::Relaxed);
        self.mailbox.post(Request::Close);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        if let Containment::Cgroup(base) = &self.containment {
            // Fails, as it should, while runs have groups in it.
            cgroup::remove_base(base);
        }
    }
}

fn run_of(spec: &RunSpec) -> RunId {
    spec.run.parse().expect("a spec carries the id of its run")
}
