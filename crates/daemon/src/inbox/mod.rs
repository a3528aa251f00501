//! Keeps `jobs.txt`: writes the queue there, and takes the lines that others add.
//!
//! The file is a view and an inbox, never the truth. What somebody wrote is read before it is replaced; lines that
//! became jobs are remembered in the same transaction, until the file shows their ids, so that a crash in between
//! does not queue them again.

pub mod file;
mod take;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::blocking;
use crate::engine::Message;
use crate::events::Events;
use crate::file_watch::Watch;
use crate::inbox::take::{Keeper, Noise, Round};
use crate::queue_edit::FileNotes;
use crate::reload::Reload;
use crate::service_log::Line;
use crate::store::Readers;

/// Changes that come together are written together.
const TOGETHER: Duration = Duration::from_millis(200);

/// Between two writings, however much changes: a change is in the file within two seconds.
const APART: Duration = Duration::from_millis(1_500);

/// A file is read when nobody has written to it for this long: its last line may not be whole before.
const QUIET: Duration = Duration::from_millis(300);

/// One that is never quiet is read all the same.
const LONGEST_NOISE: Duration = Duration::from_secs(3);

/// After a failure (a full disk) it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

pub struct Inbox {
    pub path: PathBuf,
    pub user_home: String,
    pub readers: Readers,
    pub engine: Sender<Message>,
    pub events: Arc<Events>,
    pub notes: Arc<FileNotes>,
    pub reload: Arc<Reload>,
}

/// When to look at the file.
struct Times {
    due: Option<Instant>,
    /// Since when others have been writing, and when they last did.
    noise: Option<(Instant, Instant)>,
    /// No round for a mere change of the queue before.
    rest_until: Instant,
    dirty: bool,
}

impl Times {
    fn by(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn noise(&mut self) {
        let now = Instant::now();
        let since = self.noise.map_or(now, |(since, _)| since);
        self.noise = Some((since, now));
        self.due = Some((now + QUIET).min(since + LONGEST_NOISE));
    }

    fn noise_now(&self) -> Noise {
        match self.noise {
            Some((_, last)) if last.elapsed() >= QUIET => Noise::None,
            Some((since, _)) if since.elapsed() >= LONGEST_NOISE => Noise::Long,
            Some(_) => Noise::Fresh,
            None => Noise::None,
        }
    }

    fn queue_changed(&mut self) {
        self.dirty = true;
        self.by((Instant::now() + TOGETHER).max(self.rest_until));
    }
}

/// Runs as long as the service. Everything that takes time is done beside the threads that serve clients.
pub async fn keep(inbox: Inbox) {
    let (events, notes) = (inbox.events.clone(), inbox.notes.clone());
    // A file that is linked to is kept where it is.
    let path = std::fs::canonicalize(&inbox.path).unwrap_or_else(|_| inbox.path.clone());
    let watch = match Watch::of(&path) {
        Ok(watch) => watch,
        Err(error) => {
            let line = Line::error(format!("{} is not watched: {error}", path.display()));
            // The engine is gone: so is the service.
            return drop(inbox.engine.send(Message::Note(vec![line])));
        }
    };
    let mut keeper = Keeper::new(inbox, path, watch.eye());
    let now = Instant::now();
    let mut times = Times { due: Some(now), noise: None, rest_until: now, dirty: true };
    loop {
        tokio::select! {
            changed = watch.changed() => match changed {
                Ok(()) => times.noise(),
                Err(_) => return,
            },
            () = events.any(), if !times.dirty => times.queue_changed(),
            () = notes.nudge.notified() => {
                times.dirty = true;
                times.by(Instant::now());
            }
            () = sleep_until(times.due.unwrap_or(now)), if times.due.is_some() => {
                if at_once(watch.changed()).await.is_some_and(|changed| changed.is_ok()) {
                    times.noise();
                    if times.noise_now() == Noise::Fresh {
                        continue;
                    }
                }
                // From here on: what changes while the queue is read is written with the next round.
                times.dirty |= at_once(events.any()).await.is_some();
                let dirty = std::mem::take(&mut times.dirty);
                times.due = None;
                let (noise, began) = (times.noise_now(), Instant::now());
                let done = blocking::spawn(move || {
                    let round = keeper.round(dirty, noise);
                    (keeper, round)
                });
                let Ok((same, round)) = done.await else { return };
                keeper = same;
                // A long queue takes its time, and leaves some to others.
                times.rest_until = Instant::now() + APART.max(began.elapsed() * 4);
                after(round, &mut times, dirty);
            }
        }
    }
}

/// What is there already, if it is: a file that changed and nobody has looked, where the service was held up, say.
async fn at_once<T>(told: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        told = told => Some(told),
        () = std::future::ready(()) => None,
    }
}

fn after(round: Round, times: &mut Times, dirty: bool) {
    match round {
        Round::Done { look_again } => {
            times.noise = None;
            if let Some(at) = look_again {
                times.by(Instant::from_std(at));
            }
        }
        Round::Unfinished => {
            times.dirty |= dirty;
            times.by(Instant::now() + QUIET);
        }
        Round::Failed => {
            times.dirty = true;
            times.by(Instant::now() + AGAIN);
        }
    }
}
