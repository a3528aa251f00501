//! Brings entries of job files into the queue, some thousand at a time: what each means as a job, whether that makes
//! sense, and what the engine made of it. Waits for disks and for the engine: never on a thread that serves clients.

mod line;
mod watch;
mod watches;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use nexus_api::import::{Fate, Import, Imported, Taken};
use nexus_api::job_file::{Entry, Format};
use nexus_api::problem::Problem;
use nexus_core::request::GpuSet;
use tokio::sync::oneshot;

pub use watches::Watches;

use crate::engine::{ImportLine, ImportOrder, Message};
use crate::import::line::Reader;
use crate::reload::Reload;
use crate::service_log::Line;
use crate::store::{JobEnv, Seen, WatchChange};

/// Lines that share a transaction. Other clients come in between.
const TOGETHER: usize = 10_000;

#[derive(Clone)]
pub struct Importer {
    pub engine: Sender<Message>,
    pub reload: Arc<Reload>,
}

/// What a watch remembers, kept in step with what is taken.
pub struct Memory<'a> {
    pub file: &'a str,
    pub format: Format,
    /// Numbers of the entries, in their order.
    pub marks: &'a [i64],
    pub seen: &'a mut Seen,
}

impl Importer {
    pub fn import(&self, import: Import, mut memory: Option<Memory>) -> Result<Imported, Problem> {
        let Import { file, folder, usual, entries, again, dry_run } = import;
        let (rules, gpu_arg) = (self.reload.rules(), self.reload.csv_gpu_arg());
        let env = Arc::new(JobEnv::of(usual.env.clone()));
        let mut reader = Reader::new(&usual, env, Path::new(&folder), &rules, gpu_arg, self.gpus()?);
        let mut imported = Imported::default();
        // Those that come after each other are named by what the file calls them: they go together.
        let together = match dry_run || entries.iter().any(|entry| entry.id.is_some()) {
            true => entries.len().max(1),
            false => TOGETHER,
        };
        let (mut from, mut on_its_way) = (0, None);
        let mut entries = entries.into_iter();
        // The next lines are read while the engine has those before them.
        while !entries.as_slice().is_empty() {
            let chunk: Vec<Entry> = entries.by_ref().take(together).collect();
            let count = chunk.len();
            let (lines, fates) = read(chunk, &mut reader);
            if !settle(on_its_way.take(), &mut imported, &mut memory)? {
                break;
            }
            let watch = memory.as_ref().map(|memory| memory.news(from, &fates));
            let notes = match dry_run || lines.is_empty() {
                true => vec![],
                false => vec![format!("Read {} from {file}", entries_word(lines.len())).into()],
            };
            let order = ImportOrder { lines, again, dry_run, watch: watch.clone(), notes };
            let (reply, answer) = oneshot::channel();
            self.engine.send(Message::Import { order, reply }).map_err(|_| Problem::Stopping)?;
            on_its_way = Some(OnItsWay { answer, fates, watch });
            from += count;
        }
        settle(on_its_way, &mut imported, &mut memory)?;
        imported.notes = reader.notes;
        Ok(imported)
    }

    /// GPUs that are here; none where they cannot be known now.
    fn gpus(&self) -> Result<Option<GpuSet>, Problem> {
        self.ask(|reply| {
            Message::Ask(Box::new(move |world, pool, _| {
                let known = match pool.local().gpus.error() {
                    Some(_) => None,
                    None => {
                        Some(world.machines().flat_map(|machine| machine.gpus.iter().map(|gpu| gpu.index)).collect())
                    }
                };
                // Whoever asked is gone.
                let _ = reply.send(known);
            }))
        })
    }

    fn order<T>(&self, message: impl FnOnce(oneshot::Sender<Result<T, Problem>>) -> Message) -> Result<T, Problem> {
        self.ask(message)?
    }

    fn ask<T>(&self, message: impl FnOnce(oneshot::Sender<T>) -> Message) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        self.engine.send(message(reply)).map_err(|_| Problem::Stopping)?;
        answer.blocking_recv().map_err(|_| Problem::Stopping)
    }

    /// Lines for service.log.
    fn tell(&self, lines: Vec<Line>) {
        if !lines.is_empty() {
            // The engine is gone, and with it the log.
            let _ = self.engine.send(Message::Note(lines));
        }
    }
}

/// Lines that the engine has, and what is known of them already.
struct OnItsWay {
    answer: oneshot::Receiver<Result<Vec<Fate>, Problem>>,
    fates: Vec<Taken>,
    watch: Option<WatchChange>,
}

/// Waits for what became of them; whether one can go on. What was taken before stays taken, and is told.
fn settle(sent: Option<OnItsWay>, imported: &mut Imported, memory: &mut Option<Memory>) -> Result<bool, Problem> {
    let Some(OnItsWay { answer, fates, watch }) = sent else { return Ok(true) };
    match answer.blocking_recv().unwrap_or(Err(Problem::Stopping)) {
        Ok(taken) => {
            imported.entries.extend(merged(fates, taken));
            if let (Some(memory), Some(change)) = (memory, watch) {
                memory.keep(change);
            }
            Ok(true)
        }
        Err(problem) if !imported.entries.is_empty() => {
            imported.stopped = Some(problem);
            Ok(false)
        }
        Err(problem) => Err(problem),
    }
}

impl Memory<'_> {
    /// What is remembered once these are taken. One that was refused may be right the next time.
    fn news(&self, from: usize, fates: &[Taken]) -> WatchChange {
        let mut seen = Seen::new();
        for (at, fate) in fates.iter().enumerate() {
            if !matches!(fate.fate, Fate::Refused { .. }) {
                let mark = self.marks[from + at];
                let before = self.seen.get(&mark).copied().unwrap_or(0);
                *seen.entry(mark).or_insert(before) += 1;
            }
        }
        WatchChange::News { file: self.file.to_string(), format: self.format, seen }
    }

    fn keep(&mut self, change: WatchChange) {
        if let WatchChange::News { seen, .. } = change {
            self.seen.extend(seen);
        }
    }
}

/// Lines for the engine, and the fates of all: those of its lines are yet to come.
fn read(entries: Vec<Entry>, reader: &mut Reader) -> (Vec<ImportLine>, Vec<Taken>) {
    let (mut lines, mut fates) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
    for entry in entries {
        let line = entry.line;
        match reader.line(entry) {
            Ok(ready) => {
                lines.push(ready);
                fates.push(Taken { line, fate: Fate::Queued { id: String::new() } });
            }
            Err(error) => fates.push(Taken { line, fate: Fate::Refused { error } }),
        }
    }
    (lines, fates)
}

fn merged(fates: Vec<Taken>, taken: Vec<Fate>) -> impl Iterator<Item = Taken> {
    let mut taken = taken.into_iter();
    fates.into_iter().map(move |one| match one.fate {
        Fate::Refused { .. } => one,
        _ => Taken { fate: taken.next().expect("the engine answers for each line"), ..one },
    })
}

fn entries_word(count: usize) -> String {
    if count == 1 { "1 entry".into() } else { format!("{count} entries") }
}
