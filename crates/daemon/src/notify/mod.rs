//! Tells somebody who is not looking what became of jobs, by webhooks and by a command.
//!
//! ```text
//!   engine ── ids, never waiting ──> collector ── notices ──> a courier for each webhook, one for the command
//!                                     reads the database,        tries again, gives up with a word in service.log
//!                                     chooses, makes digests
//! ```
//! Nothing here is on disk: what was not told when the service ends or dies is not told by the next one.

mod collector;
mod courier;
mod ear;
mod form;
mod hook;
mod post;
mod recipient;
mod sample;
mod settings;
mod summary;
mod template;
mod text;
mod times;
mod trouble;
mod webhook;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use nexus_api::notify::{About, Tried};
use nexus_api::standstill::Standstill;
use nexus_core::event::Event;
use nexus_core::ids::SweepId;
use nexus_core::world::World;
use nexus_node::threads;

use crate::store::Readers;
use collector::Collector;
use courier::Courier;
use ear::{Ear, Heard};
use recipient::Recipient;
pub use settings::Settings;
pub use template::Template;
use times::Times;
pub use webhook::Webhook;

/// What the engine may be ahead of the collector by.
const MOST_HEARD: usize = 8192;

/// How long a service that stops waits for notices to be told.
const LAST_NOTICES: Duration = Duration::from_secs(2);

/// How lines in service.log begin.
const LINE: &str = "Notify";

/// Told of what goes wrong, in a line for service.log. Must not block.
pub type Complain = Arc<dyn Fn(String) + Send + Sync>;

/// What those who pass on, make and bring notices share.
struct Desk {
    settings: Mutex<Arc<Settings>>,
    /// Passed on by the engine when there was no room.
    lost: AtomicU64,
    complain: Complain,
    /// Those who are still on their way when all has been passed on.
    left: Mutex<Option<Vec<Courier>>>,
    over: Condvar,
}

const UNBROKEN: &str = "nobody panics with it in hand";

impl Desk {
    fn settings(&self) -> Arc<Settings> {
        self.settings.lock().expect(UNBROKEN).clone()
    }

    fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    fn hand_over(&self, couriers: Vec<Courier>) {
        *self.left.lock().expect(UNBROKEN) = Some(couriers);
        self.over.notify_all();
    }
}

/// The engine's end. Costs nothing while nobody is to be told, and never waits.
pub struct Teller {
    to: Option<(SyncSender<Heard>, Arc<Desk>)>,
    /// None while nobody is to be told.
    ear: Option<Ear>,
}

impl Teller {
    /// One who keeps what he hears for a test.
    #[cfg(test)]
    pub fn listening() -> (Teller, Told) {
        let (to, inbox) = sync_channel(MOST_HEARD);
        let desk = Arc::new(Desk {
            settings: Mutex::default(),
            lost: AtomicU64::new(0),
            complain: Arc::new(|_| ()),
            left: Mutex::new(None),
            over: Condvar::new(),
        });
        (Teller { to: Some((to, desk)), ear: None }, Told(inbox))
    }

    /// These settings are in force from now on.
    pub fn follow(&mut self, settings: &Settings, world: &World) {
        let Some((to, desk)) = &self.to else { return };
        let starts = settings.tells(About::Start, false);
        self.ear = (!settings.is_off()).then(|| Ear::of(world, starts));
        *desk.settings.lock().expect(UNBROKEN) = Arc::new(settings.clone());
        // Where there is no room it has work, and looks after that.
        let _ = to.try_send(Heard::Look);
    }

