//! Compares the file with what is known of it, takes what others changed, and writes what is.
//!
//! ```text
//!   known ──────> what stands there now     the difference is somebody else's will: pause, resume
//!     └─────────> what the service has      both together are written back, and known from then on
//! ```
//! So a pause that is given while somebody writes the file is not lost, and our own writing is nobody's will.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime};

use nexus_core::request::GpuSet;
use tokio::sync::oneshot;

use super::file::{self, Found};
use super::memory::Memory;
use super::view::{self, Change, View};
use super::watches::Watches;
use crate::engine::Message;
use crate::service_log::Line;

/// What is wrong with the file is told when it has been so for this long: its writer may not be done.
const SETTLED: Duration = Duration::from_secs(1);

/// What somebody wrote is left for so long, if it is not as it should be: an editor may be at work.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// A writer that had the old file open writes to it no longer than this, one hopes.
const OLD_FILE_LIFE: Duration = Duration::from_secs(10);
const MOST_OLD_FILES: usize = 16;

/// Who writes so soon after us may not have seen what we wrote: a pause that is missing there was not taken away.
const MOMENT: Duration = Duration::from_millis(500);

/// GPUs that have not been read yet.
const UNREAD_AGAIN: Duration = Duration::from_secs(1);

/// After a failure (a full disk) it is tried again.
const AGAIN: Duration = Duration::from_secs(5);

pub struct Keeper {
    /// As it was named.
    path: PathBuf,
    engine: Sender<Message>,
    pub memory: Memory,
    pub watches: Watches,
    /// The text when it was last in order: read and taken, or written.
    last: Option<String>,
    /// The pauses that stand in it; none for a file that was never in order.
    known: Option<GpuSet>,
    strange: Option<Strange>,
    old_files: Vec<OldFile>,
    fresh: Option<Fresh>,
    /// The last failure: it is told once.
    trouble: Option<String>,
    begun: bool,
    /// The state may be another than the one that was written.
    dirty: bool,
}

/// Somebody else's text, not put right yet.
struct Strange {
    found: String,
    since: Instant,
    /// What was told to be wrong with it, or with what stood there before.
    told: Option<String>,
}

/// Replaced, and perhaps still written to by those who had it open.
struct OldFile {
    file: File,
    seen: String,
    known: GpuSet,
    until: Instant,
}

/// Pauses that we wrote last, and when.
struct Fresh {
    gpus: GpuSet,
    at: SystemTime,
}

/// How the file stands.
enum Standing {
    Missing,
    /// As it should be but for what changed since.
    InOrder,
    /// Somebody changed what we do not read.
    Touched,
    /// Nothing can be taken from it.
    Broken,
    /// It cannot be read, or is no file: nothing can be put there either.
    InTheWay,
}

impl Keeper {
    pub fn new(path: PathBuf, engine: Sender<Message>, memory: Memory) -> Keeper {
        let watches = Watches::of(&path);
        let known = memory.of(&path).last().copied();
        let (last, strange, old_files, fresh, trouble) = (None, None, vec![], None, None);
        Keeper {
            path,
            engine,
            memory,
            watches,
            last,
            known,
            strange,
            old_files,
            fresh,
            trouble,
            begun: false,
            dirty: true,
        }
    }

    /// `dirty`: the state may have changed. When to look again, though nothing happens; an error means that the
    /// service is going down.
    pub fn round(&mut self, dirty: bool) -> Result<Option<Instant>, ()> {
        self.dirty |= dirty;
        match self.look() {
            Ok(again) => {
                self.trouble = None;
                Ok(again)
            }
            Err(Failure::ServiceGone) => Err(()),
            Err(Failure::Trouble(error)) => {
                if self.trouble.as_ref() != Some(&error) {
                    self.log(Line::error(format!("state file {}: {error}", self.path.display())));
                    self.trouble = Some(error);
                }
                Ok(Some(Instant::now() + AGAIN))
            }
        }
    }

    fn look(&mut self) -> Result<Option<Instant>, Failure> {
        let mut view = self.ask()?;
        if !view.known {
            return Ok(Some(Instant::now() + UNREAD_AGAIN));
        }
        let real = file::real(&self.path);
        self.watches.look(&real);
        if !std::mem::replace(&mut self.begun, true) {
            self.pick_up(&real);
        }
        let mut took = self.take_from_old_files(&view)?;
        let found = file::find(&real);
        let standing = self.take(&found, &view, &mut took)?;
        if took {
            view = self.ask()?;
        }
        let text = view.text();
        if matches!(&found, Found::Text { text: there, .. } if *there == text) {
            self.in_order(&text);
        } else if self.may_write(&standing, took, &found) {
            self.write(&real, text, &view, &found)?;
            if self.take_from_old_files(&view)? {
                return Ok(Some(Instant::now()));
            }
        }
        self.old_files.retain(|old| old.until > Instant::now());
        Ok(self.next_look())
    }

