//! A run that has its process before it has the word to begin: all that is left between the word and the command is the marker.
//! That process has the streams and the cgroup of the command, and executes nothing before the word.
//!
//! It listens in place of the shim, which stands still meanwhile: their memory is the same. Whatever comes is left on the line
//! for the shim, the word with its guard too: so that is kept until the marker is made, as always.

use std::path::Path;
use std::time::Instant;

use nexus_api::run_dir::{RunSpec, Started};
use rustix::event::Timespec;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use super::folder::{Folder, Place};
use super::ready::Prepared;
use super::report::{IDLE, Line, Settled};
use super::{Forked, Owed, SETTLED_WITHIN, Shim, now_ms};
use crate::processes;

/// A run that had the word while it waited.
pub struct Waited {
    pub spec: RunSpec,
    pub folder: Folder,
    pub(super) forked: Forked,
}

pub enum Wait {
    Begun(Box<Waited>),
    InVain(Box<Prepared>),
}

impl Wait {
    fn in_vain(prepared: Prepared) -> Wait {
        Wait::InVain(Box::new(prepared))
    }
}

/// What the process that waits has written into the memory of both.
struct Left {
    /// What was owed is on the disk.
    wrote: bool,
    /// It has the word, and made the marker.
    began: Option<Instant>,
    /// What stands in the marker then.
    started: Started,
}

impl Left {
    /// In the process that waits: the run is its own, if nobody else has it.
    fn begin(&mut self, place: &Place) {
        let (start, own) = (Instant::now(), getpid().as_raw_nonzero().get() as u32);
        let Started { pid, started_at_ms, started_ticks, .. } = &mut self.started;
        (*pid, *started_at_ms, *started_ticks) = (own, now_ms(), processes::ticks());
        // Then the shim begins it, as any other.
        let Ok(text) = serde_json::to_vec(&self.started) else { return };
        self.began = matches!(place.mark(&text), Ok(true)).then_some(start);
    }
}

impl Shim<'_> {
    /// Waits for the word, for as long as the shim would. In vain, what was made is gone, unless there was no waiting with it.
    pub(super) fn await_word(&mut self, prepared: Prepared, owed: &mut Option<Owed>) -> Wait {
        // A session is seen before its command is, and a script lies beside the marker.
        if prepared.spec.screen.is_some() || prepared.spec.script.is_some() {
            return Wait::in_vain(prepared);
        }
        let Prepared { spec, made: Some((place, ready)) } = prepared else { return Wait::in_vain(prepared) };
        let Ok(gpus) = self.hold_gpus(&spec) else {
            return Wait::in_vain(Prepared { spec, made: Some((place, ready)) });
        };
        let Some(Ok(signals)) = self.signals.take() else {
            return Wait::in_vain(Prepared { spec, made: Some((place, ready)) });
        };
        let (shim, title) = (getpid(), format!("nexus: job {}", spec.run));
        let (cgroup, terminal) = (ready.group.dir().map(Path::to_owned), ready.viewers.name.clone());
        let started = Started { cgroup, terminal, ..self.watching(&spec) };
        let mut left = Left { wrote: false, began: None, started };
        let mut word = || {
            if dies_with(shim) && has_word(&self.line, owed.as_ref(), &mut left.wrote) {
                self.known.title.set(c"nexus-shim", &title);
                left.begin(&place);
                // What could be asked for can be taken back. A command outlives its shim.
                let _ = set_parent_process_death_signal(None);
            }
            left.began.is_some()
        };
        let child = ready.command.fork_waiting(&ready.streams, &ready.group, &mut word);
        if left.wrote {
            *owed = None;
        }
        match (child, left.began) {
            (Some(child), Some(start)) => {
                // The word, with the guard, and what nobody needs since.
                drop((self.line.next(&Timespec::default()), owed.take()));
                let started = left.started;
                let forked = Forked { ready, child, gpus, signals, script: None, session: None, start, started };
                Wait::Begun(Box::new(Waited { spec, folder: place.begun(), forked }))
            }
            (child, _) => {
                self.signals = Some(Ok(signals));
                let Some(child) = child else { return Wait::in_vain(Prepared { spec, made: Some((place, ready)) }) };
                // A terminal is of no use after the session that had it.
                child.collect();
                Wait::in_vain(Prepared::nothing_for(spec))
            }
        }
    }
}

/// In the process that waits: it must not begin a run that nobody watches.
fn dies_with(shim: Pid) -> bool {
    set_parent_process_death_signal(Some(Signal::KILL)).is_ok() && getppid() == Some(shim)
}

/// In the process that waits: whether its run is to begin. What is owed is written as soon as it may be needed; it is the shim's
/// and stays in memory.
fn has_word(line: &Line, owed: Option<&Owed>, wrote: &mut bool) -> bool {
    loop {
        let due = owed.filter(|_| !*wrote);
        let word = line.begins(if due.is_some() { &SETTLED_WITHIN } else { &IDLE });
        let due = due.filter(|_| !matches!(word, Some(Settled(true))));
        if let Some(due) = due {
            if due.folder.write_record(&due.record).is_err() {
                return false;
            }
            *wrote = true;
        }
        if word.is_some() || due.is_none() {
            return word.is_some();
        }
    }
}
