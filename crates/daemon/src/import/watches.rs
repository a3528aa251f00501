//! All watched files: one listener each, from when somebody asks for it until somebody ends it, whatever becomes of the
//! service meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Shared, PoisonError};
use std::time::{Duration, SystemTime};

use nexus_api::import::{Watch as Asked, Watched, Watching};
use nexus_api::problem::Problem;
use tokio::sync::{Mutex, Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::Importer;
use super::watch::{self, Keeper, Look};
use crate::engine::Message;
use crate::file_watch::Watch;
use crate::service_log::Line;
use crate::store::{Readers, WatchChange, WatchRow};
use crate::{blocking, clock};

/// An editor's steps, or a writer's lines, are taken together when nothing has come for this long.
const TOGETHER: Duration = Duration::from_millis(30);

/// Somebody who never stops writing is heard all the same.
const LONGEST_NOISE: Duration = Duration::from_millis(120);

/// A file that nobody has written to for this long is as it is meant.
const QUIET: Duration = Duration::from_secs(1);

/// Times that somebody goes on writing while whoever asked for the watch waits.
const MOST_WAITS: usize = 20;

/// After a failure (a full disk) it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

pub struct Watches {
    importer: Importer,
    readers: Readers,
    /// The service's own file of jobs, and folders in which its own files are: none of these is watched.
    own: Vec<PathBuf>,
    running: Mutex<BTreeMap<String, Running>>,
}

struct Running {
    end: Arc<Notify>,
    view: Arc<Shared<Watched>>,
    task: JoinHandle<Option<Keeper>>,
}

impl Watches {
    pub fn new(importer: Importer, readers: Readers, own: &[&Path]) -> Watches {
        let real = own.iter().filter_map(|path| std::fs::canonicalize(path).ok());
        let own = own.iter().map(|path| path.to_path_buf()).chain(real).collect();
        Watches { importer, readers, own, running: Mutex::default() }
    }

    pub fn importer(&self) -> Importer {
        self.importer.clone()
    }

    /// Those that were asked for before this service began.
    pub async fn resume(&self) {
        let rows = blocking::in_place(|| self.readers.read(|reader| reader.watches()));
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => return self.importer.tell(vec![Line::error(error.problem())]),
        };
        let mut running = self.running.lock().await;
        for row in rows {
            let file = row.file.clone();
            match self.keeper(row) {
                Ok((keeper, watch)) => drop(running.insert(file, begin(keeper, watch, Some(Instant::now())))),
                Err(problem) => self.importer.tell(vec![Line::warn(format!("{file} is not watched: {problem}"))]),
            }
        }
    }

    /// Watches a file from now on; what stands there is taken before this returns.
    pub async fn watch(&self, asked: Asked) -> Result<Watching, Problem> {
        self.can_be_watched(&asked.file, asked.shared_with.as_deref())?;
        let mut running = self.running.lock().await;
        let mut row = WatchRow {
            file: asked.file.clone(),
            format: asked.format,
            usual: asked.usual,
            again: asked.again,
            since: clock::now(),
            shared_with: asked.shared_with,
        };
        let known = running.remove(&asked.file);
        let before = known.is_some();
        if let Some(known) = known {
            known.end.notify_one();
            if let Ok(Some(keeper)) = known.task.await {
                row.since = keeper.row.since;
                row.format = row.format.or(keeper.row.format);
            }
        }
        let change = WatchChange::Begin(Box::new(row.clone()));
        let line = match &row.shared_with {
            Some(group) => format!("{} is watched by user, shared with group {group}", row.file),
            None => format!("{} is watched by user", row.file),
        };
        self.keep(change, line).await?;
        let (keeper, watch) = blocking::in_place(|| self.keeper(row))?;
        let (keeper, look) = first_look(keeper, &watch).await?;
        let next = look.unsettled.then(|| Instant::now() + QUIET);
        let next = if look.again { Some(Instant::now() + AGAIN) } else { next };
        let watched = view(&keeper);
        running.insert(asked.file, begin(keeper, watch, next));
        let Look { imported, refused, doubtful, .. } = look;
        Ok(Watching { watched, before, imported, refused, doubtful })
    }

    pub async fn list(&self) -> Vec<Watched> {
        let running = self.running.lock().await;
        running.values().map(|one| one.view.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    /// Ends one; its jobs stay.
    pub async fn end(&self, file: &str) -> Result<Watched, Problem> {
        let mut running = self.running.lock().await;
        let Some(known) = running.remove(file) else {
            return Err(Problem::NotWatched { file: file.into(), watched: running.keys().cloned().collect() });
        };
        known.end.notify_one();
        // One that panicked has ended too.
        let _ = known.task.await;
        let (change, line) = (WatchChange::End { file: file.into() }, format!("{file} is no longer watched, by user"));
        self.keep(change, line).await?;
        Ok(known.view.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// On disk when this returns.
    async fn keep(&self, change: WatchChange, line: String) -> Result<(), Problem> {
        let (reply, answer) = oneshot::channel();
        self.importer.engine.send(Message::Watch { change, line, reply }).map_err(|_| Problem::Stopping)?;
        answer.await.unwrap_or(Err(Problem::Stopping))
    }

    /// A file, or nothing yet. Where a stranger can write to it, or put one there, it is not even begun.
    fn can_be_watched(&self, file: &str, shared_with: Option<&str>) -> Result<(), Problem> {
        let found = blocking::in_place(|| std::fs::metadata(file));
        let error = match found {
            _ if !Path::new(file).is_absolute() => "its path is not absolute",
            _ if self.own.iter().any(|own| Path::new(file).starts_with(own)) => {
                "it is one of nexus's own, which change with every job; new lines of jobs.txt are taken anyway"
            }
            Ok(found) if found.is_dir() => "it is a folder",
            Ok(found) if !found.is_file() => "it is not a file",
            _ => {
                let trusted = blocking::in_place(|| watch::trusted(file, shared_with));
                return trusted.map_err(|error| Problem::CannotWatch { file: file.into(), error });
            }
        };
        Err(Problem::CannotWatch { file: file.into(), error: error.into() })
    }

    fn keeper(&self, row: WatchRow) -> Result<(Keeper, Watch), Problem> {
        let fail = |error: std::io::Error| Problem::Internal { error: format!("{}: {error}", row.file) };
        let watch = Watch::of(Path::new(&row.file)).map_err(fail)?;
        let seen = self.readers.read(|reader| reader.seen_entries(&row.file)).map_err(|error| error.problem())?;
        let eye = watch.eye();
        Ok((Keeper::new(row, seen, self.importer.clone(), eye), watch))
    }
}

/// With all that stands there, its last line too: whoever asks wants to see it.
async fn first_look(keeper: Keeper, watch: &Watch) -> Result<(Keeper, Look), Problem> {
    let age = std::fs::metadata(&keeper.row.file).and_then(|found| found.modified());
    let quiet = age.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age >= QUIET));
    let (keeper, look) = looked(keeper, quiet).await.ok_or(Problem::Stopping)?;
    if quiet || !look.unsettled || !becomes_quiet(watch).await {
        return Ok((keeper, look));
    }
    let (keeper, mut rest) = looked(keeper, true).await.ok_or(Problem::Stopping)?;
    rest.imported.entries.splice(0..0, look.imported.entries);
    rest.refused.splice(0..0, look.refused);
    rest.doubtful.splice(0..0, look.doubtful);
    Ok((keeper, rest))
}

/// Whether nobody writes to the file for a while; one who never stops is not waited for.
async fn becomes_quiet(watch: &Watch) -> bool {
    for _ in 0..MOST_WAITS {
        if timeout(QUIET, watch.changed()).await.is_err() {
            return true;
        }
    }
    false
}

/// Off the threads that serve clients.
async fn looked(mut keeper: Keeper, quiet: bool) -> Option<(Keeper, Look)> {
    let looking = blocking::spawn(move || {
        let look = keeper.look(quiet);
        (keeper, look)
    });
    looking.await.ok()
}

fn begin(keeper: Keeper, watch: Watch, next: Option<Instant>) -> Running {
    let (end, view) = (Arc::new(Notify::new()), Arc::new(Shared::new(view(&keeper))));
    let task = tokio::spawn(keep(keeper, watch, next, end.clone(), view.clone()));
    Running { end, view, task }
}

fn view(keeper: &Keeper) -> Watched {
    let row = &keeper.row;
    Watched {
        file: row.file.clone(),
        format: row.format,
        again: row.again,
        cwd: row.usual.cwd.clone(),
        since: clock::rfc3339(row.since),
        taken: keeper.taken(),
        trouble: keeper.trouble.clone(),
        shared_with: row.shared_with.clone(),
    }
}

/// Until it is ended; then it gives back what it knows.
async fn keep(
    mut keeper: Keeper,
    watch: Watch,
    next: Option<Instant>,
    end: Arc<Notify>,
    shown: Arc<Shared<Watched>>,
) -> Option<Keeper> {
    let mut due = next;
    // Since when others have been writing, and when they last did.
    let mut noise: Option<Instant> = None;
    // What was written before this began is not known to be whole.
    let mut last_heard = Instant::now();
    loop {
        tokio::select! {
            () = end.notified() => return Some(keeper),
            heard = watch.changed() => {
                heard.ok()?;
                let now = Instant::now();
                let since = *noise.get_or_insert(now);
                last_heard = now;
                due = Some((now + TOGETHER).min(since + LONGEST_NOISE));
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                due = None;
                noise = None;
                let quiet = last_heard.elapsed() >= QUIET;
                let (same, look) = looked(keeper, quiet).await?;
                keeper = same;
                if look.again {
                    due = Some(Instant::now() + AGAIN);
                } else if look.unsettled {
                    due = Some(last_heard + QUIET);
                }
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = view(&keeper);
            }
        }
    }
}
