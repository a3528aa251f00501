//! The thread of a node: one loop that owns all it knows of runs and sleeps in poll(2).
//!
//! ```text
//!   start ──> launching ── launcher's reply ──> watched ── shim gone ──> settled by its directory
//!                  └ launcher died: sent again        └ "ended" message: reported, then only waited for
//! ```
//! Messages of shims are quick but may be lost; the directory of a run tells the same, and a pidfd tells when to look.

mod clearing;
mod emptying;
mod handing;
mod standstill;

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc::Receiver};
use std::time::{Duration, Instant};

use nexus_api::run_dir::{ExitRecord, RunSpec, ShimMessage, Started};
use nexus_core::ids::RunId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::handing::Handed;
use self::standstill::Term;
use crate::cgroup::Containment;
use crate::inspect::{InspectError, Seen, claim, inspect_run};
use crate::launch::Launcher;
use crate::launcher::Reply;
use crate::leftovers::Leftovers;
use crate::listeners::Listeners;
use crate::processes::{self, Process};
use crate::reports::{Heard, Reports};
use crate::words::{Mailbox, NodeConfig, Report, Request, RunPlace, Sink};

/// A launcher that dies this often over one run will not start it.
const LAUNCHES: u32 = 3;

/// A run is looked at again this long after its launch, should its message have been lost.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(1);

/// A shim that has the lock says who it is within milliseconds.
const FIRST_LOOK_AGAIN: Duration = Duration::from_millis(10);
const LAST_LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long closing waits for shims that are about to exit.
const CLOSE_PATIENCE: Duration = Duration::from_millis(100);

/// What a keeper is made of.
pub(crate) struct Parts {
    pub config: NodeConfig,
    pub listeners: Arc<Listeners>,
    pub containment: Containment,
    pub boot_id: String,
    pub sink: Arc<Sink>,
    pub requests: Receiver<Request>,
    pub wake: Arc<OwnedFd>,
    pub mailbox: Mailbox,
    pub reports: Reports,
    pub launcher: Launcher,
}

pub(crate) struct Keeper {
    config: NodeConfig,
    containment: Containment,
    boot_id: String,
    sink: Arc<Sink>,
    requests: Receiver<Request>,
    wake: Arc<OwnedFd>,
    mailbox: Mailbox,
    reports: Reports,
    /// `None` after it died and could not be started again.
    launcher: Option<Launcher>,
    /// Asked of the launcher, not yet answered.
    launching: HashMap<RunId, Launching>,
    watched: HashMap<RunId, Watched>,
    listeners: Arc<Listeners>,
    /// To be looked at again when the time comes.
    unsettled: HashMap<RunId, Unsettled>,
    /// Lost, with a thread that ends what they left.
    clearing: HashSet<RunId>,
    /// When runs are to end, should their shims not see to it.
    terms: HashMap<RunId, Term>,
    closed: bool,
}

struct Launching {
    spec: RunSpec,
    launches: u32,
    /// To be signalled as soon as it can be.
    stop: bool,
    /// Its command is known to have started.
    begun: bool,
}

struct Watched {
    dir: PathBuf,
    shim: Arc<OwnedFd>,
    /// The same process by its number.
    process: Process,
    /// As its shim has told it.
    started: Option<Started>,
    /// Its command is known to have started.
    begun: bool,
    /// Its end was reported by message.
    ended: bool,
    /// Its shim may be handed another run: it is of this very program, and no signal is on its way to it.
    reusable: bool,
    /// Until there is word from it.
    handed: Option<Handed>,
}

impl Watched {
    fn new(dir: PathBuf, shim: Arc<OwnedFd>, process: Process) -> Watched {
        Watched { dir, shim, process, started: None, begun: false, ended: false, reusable: true, handed: None }
    }
}

struct Unsettled {
    dir: PathBuf,
    why: Why,
    at: Instant,
    wait: Duration,
}

/// On whose behalf a run directory is looked into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Launched,
    /// Launched or adopted, and its command had started.
    Begun,
    Observed,
    Stopping,
}

struct Ready {
    requests: bool,
    /// Sockets of shims, by their place.
    reports: Vec<bool>,
    launcher: bool,
    gone: Vec<RunId>,
}