    /// What a service that was killed had replaced, or had not yet put into its place.
    fn pick_up(&mut self, real: &Path) {
        let Some(file) = file::left_over(real) else { return };
        let ours = self.memory.of(&self.path);
        let text = file::whole(&file).unwrap_or_default();
        // One that was never in its place, or was ours when it was replaced, says nothing new.
        let seen = view::paused(&text).is_ok_and(|paused| ours.contains(&paused)).then_some(text);
        let old = OldFile { file, seen: seen.unwrap_or_default(), known: self.base(), until: old_file_end() };
        self.old_files.push(old);
    }

    /// Takes what somebody changed; how the file stands.
    fn take(&mut self, found: &Found, view: &View, took: &mut bool) -> Result<Standing, Failure> {
        let (text, modified) = match found {
            Found::Nothing => {
                self.strange = None;
                return Ok(Standing::Missing);
            }
            Found::Other(why) => {
                self.notice(why);
                self.tell_broken(why, "it is left alone");
                return Ok(Standing::InTheWay);
            }
            Found::Text { text, modified } => (text, *modified),
        };
        if self.last.as_ref() == Some(text) {
            // One that was broken meanwhile is what it was.
            self.strange = self.strange.take().filter(|strange| strange.found == *text);
            return Ok(if self.strange.is_some() { Standing::Touched } else { Standing::InOrder });
        }
        self.notice(text);
        let changed = view::paused(text).and_then(|paused| self.changed(paused, view));
        let change = match changed {
            Ok(change) => change,
            Err(why) => {
                let what_then = match self.known.is_some() || text.trim().is_empty() {
                    true => "pauses stay as they are, and it is put right if it stays so",
                    false => "it is left alone; name another with nexus config set paths.state_file, or move it away",
                };
                self.tell_broken(&why, what_then);
                return Ok(Standing::Broken);
            }
        };
        self.tell_mended();
        let Change { paused, pause, resume } = self.spared(change, modified);
        let mut memory = self.memory.clone();
        memory.set(&self.path, &[paused]);
        if self.known != Some(paused) || !pause.is_empty() || !resume.is_empty() {
            self.order(pause, resume, memory)?;
            *took = true;
        }
        (self.known, self.last) = (Some(paused), Some(text.clone()));
        Ok(Standing::Touched)
    }

    /// What somebody who wrote these pauses wants. At first use they are pauses, and nothing is resumed.
    fn changed(&self, paused: GpuSet, view: &View) -> Result<Change, String> {
        let ours = self.memory.of(&self.path);
        let known = if ours.contains(&paused) && self.last.is_none() { paused } else { self.base() };
        Change::between(known, paused, view)
    }

    /// Without the end of pauses that its writer may not have seen.
    fn spared(&self, change: Change, modified: Option<SystemTime>) -> Change {
        let at_once = |fresh: &&Fresh| {
            let apart = modified.map(|at| at.duration_since(fresh.at).unwrap_or_else(|before| before.duration()));
            apart.is_some_and(|apart| apart < MOMENT)
        };
        let fresh = self.fresh.as_ref().filter(at_once).map_or(GpuSet::EMPTY, |fresh| fresh.gpus);
        let spared = change.resume.and(fresh);
        for index in spared.iter() {
            self.log(format!("GPU {index} stays paused: the state file was written at the same moment"));
        }
        Change { resume: change.resume.minus(spared), ..change }
    }

    /// What somebody wrote to a file that had just been replaced.
    fn take_from_old_files(&mut self, view: &View) -> Result<bool, Failure> {
        let mut took = false;
        for place in 0..self.old_files.len() {
            let old = &self.old_files[place];
            let Some(text) = file::whole(&old.file).filter(|text| *text != old.seen) else { continue };
            // Half of it may be there, or what is there is told by nobody: the file itself is in order.
            let change = view::paused(&text).and_then(|paused| Change::between(old.known, paused, view));
            let Ok(Change { paused, pause, resume }) = change else { continue };
            if !pause.is_empty() || !resume.is_empty() {
                self.order(pause, resume, self.memory.clone())?;
                took = true;
            }
            (self.old_files[place].seen, self.old_files[place].known) = (text, paused);
        }
        Ok(took)
    }

    fn may_write(&self, standing: &Standing, took: bool, found: &Found) -> bool {
        let is_quiet = self.strange.as_ref().is_none_or(|strange| strange.since.elapsed() >= LEFT_ALONE);
        match standing {
            Standing::Missing | Standing::InOrder => true,
            Standing::Touched => self.dirty || took || is_quiet,
            // One that was never a state file may be dear to somebody.
            Standing::Broken => is_quiet && (self.known.is_some() || is_blank(found)),
            Standing::InTheWay => false,
        }
    }

