//! What happened, told to whoever listens: as it happens, and once more to those who were away for a moment.
//!
//! Numbers rise by one within a service's life and from one life to the next, so that a listener who comes back with
//! the number of another life is known to have missed something.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use nexus_api::events::{Event, What};
use nexus_core::time::Time;
use tokio::sync::broadcast;

/// So many are there for those who come back, and so far may a slow listener fall behind before it is told to read
/// anew.
const KEPT: usize = 4096;

pub type Receiver = broadcast::Receiver<Arc<Event>>;

pub struct Events {
    live: broadcast::Sender<Arc<Event>>,
    kept: Mutex<Kept>,
}

struct Kept {
    last: u64,
    events: VecDeque<Arc<Event>>,
}

impl Events {
    /// Of a service that starts now. A thousand numbers a millisecond are more than one can use up.
    pub fn new(now: Time) -> Events {
        let (live, _) = broadcast::channel(KEPT);
        let last = now.0.unsigned_abs() * 1000;
        Events { live, kept: Mutex::new(Kept { last, events: VecDeque::new() }) }
    }

    pub fn publish(&self, what: What) {
        let mut kept = self.kept();
        kept.last += 1;
        let event = Arc::new(Event { number: kept.last, what });
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        if self.live.receiver_count() > 0 {
            // Nobody listening any more is no error.
            let _ = self.live.send(event);
        }
    }

    pub fn subscribe(&self) -> Receiver {
        self.live.subscribe()
    }

    /// What followed that number and is not in the receiver any more; none where some of it is forgotten.
    pub fn since(&self, number: u64) -> (Option<Vec<Arc<Event>>>, Receiver) {
        let kept = self.kept();
        let known = (kept.last - kept.events.len() as u64)..=kept.last;
        let missed = || kept.events.iter().filter(|event| event.number > number).cloned().collect();
        (known.contains(&number).then(missed), self.live.subscribe())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("nobody panics with the events")
    }
}

#[cfg(test)]
mod tests {
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
