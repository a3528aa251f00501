//! What happened, told to whoever listens: as it happens, and once more to those who were away for a moment.
//!
//! Numbers rise by one within a service's life and from one life to the next, so that a listener who comes back with
//! the number of another life is known to have missed something.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use nexus_api::events::{Event, What};
use nexus_api::jobs::State;
use nexus_core::ids::JobId;
use nexus_core::time::Time;
use tokio::sync::{Notify, broadcast};

/// So many are there for those who come back, and so far may a slow listener fall behind before it is told to read
/// anew.
const KEPT: usize = 4096;

pub type Receiver = broadcast::Receiver<Arc<Event>>;

pub struct Events {
    live: broadcast::Sender<Arc<Event>>,
    kept: Mutex<Kept>,
    /// For the one who asks no more than whether something happened.
    any: Notify,
}

struct Kept {
    last: u64,
    /// The last of them has that number.
    told: VecDeque<Told>,
}

/// What happened, as it is kept: thousands of jobs that come at once are put in words for those alone who hear of them.
#[derive(Clone, Debug)]
pub enum Told {
    Job { id: JobId, state: State },
    Other(Box<What>),
}

impl From<What> for Told {
    fn from(what: What) -> Told {
        Told::Other(Box::new(what))
    }
}

impl Told {
    fn numbered(&self, number: u64) -> Arc<Event> {
        let what = match self {
            Told::Job { id, state } => What::Job { id: id.to_string(), state: *state },
            Told::Other(what) => What::clone(what),
        };
        Arc::new(Event { number, what })
    }
}

impl Events {
    /// Of a service that starts now. A thousand numbers a millisecond are more than one can use up.
    pub fn new(now: Time) -> Events {
        let (live, _) = broadcast::channel(KEPT);
        let last = now.0.unsigned_abs() * 1000;
        Events { live, kept: Mutex::new(Kept { last, told: VecDeque::new() }), any: Notify::new() }
    }

    pub fn publish(&self, told: impl Into<Told>) {
        self.publish_all(vec![told.into()]);
    }

    pub fn publish_all(&self, all: Vec<Told>) {
        if !all.is_empty() {
            self.any.notify_one();
        }
        let mut kept = self.kept();
        let is_heard = self.live.receiver_count() > 0;
        // Those that would be forgotten at once, heard by nobody, have their numbers and no more.
        let passed_over = if is_heard { 0 } else { all.len().saturating_sub(KEPT) };
        kept.last += passed_over as u64;
        for told in all.into_iter().skip(passed_over) {
            kept.last += 1;
            if is_heard {
                // Nobody listening any more is no error.
                let _ = self.live.send(told.numbered(kept.last));
            }
            if kept.told.len() == KEPT {
                kept.told.pop_front();
            }
            kept.told.push_back(told);
        }
    }

    /// Returns when something happened since it last did. It costs less than to listen: thousands at once are one.
    pub async fn any(&self) {
        self.any.notified().await;
    }

    pub fn subscribe(&self) -> Receiver {
        self.live.subscribe()
    }

    /// What followed that number and is not in the receiver any more; none where some of it is forgotten.
    pub fn since(&self, number: u64) -> (Option<Vec<Arc<Event>>>, Receiver) {
        let kept = self.kept();
        let known = (kept.last - kept.told.len() as u64)..=kept.last;
        let numbered = || kept.told.iter().zip(known.start() + 1..);
        let missed = || numbered().filter(|(_, its)| *its > number).map(|(told, its)| told.numbered(its)).collect();
        (known.contains(&number).then(missed), self.live.subscribe())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("nobody panics with the events")
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn who_comes_back_hears_what_he_missed_or_that_it_is_too_late() {
        let events = Events::new(Time(1_000));
        let first = 1_000_000;
        let numbers = |since| events.since(since).0.map(|missed| missed.iter().map(|it| it.number).collect::<Vec<_>>());
        assert_eq!(numbers(first), Some(vec![]));
        assert_eq!(numbers(first - 1), None, "of the service before");
        assert_eq!(numbers(first + 1), None, "of another service");
        for paused in [true, false, true] {
            events.publish(What::Queue { paused });
        }
        assert_eq!(numbers(first), Some(vec![first + 1, first + 2, first + 3]));
        assert_eq!(numbers(first + 2), Some(vec![first + 3]));
        assert_eq!(numbers(first + 3), Some(vec![]));
        for _ in 0..KEPT {
            events.publish(What::Missed);
        }
        assert_eq!(numbers(first + 2), None, "forgotten");
        assert_eq!(numbers(first + 3).map(|missed| missed.len()), Some(KEPT));
        events.publish_all(vec![What::Missed.into(); KEPT + 10]);
        let last = first + 3 + 2 * KEPT as u64 + 10;
        assert_eq!(numbers(last - KEPT as u64 - 1), None, "never there");
        assert_eq!(numbers(last - KEPT as u64), Some((last - KEPT as u64 + 1..=last).collect()));
        events.publish(What::Missed);
        assert_eq!(numbers(last), Some(vec![last + 1]));
    }

    #[test]
    fn who_listens_hears_all_that_come_at_once() {
        let events = Events::new(Time(0));
        let mut live = events.subscribe();
        events.publish_all(vec![What::Missed.into(); KEPT]);
        assert_eq!((1..=KEPT as u64).find(|number| live.try_recv().unwrap().number != *number), None);
    }

    #[test]
    fn whether_anything_happened_is_answered_once_for_all_of_it() {
        let events = Events::new(Time(0));
        let happened = || std::pin::pin!(events.any()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!happened());
        events.publish_all(vec![]);
        assert!(!happened());
        events.publish_all(vec![What::Missed.into(); 3]);
        events.publish(What::Stopping);
        assert!(happened());
        assert!(!happened());
    }

    #[test]
    fn nothing_is_heard_twice() {
        let events = Events::new(Time(0));
        events.publish(What::Stopping);
        let (missed, mut live) = events.since(0);
        events.publish(What::Missed);
        assert_eq!(missed.unwrap().len(), 1);
        assert_eq!(live.try_recv().unwrap().number, 2);
        assert!(live.try_recv().is_err());
    }
}