    fn write(&mut self, real: &Path, text: String, view: &View, found: &Found) -> Result<(), Failure> {
        let before = self.base();
        let is_new = self.known != Some(view.paused);
        if is_new {
            // Whichever of the two is found after a crash is ours.
            let mut memory = self.memory.clone();
            memory.set(&self.path, &[before, view.paused]);
            self.order(GpuSet::EMPTY, GpuSet::EMPTY, memory)?;
        }
        let old = file::replace(real, &text).map_err(|error| Failure::Trouble(cannot(&error)))?;
        if let (Some(file), Found::Text { text: seen, .. }) = (old, found) {
            self.old_files.push(OldFile { file, seen: seen.clone(), known: before, until: old_file_end() });
            let surplus = self.old_files.len().saturating_sub(MOST_OLD_FILES);
            self.old_files.drain(..surplus);
        }
        if is_new {
            let gpus = view.paused.minus(before);
            self.fresh = file::modified(real).map(|at| Fresh { gpus, at });
            self.memory.set(&self.path, &[view.paused]);
            let (key, value) = self.memory.note();
            self.send(Message::Keep { key, value })?;
        }
        self.known = Some(view.paused);
        self.in_order(&text);
        // The new file is another one.
        self.watches.look(real);
        Ok(())
    }

    /// The last word of a service that ends. Who changed the file meanwhile is heard by the next one.
    pub fn finish(&mut self, view: &View) {
        let real = file::real(&self.path);
        let untouched = match file::find(&real) {
            Found::Text { text, .. } => self.last.as_ref() == Some(&text) && text != view.text(),
            Found::Nothing | Found::Other(_) => false,
        };
        if untouched && view.known && self.known == Some(view.paused) {
            // The next service writes it.
            let _ = file::replace(&real, &view.text());
        }
    }

    /// The pauses that stood there by our own doing; none at first use.
    fn base(&self) -> GpuSet {
        self.known.unwrap_or_default()
    }

    fn in_order(&mut self, text: &str) {
        self.tell_mended();
        (self.strange, self.dirty) = (None, false);
        self.last = Some(text.to_string());
    }

    fn notice(&mut self, found: &str) {
        if self.strange.as_ref().is_none_or(|strange| strange.found != found) {
            let told = self.strange.take().and_then(|strange| strange.told);
            self.strange = Some(Strange { found: found.to_string(), since: Instant::now(), told });
        }
    }

    fn tell_broken(&mut self, why: &str, what_then: &str) {
        let path = self.path.display().to_string();
        let Some(strange) = &mut self.strange else { return };
        // Where in the text it stops being JSON is no other trouble.
        let kind = why.split(':').next().map(String::from);
        if strange.told != kind && strange.since.elapsed() >= SETTLED {
            strange.told = kind;
            self.log(Line::error(format!("state file {path}: {why}; {what_then}")));
        }
    }

    fn tell_mended(&mut self) {
        if self.strange.as_mut().is_some_and(|strange| strange.told.take().is_some()) {
            self.log(format!("State file {} is in order again", self.path.display()));
        }
    }

    /// When something is to be told, put right or looked at for the last time.
    fn next_look(&self) -> Option<Instant> {
        let strange =
            self.strange.as_ref().into_iter().flat_map(|strange| [strange.since + SETTLED, strange.since + LEFT_ALONE]);
        let now = Instant::now();
        strange.filter(|at| *at > now).chain(self.old_files.iter().map(|old| old.until)).min()
    }

    fn ask(&self) -> Result<View, Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Ask(Box::new(move |world, pool, _| drop(reply.send(View::of(world, &pool.local().gpus))))))?;
        answer.blocking_recv().map_err(|_| Failure::ServiceGone)
    }

    fn order(&mut self, pause: GpuSet, resume: GpuSet, memory: Memory) -> Result<(), Failure> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::FilePauses { pause, resume, note: memory.note(), reply })?;
        let done = answer.blocking_recv().map_err(|_| Failure::ServiceGone)?;
        done.map_err(|problem| Failure::Trouble(problem.to_string()))?;
        self.memory = memory;
        Ok(())
    }

    fn log(&self, line: impl Into<Line>) {
        // The engine is gone, and with it the log.
        let _ = self.engine.send(Message::Log(vec![line.into()]));
    }

    fn send(&self, message: Message) -> Result<(), Failure> {
        self.engine.send(message).map_err(|_| Failure::ServiceGone)
    }
}

/// Why a look came to nothing.
enum Failure {
    ServiceGone,
    Trouble(String),
}

fn old_file_end() -> Instant {
    Instant::now() + OLD_FILE_LIFE
}

fn is_blank(found: &Found) -> bool {
    matches!(found, Found::Text { text, .. } if text.trim().is_empty())
}

fn cannot(error: &std::io::Error) -> String {
    let text = error.to_string();
    format!("it cannot be written: {}", text.split(" (os error").next().unwrap_or(&text))
}