impl Keeper {
    pub fn new(parts: Parts) -> Keeper {
        Keeper {
            config: parts.config,
            containment: parts.containment,
            boot_id: parts.boot_id,
            sink: parts.sink,
            requests: parts.requests,
            wake: parts.wake,
            mailbox: parts.mailbox,
            reports: parts.reports,
            launcher: Some(parts.launcher),
            launching: HashMap::new(),
            watched: HashMap::new(),
            listeners: parts.listeners,
            unsettled: HashMap::new(),
            clearing: HashSet::new(),
            terms: HashMap::new(),
            closed: false,
        }
    }

    pub fn run(mut self) {
        while !self.closed {
            let ready = self.wait();
            // Messages before ends: a shim speaks first and exits then.
            if !ready.gone.is_empty() {
                self.hear_shims(|_| true);
            } else if ready.reports.contains(&true) {
                self.hear_shims(|place| ready.reports[place]);
            }
            if ready.launcher {
                self.hear_launcher();
            }
            if ready.requests {
                self.take_requests();
            }
            for run in ready.gone {
                if let Some(watched) = self.watched.remove(&run).filter(|watched| !watched.ended) {
                    self.shim_is_gone(run, watched);
                }
            }
            self.look_again();
            self.mind_standstills();
        }
        if let Some(launcher) = self.launcher.take() {
            launcher.close();
        }
        self.listeners.close();
        self.reports.close();
        self.see_off();
    }

    /// Gives shims that have told their end the moment they need to remove their cgroups.
    fn see_off(&self) {
        let until = Instant::now() + CLOSE_PATIENCE;
        for watched in self.watched.values().filter(|watched| watched.ended) {
            let left = until.saturating_duration_since(Instant::now());
            if let Ok(left) = Timespec::try_from(left) {
                let _ = poll(&mut [PollFd::new(&watched.shim, PollFlags::IN)], Some(&left));
            }
        }
    }

