//! Clears up after a shim that died: what it left is ended, and the run is reported lost.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use nexus_api::run_dir::{SCRIPT, Started};
use nexus_core::ids::RunId;

use super::{Keeper, LAST_LOOK_AGAIN, Why};
use crate::cgroup::Containment;
use crate::inspect::why_lost;
use crate::leftovers::Leftovers;
use crate::threads;
use crate::words::Request;

impl Keeper {
    pub(super) fn group_of(&self, run: RunId) -> Option<PathBuf> {
        match &self.containment {
            Containment::Cgroup(base) => Some(base.join(run.to_string())),
            Containment::Session => None,
        }
    }

    /// Ends what a dead shim left, and reports the run lost when that is done. Takes a thread of its own, since
    /// processes may take long to die.
    pub(super) fn clear(&mut self, run: RunId, dir: PathBuf, started: Option<Started>, reason: Option<String>) {
        if !self.clearing.insert(run) {
            return;
        }
        let restarted = started.as_ref().is_some_and(|started| started.boot_id != self.boot_id);
        let error = match (reason, restarted) {
            (Some(reason), _) => reason,
            (None, true) => "the machine was restarted".to_owned(),
            (None, false) => why_lost(&dir),
        };
        if restarted {
            forget_script(&dir);
            return self.mailbox.post(Request::Cleared { run, error });
        }
        let mut leftovers = Leftovers::of(&dir, started.as_ref(), self.group_of(run));
        let (mailbox, dir_later) = (self.mailbox.clone(), dir.clone());
        let work = move || {
            if leftovers.end(|| mailbox.closed.load(Ordering::Relaxed)) {
                forget_script(&dir);
                mailbox.post(Request::Cleared { run, error });
            }
        };
        if threads::start(format!("nexus-clear-{run}"), work).is_err() {
            self.clearing.remove(&run);
            self.look_later(run, dir_later, Why::Begun, LAST_LOOK_AGAIN);
        }
    }
}

/// Values of variables go with the run that needed them, before its end is told.
pub(super) fn forget_script(dir: &Path) {
    let _ = std::fs::remove_file(dir.join(SCRIPT));
}