    /// The queue stands still.
    pub fn tell_standstill(&mut self, standstill: Standstill) {
        let (Some((to, desk)), Some(_)) = (&self.to, &self.ear) else { return };
        if let Err(TrySendError::Full(_)) = to.try_send(Heard::Blocked(Box::new(standstill))) {
            desk.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events that are on disk. `world` is as it is after them, `new` are sweeps that came with them.
    pub fn hear(&mut self, events: &[Event], new: impl Iterator<Item = SweepId>, world: &World) {
        let (Some((to, desk)), Some(ear)) = (&self.to, &mut self.ear) else { return };
        for heard in ear.hear(events, new, world) {
            if let Err(TrySendError::Full(_)) = to.try_send(heard) {
                desk.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// What a [`Teller`] passed on in a test.
#[cfg(test)]
pub struct Told(std::sync::mpsc::Receiver<Heard>);

#[cfg(test)]
impl Told {
    /// Of queues that stand still, since the last call.
    pub fn standstills(&self) -> Vec<Standstill> {
        let standstill = |heard| if let Heard::Blocked(standstill) = heard { Some(*standstill) } else { None };
        self.0.try_iter().filter_map(standstill).collect()
    }
}

/// For those who try out what is configured, and for the end.
pub struct Notices {
    desk: Arc<Desk>,
    times: Times,
    host: String,
}

/// Begins to tell what a [`Teller`] hears.
pub fn start(readers: Readers, log_dir: PathBuf, host: &str, complain: Complain) -> std::io::Result<(Teller, Notices)> {
    let (to, inbox) = sync_channel(MOST_HEARD);
    let desk = Arc::new(Desk {
        settings: Mutex::default(),
        lost: AtomicU64::new(0),
        complain,
        left: Mutex::new(None),
        over: Condvar::new(),
    });
    let times = Times::of_environment();
    let collector = Collector {
        inbox,
        desk: desk.clone(),
        readers,
        log_dir,
        host: host.into(),
        times,
        settings: Arc::default(),
        couriers: vec![],
        collected: vec![],
        due: None,
    };
    threads::start("nexus-notices", move || collector.run())?;
    Ok((Teller { to: Some((to, desk.clone())), ear: None }, Notices { desk, times, host: host.into() }))
}

impl Notices {
    /// Sends each who is told a notice that says it is one, and waits for the answers. None where nobody is told.
    pub fn test(&self) -> Option<Vec<Tried>> {
        let recipients = Recipient::all(&self.desk.settings());
        let (limit, notice) = (self.times.limit, sample::test(&self.host));
        let try_one = &|recipient: &Recipient| {
            let began = Instant::now();
            let told = recipient.tell(&notice, limit);
            let milliseconds = began.elapsed().as_millis() as u64;
            let (answer, error) = match told {
                Ok(answer) => (Some(answer), None),
                Err(trouble) => (None, Some(trouble.why)),
            };
            Tried { recipient: recipient.to_string(), answer, error, milliseconds }
        };
        let tried = std::thread::scope(|scope| {
            let start = |one| (one, threads::start_scoped(scope, "nexus-notify", move || try_one(one)));
            let all: Vec<_> = recipients.iter().map(start).collect();
            let join = |(one, thread): (_, std::io::Result<ScopedJoinHandle<Tried>>)| match thread {
                Ok(thread) => thread.join().expect("an attempt does not panic"),
                // No thread is to be had.
                Err(_) => try_one(one),
            };
            all.into_iter().map(join).collect::<Vec<_>>()
        });
        (!tried.is_empty()).then_some(tried)
    }

    /// The engine is gone. What was not told yet is tried for a moment; lines on what could not be.
    pub fn end(&self) -> Vec<String> {
        let until = Instant::now() + LAST_NOTICES;
        let mut left = self.desk.left.lock().expect(UNBROKEN);
        while left.is_none() && Instant::now() < until {
            let patience = until.saturating_duration_since(Instant::now());
            left = self.desk.over.wait_timeout(left, patience).expect(UNBROKEN).0;
        }
        let Some(couriers) = left.take() else {
            return vec![format!("{LINE}: what happened last was not told before the service stopped")];
        };
        couriers.iter().for_each(|courier| courier.hurry(until));
        couriers.iter().filter_map(|courier| courier.end(until)).collect()
    }
}

#[cfg(test)]
mod tests {
    use nexus_core::job::End;
    use nexus_core::time::Time;

    use super::*;

    #[test]
    fn whoever_passes_on_never_waits_and_what_had_no_room_is_counted() {
        let (to, inbox) = sync_channel(2);
        let desk = Arc::new(Desk {
            settings: Mutex::default(),
            lost: AtomicU64::new(0),
            complain: Arc::new(|_| ()),
            left: Mutex::new(None),
            over: Condvar::new(),
        });
        let mut teller = Teller { to: Some((to, desk.clone())), ear: None };
        let ended = |id: &str| Event::JobEnded { job: id.parse().unwrap(), end: End::Completed, at: Time(0) };
        let world = World::default();
        teller.hear(&[ended("abc")], [].into_iter(), &world);
        assert!(inbox.try_recv().is_err(), "nobody is to be told");
        teller.follow(&Settings { command: Some("true".into()), ..Settings::default() }, &world);
        teller.hear(&["abc", "abd", "abe", "abf"].map(ended), [].into_iter(), &world);
        let heard: Vec<Heard> = inbox.try_iter().collect();
        assert_eq!(heard, [Heard::Look, Heard::Ended("abc".parse().unwrap())]);
        assert_eq!((desk.take_lost(), desk.take_lost()), (3, 0));
        teller.follow(&Settings::default(), &world);
        teller.hear(&[ended("abg")], [].into_iter(), &world);
        assert_eq!(inbox.try_iter().collect::<Vec<_>>(), [Heard::Look], "nobody any more");
    }
}
