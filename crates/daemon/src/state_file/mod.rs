//! Keeps the state file: a view of the GPUs in JSON for other programs, who may pause and resume GPUs in it.
//!
//! `{"gpu_status":[0.5,1.0],"paused_gpus":[1]}`: what jobs of nexus hold of each GPU, and which take no new one. The
//! database is the truth; the file follows it, and what somebody else changes in `paused_gpus` is taken as their will.

mod file;
mod keeper;
mod memory;
mod view;
mod watches;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::blocking;
use crate::engine::Message;
use crate::events::Events;
use crate::store::Readers;
use keeper::Keeper;
pub use memory::Memory;
pub use view::{View, paused};

/// Changes that come together are written together.
const TOGETHER: Duration = Duration::from_millis(50);

/// Between two looks for changes of our own, however much changes.
const APART: Duration = Duration::from_millis(300);

/// Who writes a file does so in several steps.
const WRITING: Duration = Duration::from_millis(30);

/// How long the end of the service waits for the last writing.
const LAST_WRITING: Duration = Duration::from_millis(500);

/// The file while the service runs.
pub struct StateFile {
    last: oneshot::Sender<View>,
    kept: JoinHandle<()>,
}

/// What is needed to keep it.
struct Around {
    /// Where it is to be.
    path: watch::Receiver<Option<PathBuf>>,
    readers: Readers,
    engine: Sender<Message>,
    events: Arc<Events>,
    /// The state when the service ends.
    last: oneshot::Receiver<View>,
}

impl StateFile {
    /// Keeps it from here on, where `path` says, if it says so.
    pub fn keep(
        path: watch::Receiver<Option<PathBuf>>,
        readers: Readers,
        engine: Sender<Message>,
        events: Arc<Events>,
    ) -> StateFile {
        let (sender, last) = oneshot::channel();
        let kept = tokio::spawn(keep(Around { path, readers, engine, events, last }));
        StateFile { last: sender, kept }
    }

    /// The service has ended; this is what it left.
    pub async fn end(self, view: View) {
        // One that was given up is kept no more.
        let _ = self.last.send(view);
        let _ = tokio::time::timeout(LAST_WRITING, self.kept).await;
    }
}

async fn keep(mut around: Around) {
    let mut memory = None;
    loop {
        let path = around.path.borrow_and_update().clone();
        let Some(path) = path else {
            tokio::select! {
                changed = around.path.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                _ = &mut around.last => return,
            }
        };
        let (known, readers, engine) = (memory.take(), around.readers, around.engine.clone());
        let begun = blocking::spawn(move || {
            let remembered = || readers.read(|reader| reader.meta(memory::KEY)).ok().flatten();
            let memory = known.unwrap_or_else(|| Memory::read(remembered().as_deref()));
            (Keeper::new(path, engine, memory), readers)
        });
        let Ok((keeper, readers)) = begun.await else { return };
        around.readers = readers;
        match keep_one(keeper, &mut around).await {
            Some(keeper) => memory = Some(keeper.memory),
            None => return,
        }
    }
}

/// Until another file is wanted, or the service ends.
async fn keep_one(mut keeper: Keeper, around: &mut Around) -> Option<Keeper> {
    let mut heard = around.events.subscribe();
    let (mut dirty, mut due, mut rest_until) = (true, Some(Instant::now()), Instant::now());
    loop {
        tokio::select! {
            changed = around.path.changed() => {
                return changed.is_ok().then_some(keeper);
            }
            view = &mut around.last => {
                if let Ok(view) = view {
                    // Nobody is left to tell of a failure.
                    let _ = blocking::spawn(move || keeper.finish(&view)).await;
                }
                return None;
            }
            () = keeper.watches.changed() => due = sooner(due, Instant::now() + WRITING),
            // Whatever it is, and if some were missed: the state is asked for as a whole.
            _ = heard.recv(), if !dirty => {
                dirty = true;
                due = sooner(due, (Instant::now() + TOGETHER).max(rest_until));
            }
            () = sleep_until(due.unwrap_or(rest_until)), if due.is_some() => {
                // From here on: what changes while the state is asked for is written with the next round.
                heard = around.events.subscribe();
                let was_dirty = std::mem::take(&mut dirty);
                let done = blocking::spawn(move || {
                    let again = keeper.round(was_dirty);
                    (keeper, again)
                });
                let (same, again) = done.await.ok()?;
                keeper = same;
                rest_until = Instant::now() + APART;
                due = match again {
                    Ok(again) => again.map(Instant::from_std),
                    // The engine is gone: its last state is on its way.
                    Err(()) => None,
                };
            }
        }
    }
}

fn sooner(due: Option<Instant>, at: Instant) -> Option<Instant> {
    Some(due.map_or(at, |due| due.min(at)))
}
