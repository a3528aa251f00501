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
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_core::request::GpuSet;
use tokio::sync::oneshot;

pub use line::Reader;
pub use watches::Watches;

use crate::engine::{ImportLine, ImportOrder, Message, Settled};
use crate::reload::Reload;
use crate::service_log::Line;
use crate::store::{JobEnv, Seen, WatchChange};

/// Lines that share a transaction. Other clients come in between.
pub const TOGETHER: usize = 5_000;

#[derive(Clone)]
pub struct Importer {
    pub engine: Sender<Message>,
    pub reload: Arc<Reload>,
    pub home: Home,
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
    /// `import`: without its entries.
    pub fn import(&self, import: Import, entries: Vec<Entry>, memory: Option<Memory>) -> Result<Imported, Problem> {
        // Those that come after each other are named by what the file calls them: they go together.
        let together = match import.dry_run || entries.iter().any(|entry| entry.id.is_some()) {
            true => entries.len().max(1),
            false => TOGETHER,
        };
        let mut entries = entries.into_iter();
        let mut next = || {
            let part: Vec<Entry> = entries.by_ref().take(together).collect();
            Ok((!part.is_empty()).then_some(part))
        };
        let mut imported = Imported::default();
        self.import_parts(import, &mut next, memory, &mut |part| {
            imported.entries.extend(part.entries);
            imported.notes.extend(part.notes);
            imported.stopped = part.stopped;
        })?;
        Ok(imported)
    }

    /// Entries as they come, some thousand at a time. What became of each part is told when it is on disk; an error is
    /// returned only where nothing was told before it.
    pub fn import_parts(
        &self,
        import: Import,
        next: &mut dyn FnMut() -> Result<Option<Vec<Entry>>, Problem>,
        mut memory: Option<Memory>,
        tell: &mut dyn FnMut(Imported),
    ) -> Result<(), Problem> {
        let Import { file, folder, usual, again, dry_run, .. } = import;
        let (rules, gpu_arg) = (self.reload.rules(), self.reload.csv_gpu_arg());
        let env = Arc::new(JobEnv::of(usual.env.clone()));
        let mut reader = Reader::new(&usual, env, Path::new(&folder), &rules, gpu_arg, self.gpus()?, &self.home);
        let (mut from, mut told, mut on_its_way) = (0, false, None);
        let stopped = loop {
            // The next lines are read while the engine has those before them.
            let part = next().map(|part| part.map(|entries| read(entries, &mut reader)));
            let settled = match on_its_way.take().map(|sent| settle(sent, &mut memory)).transpose() {
                Ok(settled) => settled,
                Err(problem) => break Some(problem),
            };
            let sent = part.and_then(|part| {
                let Some((lines, fates)) = part else { return Ok(None) };
                let watch = memory.as_ref().map(|memory| memory.news(from, &fates));
                from += fates.len();
                let notes = match dry_run || lines.is_empty() {
                    true => vec![],
                    false => vec![format!("Read {} from {file}", entries_word(lines.len())).into()],
                };
                let order = ImportOrder { lines, again, dry_run, watch: watch.clone(), notes };
                let (reply, answer) = oneshot::channel();
                self.engine.send(Message::Import { order, reply }).map_err(|_| Problem::Stopping)?;
                Ok(Some(OnItsWay { answer, fates, watch }))
            });
            // And what became of those is told while it has the next.
            if let Some(entries) = settled {
                tell(Imported { entries, ..Imported::default() });
                told = true;
            }
            match sent {
                Ok(Some(sent)) => on_its_way = Some(sent),
                Ok(None) => break None,
                Err(problem) => break Some(problem),
            }
        };
        match stopped {
            Some(problem) if !told => Err(problem),
            stopped => {
                tell(Imported { entries: vec![], notes: reader.notes(), stopped });
                Ok(())
            }
        }
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
    answer: oneshot::Receiver<Result<Vec<Settled>, Problem>>,
    fates: Vec<Taken>,
    watch: Option<WatchChange>,
}

/// Waits for what became of them.
fn settle(sent: OnItsWay, memory: &mut Option<Memory>) -> Result<Vec<Taken>, Problem> {
    let OnItsWay { answer, fates, watch } = sent;
    let taken = answer.blocking_recv().unwrap_or(Err(Problem::Stopping))?;
    if let (Some(memory), Some(change)) = (memory, watch) {
        memory.keep(change);
    }
    Ok(merged(fates, taken).collect())
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

fn merged(fates: Vec<Taken>, taken: Vec<Settled>) -> impl Iterator<Item = Taken> {
    let mut taken = taken.into_iter();
    fates.into_iter().map(move |one| match one.fate {
        Fate::Refused { .. } => one,
        _ => match taken.next().expect("the engine answers for each line") {
            Settled::Queued(id) => Taken { fate: Fate::Queued { id: id.to_string() }, ..one },
            Settled::Told(fate) => Taken { fate, ..one },
        },
    })
}

fn entries_word(count: usize) -> String {
    if count == 1 { "1 entry".into() } else { format!("{count} entries") }
}