    fn wait(&mut self) -> Ready {
        let owes = !self.launching.is_empty();
        let awake = self.launcher.as_mut().and_then(|launcher| launcher.keep_awake(owes));
        let mut polled = vec![PollFd::new(&*self.wake, PollFlags::IN)];
        if let Some(launcher) = &self.launcher {
            let behind = if launcher.is_behind() { PollFlags::OUT } else { PollFlags::empty() };
            polled.push(PollFd::from_borrowed_fd(launcher.stream(), PollFlags::IN | behind));
        }
        let reports_from = polled.len();
        polled.extend(self.reports.sockets().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        let runs_from = polled.len();
        let runs: Vec<RunId> = self.watched.keys().copied().collect();
        polled.extend(self.watched.values().map(|watched| PollFd::new(&watched.shim, PollFlags::IN)));
        let now = Instant::now();
        let due = self.unsettled.values().map(|unsettled| unsettled.at);
        let due = due
            .chain(self.terms.values().filter_map(Term::due))
            .chain(awake)
            .min()
            .map(|due| due.saturating_duration_since(now));
        let _ = poll(&mut polled, due.and_then(|due| Timespec::try_from(due).ok()).as_ref());
        let is_ready = |index: usize| !polled[index].revents().is_empty();
        Ready {
            requests: is_ready(0),
            launcher: self.launcher.is_some() && is_ready(1),
            reports: (reports_from..runs_from).map(is_ready).collect(),
            gone: runs.into_iter().enumerate().filter(|(i, _)| is_ready(runs_from + i)).map(|(_, run)| run).collect(),
        }
    }

    fn report(&mut self, report: Report) {
        self.term_is_over(&report);
        (self.sink)(report);
    }

    fn take_requests(&mut self) {
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        while let Ok(request) = self.requests.try_recv() {
            match request {
                Request::Start(runs) => runs.into_iter().for_each(|spec| self.start(spec)),
                Request::Begun { run, spec, by } => self.begun(run, *spec, by),
                Request::Observe(runs) => runs.into_iter().for_each(|place| self.observe(place)),
                Request::Stop(runs) => runs.into_iter().for_each(|place| self.stop(place)),
                Request::Cleared { run, error } => {
                    self.clearing.remove(&run);
                    self.report(Report::Lost { run, error });
                }
                Request::Terms(runs) => self.know_terms(runs),
                Request::Listen { listener, path } => self.reports.move_to(listener, path),
                Request::Emptied { run } => self.emptied(run),
                Request::Replaced { run, record } => self.replaced(run, record.map(|record| *record)),
                Request::Close => self.closed = true,
            }
        }
        if let Some(launcher) = &mut self.launcher {
            launcher.write();
        }
    }

    // Starting.

    fn start(&mut self, spec: RunSpec) {
        let Ok(run) = spec.run.parse::<RunId>() else { return };
        if self.is_on_its_way(run) {
            return;
        }
        if let Some(spec) = self.hand(run, spec) {
            self.launch(run, Launching { spec, launches: 0, stop: false, begun: false });
        }
    }

    fn launch(&mut self, run: RunId, mut launching: Launching) {
        self.terms.entry(run).or_insert_with(|| Term::of(&launching.spec, self.config.shim_patience));
        let asked = self.revive_launcher().and_then(|launcher| launcher.ask(&launching.spec));
        match asked {
            Ok(()) => {
                launching.launches += 1;
                self.launching.insert(run, launching);
            }
            // A launcher that died may have started it: nobody says that it failed before its marker is taken.
            Err(_) if launching.launches > 0 => {
                self.look_later(run, launching.spec.dir, Why::Launched, LAST_LOOK_AGAIN)
            }
            Err(error) => {
                self.report(Report::StartFailed { run, error: format!("failed to ask the launcher: {error}") })
            }
        }
    }

    fn revive_launcher(&mut self) -> std::io::Result<&mut Launcher> {
        match &mut self.launcher {
            Some(launcher) => Ok(launcher),
            none => Ok(none.insert(Launcher::start(&self.config.launcher, self.config.guard.as_deref())?)),
        }
    }

    fn hear_launcher(&mut self) {
        let Some(launcher) = &mut self.launcher else { return };
        launcher.write();
        let heard = launcher.read();
        let launcher_pid = launcher.pid();
        for reply in heard.replies {
            self.answered(reply, launcher_pid);
        }
        if !heard.ended {
            return;
        }
        if let Some(launcher) = self.launcher.take() {
            launcher.close();
        }
        for (run, launching) in std::mem::take(&mut self.launching) {
            self.launch_again(run, launching);
        }
        if let Some(launcher) = &mut self.launcher {
            launcher.write();
        }
    }

    fn answered(&mut self, reply: Reply, launcher_pid: u32) {
        let (Reply::Forked { run, .. } | Reply::Failed { run, .. }) = &reply;
        let Ok(run) = run.parse::<RunId>() else { return };
        // A run whose end came first by message is known no more.
        let Some(Launching { spec, stop, begun, .. }) = self.launching.remove(&run) else { return };
        let shim_pid = match reply {
            Reply::Forked { shim_pid, .. } => shim_pid,
            Reply::Failed { error, .. } => return self.report(Report::StartFailed { run, error }),
        };
        self.terms.entry(run).and_modify(|term| term.shim_pid = Some(shim_pid));
        let shim = open_process(shim_pid);
        // Read with the pidfd in hand: a child of the launcher's is the shim, any other has got its pid since.
        let stat = shim.as_ref().and_then(|_| processes::stat(shim_pid)).filter(|stat| stat.parent == launcher_pid);
        match shim.zip(stat) {
            Some((shim, stat)) => {
                let (dir, shim) = (spec.dir.clone(), Arc::new(shim));
                let watched = Watched { begun, ..Watched::new(dir, shim, stat.process) };
                self.watched.entry(run).or_insert(watched);
                if stop {
                    self.signal(run);
                }
                if !begun {
                    self.look_later(run, spec.dir, Why::Launched, MESSAGE_PATIENCE);
                }
            }
            // Gone already, or a child of nobody's since the launcher died.
            None if stop => self.settle(run, spec.dir, Why::Stopping),
            None if begun => self.settle(run, spec.dir, Why::Begun),
            None => self.settle(run, spec.dir, Why::Launched),
        }
    }

    /// Whoever had this run in hand died, or let go of it. Starting is safe to repeat: the marker lets one shim through.
    fn launch_again(&mut self, run: RunId, launching: Launching) {
        let why = if launching.stop { Why::Stopping } else { Why::Launched };
        // One that dies with its directory made ready may have its line closed a moment before the lock is.
        let unstarted = matches!(inspect_run(&launching.spec.dir, run), Ok(Seen::NotStarted | Seen::Starting));
        if unstarted && !launching.stop && launching.launches < LAUNCHES {
            self.launch(run, launching);
        } else {
            self.settle(run, launching.spec.dir, why);
        }
    }

    // Listening.

    fn hear_shims(&mut self, is_ready: impl Fn(usize) -> bool) {
        let heard = self.reports.take(is_ready);
        // What is heard of a run was asked for before.
        self.take_requests();
        for heard in heard {
            let (line, message) = match heard {
                Heard::Message(line, message) => (line, message),
                Heard::Closed(line) => {
                    self.line_closed(line);
                    continue;
                }
            };
            let name = match &message {
                ShimMessage::Started(started) => &started.run,
                ShimMessage::Ended(record) => &record.run,
            };
            let Ok(run) = name.parse::<RunId>() else { continue };
            // Which process its shim is may have come in the meantime.
            if self.launching.contains_key(&run) {
                self.hear_launcher();
            }
            if !self.is_shim(line.peer, run) {
                continue;
            }
            match message {
                ShimMessage::Started(started) => self.heard_start(run, started),
                ShimMessage::Ended(record) => {
                    self.listens(run, line, &record);
                    self.ended(run, record);
                }
            }
        }
    }

    fn heard_start(&mut self, run: RunId, started: Started) {
        self.is_taken(run);
        if let Some(launching) = self.launching.get_mut(&run) {
            launching.begun = true;
        }
        if let Some(watched) = self.watched.get_mut(&run) {
            (watched.begun, watched.started) = (true, Some(started.clone()));
            self.term_begins(run, &started);
        }
        match self.unsettled.remove(&run) {
            // Somebody waits for word from it, which this is.
            Some(Unsettled { dir, why, .. }) if why == Why::Stopping || !self.watched.contains_key(&run) => {
                match self.watch_named(run, &dir, &started) {
                    true => self.adopt(run, started, why),
                    false => self.starting(run, dir, why, Duration::ZERO),
                }
            }
            _ => self.report(Report::Started { run, pid: started.pid, at_ms: started.started_at_ms }),
        }
    }

    fn ended(&mut self, run: RunId, record: ExitRecord) {
        self.is_taken(run);
        let record = self.explained(run, record);
        self.launching.remove(&run);
        self.unsettled.remove(&run);
        if let Some(watched) = self.watched.get_mut(&run) {
            watched.ended = true;
        }
        self.report(Report::Ended { run, record });
    }

    // Looking into directories.

    fn observe(&mut self, place: RunPlace) {
        if !self.is_on_its_way(place.run) {
            self.settle(place.run, place.dir, Why::Observed);
        }
    }

    fn stop(&mut self, place: RunPlace) {
        let RunPlace { run, dir } = place;
        if self.watched.contains_key(&run) {
            self.signal(run);
        } else if let Some(launching) = self.launching.get_mut(&run) {
            launching.stop = true;
            // The shim may be anywhere before its marker: one of the two makes it.
            if matches!(claim(&dir), Ok(true)) {
                self.report(Report::Claimed { run });
            }
        } else {
            self.settle(run, dir, Why::Stopping);
        }
    }

    /// Asks the shim to end its run. One that has told its end may have another by now; one that was stopped hears it.
    fn signal(&mut self, run: RunId) {
        if let Some(watched) = self.watched.get_mut(&run).filter(|watched| !watched.ended) {
            watched.reusable = false;
            let _ = processes::send_signal(&watched.shim, libc::SIGTERM);
            let _ = processes::send_signal(&watched.shim, libc::SIGCONT);
            self.term_is_asked(run);
        }
    }

    /// Finds out where a run stands, and reports it or sees to it that somebody will.
    fn settle(&mut self, run: RunId, dir: PathBuf, why: Why) {
        self.settle_after(run, dir, why, Duration::ZERO);
    }

    /// `wait`: what was waited since the last look, longer each time.
    fn settle_after(&mut self, run: RunId, dir: PathBuf, why: Why, wait: Duration) {
        match inspect_run(&dir, run) {
            Ok(Seen::Exited(record)) => self.ended(run, record),
            Ok(Seen::Alive(started)) if self.watch_named(run, &dir, &started) => self.adopt(run, started, why),
            // A marker that names another process, or is of a later release, may be the job's.
            Ok(Seen::Alive(_) | Seen::Starting) | Err(InspectError::Newer { held: true, .. }) => {
                self.starting(run, dir, why, wait);
            }
            Ok(Seen::Claimed) => self.report(Report::Claimed { run }),
            Ok(Seen::NotStarted) => self.not_started(run, dir, why),
            Ok(Seen::Gone(started)) => self.clear(run, dir, started, None),
            Err(error @ InspectError::Newer { held: false, .. }) => self.clear(run, dir, None, Some(error.to_string())),
            // Neither dead nor alive as far as can be told from here: asked again until it can.
            Err(_) => self.look_later(run, dir, why, LAST_LOOK_AGAIN),
        }
    }

    /// Watches the run by the shim that `started` names. The job may have written it: `false` if that process is not the shim of
    /// this run, and then it must not be signalled.
    fn watch_named(&mut self, run: RunId, dir: &Path, started: &Started) -> bool {
        let shim = Process { pid: started.shim_pid, start: started.shim_start };
        if started.run != run.to_string() || started.boot_id != self.boot_id {
            return false;
        }
        if let Some(known) = self.watched.get(&run) {
            return known.process == shim;
        }
        let Some(opened) = open_shim(shim, run).map(Arc::new) else { return false };
        let watched = Watched { begun: true, reusable: false, ..Watched::new(dir.to_owned(), opened, shim) };
        self.watched.insert(run, watched);
        true
    }

    /// The run is watched, and its shim has told that its command has begun.
    fn adopt(&mut self, run: RunId, started: Started, why: Why) {
        self.is_taken(run);
        self.report(Report::Started { run, pid: started.pid, at_ms: started.started_at_ms });
        self.term_begins(run, &started);
        if let Some(watched) = self.watched.get_mut(&run) {
            watched.started = Some(started);
        }
        if why == Why::Stopping {
            self.signal(run);
        }
    }

    fn not_started(&mut self, run: RunId, dir: PathBuf, why: Why) {
        // Without its directory a run that lives looks as if it never was. It must not be started a second time.
        let is_left = match why {
            Why::Observed | Why::Stopping if !dir.is_dir() => {
                let found = Leftovers::of(&dir, None, self.group_of(run)).find();
                // It may live, as far as can be told without descriptors.
                let Ok(found) = found else { return self.look_later(run, dir, why, LAST_LOOK_AGAIN) };
                !found.is_empty()
            }
            _ => false,
        };
        if why == Why::Begun || is_left {
            return self.clear(run, dir, None, Some("its run directory was removed while it ran".to_owned()));
        }
        match why {
            // Its shim is slow, but there.
            Why::Launched if self.watched.contains_key(&run) => self.look_later(run, dir, why, LAST_LOOK_AGAIN),
            // The marker is taken from a shim that may still be on its way: this run starts no more.
            Why::Launched | Why::Begun => match claim(&dir) {
                Ok(true) => {
                    let error = "its watching process ended before the command was started".to_owned();
                    self.report(Report::StartFailed { run, error });
                }
                Ok(false) => self.look_later(run, dir, why, FIRST_LOOK_AGAIN),
                // Its shim may be on its way, and nobody can stop it now: without descriptors, or on a full disk.
                Err(_) => self.look_later(run, dir, why, LAST_LOOK_AGAIN),
            },
            Why::Observed => self.report(Report::NotStarted { run }),
            Why::Stopping => match claim(&dir) {
                Ok(true) => self.report(Report::Claimed { run }),
                Ok(false) => self.look_later(run, dir, why, FIRST_LOOK_AGAIN),
                Err(_) => self.look_later(run, dir, why, LAST_LOOK_AGAIN),
            },
        }
    }

    fn look_later(&mut self, run: RunId, dir: PathBuf, why: Why, wait: Duration) {
        let before = self.unsettled.get(&run);
        let why = if before.is_some_and(|before| before.why == Why::Stopping) { Why::Stopping } else { why };
        self.unsettled.insert(run, Unsettled { dir, why, at: Instant::now() + wait, wait });
    }

    fn look_again(&mut self) {
        let now = Instant::now();
        let due: Vec<RunId> =
            self.unsettled.iter().filter(|(_, unsettled)| unsettled.at <= now).map(|(run, _)| *run).collect();
        for run in due {
            let Some(Unsettled { dir, why, wait, .. }) = self.unsettled.remove(&run) else { continue };
            self.settle_after(run, dir, why, wait);
            if let Some(again) = self.unsettled.get_mut(&run) {
                again.wait = (wait * 2).min(LAST_LOOK_AGAIN);
                again.at = now + again.wait;
            }
        }
    }
}

/// The shim of this run, if this process is one.
fn open_shim(process: Process, run: RunId) -> Option<OwnedFd> {
    // The title is read with the pidfd in hand: from then on the pid cannot mean another process.
    let opened = open_process(process.pid)?;
    processes::is_shim_of(process, &run.to_string()).unwrap_or(false).then_some(opened)
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}
