//! A sweep: many jobs that are one thing. How many of them may be on at once, and when the rest of it is held.

use std::time::Duration;

use crate::ids::SweepId;
use crate::job::{End, Failure, Job, State};

/// A job that fails later than this after its start did not fail at once.
const SOON: Duration = Duration::from_secs(30);

/// The sweep that a job belongs to, with what holds for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InSweep {
    pub id: SweepId,
    /// So many of its jobs at once, at most.
    pub max_running: Option<u32>,
    /// When its first so many jobs all fail alike and soon the rest is held; 0 = never.
    pub stop_after: u32,
}

/// What scheduling keeps of a sweep while one of its jobs lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub max_running: Option<u32>,
    pub first: First,
    /// Why the rest of it was held, until somebody releases one of its jobs.
    pub stopped: Option<Stopped>,
    pub counts: Counts,
}

/// How its first jobs ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// So many of the first `of` have failed, all of them alike.
    Failing { of: u32, count: u32, alike: Option<Failure> },
    /// One of them did not fail, or otherwise than the others: nothing more is to be seen.
    Settled,
}

/// So many jobs failed alike, and none did otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub failures: u32,
    pub failure: Failure,
}

/// Its live jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub held: u64,
    pub queued: u64,
    pub active: u64,
    pub copying: u64,
}

impl Sweep {
    pub fn new(of: &InSweep) -> Sweep {
        let first = match of.stop_after {
            0 => First::Settled,
            count => First::Failing { of: count, count: 0, alike: None },
        };
        Sweep { max_running: of.max_running, first, stopped: None, counts: Counts::default() }
    }

    pub fn is_full(&self) -> bool {
        self.max_running.is_some_and(|most| self.counts.active >= most.into())
    }
}

impl Counts {
    pub fn live(&self) -> u64 {
        self.held + self.queued + self.active + self.copying
    }

    pub(crate) fn of(&mut self, job: &Job) -> &mut u64 {
        match job.state {
            State::Held => &mut self.held,
            State::Queued { .. } => &mut self.queued,
            State::Active(_) => &mut self.active,
            State::Copying { .. } => &mut self.copying,
        }
    }
}

impl First {
    /// One more job ended, so long after its last start. Those that were killed, or never ran, say nothing.
    pub fn after(&self, end: &End, ran: Option<Duration>) -> First {
        let First::Failing { of, count, alike } = self else { return First::Settled };
        match (end, ran) {
            (End::Killed(_) | End::Failed(Failure::Dependency { .. }), _) => self.clone(),
            (End::Failed(failure), Some(ran))
                if ran <= SOON && alike.as_ref().is_none_or(|before| before == failure) =>
            {
                First::Failing { of: *of, count: count + 1, alike: Some(failure.clone()) }
            }
            _ => First::Settled,
        }
    }

    /// All of them have failed.
    pub fn stopped(&self) -> Option<Stopped> {
        match self {
            First::Failing { of, count, alike: Some(failure) } if count >= of => {
                Some(Stopped { failures: *count, failure: failure.clone() })
            }
            _ => None,
        }
    }
}
