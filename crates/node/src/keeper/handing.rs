//! A shim that has told an end listens for a moment on the same line, and the next run is handed to it: that costs neither
//! a fork nor the memory of a new process.
//!
//! It is never one that was signalled, or that an earlier service started: a signal must not reach another run than the
//! one it was meant for, and a run not a shim of another version. When a line closes, what was handed over it and not begun
//! goes to the launcher.

use nexus_api::run_dir::{Cause, ExitRecord, RunSpec};
use nexus_core::ids::RunId;

use super::standstill::Term;
use super::{Keeper, Launching, MESSAGE_PATIENCE, Watched, Why};
use crate::listeners::Listener;
use crate::processes;
use crate::reports::{Line, Next, tell};

/// What was handed to a shim that listened, to be launched if that does not take it.
pub struct Handed {
    pub spec: RunSpec,
    pub line: Line,
    /// The run before, which is known until the shim is surely done with it.
    pub after: RunId,
}

impl Keeper {
    /// Asked for, and nothing heard of it so far.
    pub(super) fn is_on_its_way(&self, run: RunId) -> bool {
        self.launching.contains_key(&run) || self.watched.get(&run).is_some_and(|watched| watched.handed.is_some())
    }

    /// Hands a run to a shim that listens; gives it back if there is none.
    pub(super) fn hand(&mut self, run: RunId, spec: RunSpec) -> Option<RunSpec> {
        while let Some(by) = self.listeners.idle() {
            let next = Next::Begin { spec: Some(&spec), last_settled: by.settled };
            if tell(&by.socket, &next, self.config.guard.as_deref()) {
                self.begun(run, spec, by);
                return None;
            }
        }
        Some(spec)
    }

    /// A shim was told to begin a run, and may be gone by now.
    pub(super) fn begun(&mut self, run: RunId, spec: RunSpec, by: Listener) {
        let Listener { line, run: after, .. } = by;
        let shim = self.watched.get(&after).map(|before| (before.shim.clone(), before.process));
        let Some((shim, process)) = shim.filter(|_| self.reports.socket(line).is_some()) else {
            return self.launch_again(run, Launching { spec, launches: 1, stop: false, begun: false });
        };
        let dir = spec.dir.clone();
        self.terms.insert(run, Term::of(&spec, self.config.shim_patience));
        let handed = Some(Handed { spec, line, after });
        self.watched.insert(run, Watched { handed, ..Watched::new(dir.clone(), shim, process) });
        self.look_later(run, dir, Why::Launched, MESSAGE_PATIENCE);
    }

    /// A shim has closed its line: what was handed to it and not begun needs another.
    pub(super) fn line_closed(&mut self, line: Line) {
        self.listeners.forget(line);
        let is_handed = |watched: &Watched| watched.handed.as_ref().is_some_and(|handed| handed.line == line);
        let handed: Vec<RunId> =
            self.watched.iter().filter(|(_, watched)| is_handed(watched)).map(|(run, _)| *run).collect();
        for run in handed {
            if let Some(watched) = self.watched.remove(&run) {
                self.shim_is_gone(run, watched);
            }
        }
        if let Some(launcher) = &mut self.launcher {
            launcher.write();
        }
    }

    pub(super) fn shim_is_gone(&mut self, run: RunId, watched: Watched) {
        match watched.handed {
            Some(Handed { spec, .. }) => {
                self.unsettled.remove(&run);
                // Another shim begins the run anew.
                self.terms.remove(&run);
                self.launch_again(run, Launching { spec, launches: 1, stop: !watched.reusable, begun: false });
            }
            None => self.settle(run, watched.dir, if watched.begun { Why::Begun } else { Why::Launched }),
        }
    }

    /// A shim that tells an end for the first time listens for another run, unless it was asked to end this one.
    pub(super) fn listens(&mut self, run: RunId, line: Line, record: &ExitRecord) {
        let ended_by_itself = record.pid.is_some() && record.cause == Cause::Own;
        let fit = |watched: &&Watched| watched.reusable && !watched.ended && ended_by_itself;
        if self.watched.get(&run).filter(fit).is_some()
            && let Some(socket) = self.reports.socket(line)
        {
            self.listeners.add(Listener { line, socket, run, settled: false });
        }
    }

    /// There is word from a run: its shim has taken it, and is done with the one before.
    pub(super) fn is_taken(&mut self, run: RunId) {
        let handed = self.watched.get_mut(&run).and_then(|watched| watched.handed.take());
        if let Some(Handed { after, .. }) = handed {
            self.watched.remove(&after);
        }
    }

    /// Whether a process that reports on a run is the shim of that run. Any process of this user can connect, also one of a job. The
    /// report on a run that this node does not know is in the run directory too, and the service has that looked at.
    pub(super) fn is_shim(&self, peer: u32, run: RunId) -> bool {
        if let Some(watched) = self.watched.get(&run) {
            return watched.process.pid == peer;
        }
        // A shim that could not begin its run is gone at once, and its message may be all that says why.
        if self.terms.get(&run).is_some_and(|term| term.shim_pid == Some(peer)) {
            return true;
        }
        let is_launching = self.launching.contains_key(&run);
        // Gone before the launcher has named it: nobody else speaks for a run in these milliseconds.
        let Some(stat) = processes::stat(peer) else { return is_launching };
        if is_launching {
            // A shim is a child of the launcher; descendants of a job are children of shims.
            return self.launcher.as_ref().is_some_and(|launcher| launcher.pid() == stat.parent);
        }
        let has_title = || processes::is_shim_of(stat.process, &run.to_string()).unwrap_or(false);
        self.unsettled.contains_key(&run) && has_title()
    }
}
