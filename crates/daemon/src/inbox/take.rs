//! One look at the file: what is new in it is taken, then it is written as the queue is.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nexus_api::command::{Command, quote};
use nexus_api::jobs::JobSpec;
use nexus_api::problem::Problem;
use nexus_api::queue_text::{Entry, Header, MOST_IN_FILE, OPTIONS_MARK, REFUSED_MARK, Read, Refused, read, write};
use nexus_core::ids::JobId;
use nexus_node::trust::{self, Writers};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Inbox;
use super::file::{self, OldFile};
use crate::checks;
use crate::digest;
use crate::engine::{Message, fresh};
use crate::file_watch::Eye;
use crate::own_env;
use crate::queue_edit::Waiting;
use crate::service_log::Line;
use crate::store::{Reader, StoreError};

/// Where lines that became jobs are remembered.
const TAKEN: &str = "jobs_file_taken";

/// Lines of comments that are kept.
const MOST_COMMENTS: usize = 1000;

/// Files that were replaced and may still be written to.
const MOST_OLD_FILES: usize = 16;

/// How a look at the file went.
pub enum Round {
    Done {
        look_again: Option<Instant>,
    },
    /// Somebody is still writing.
    Unfinished,
    Failed,
}

/// Whether others are writing to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    None,
    /// They just did.
    Fresh,
    /// They do not stop.
    Long,
}

/// A line that became a job, while the file does not show its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    line: String,
    id: String,
}

/// A line that is to be a job.
struct NewJob {
    spec: JobSpec,
    /// By which it is remembered.
    line: String,
    entry: Entry,
}

pub struct Keeper {
    inbox: Inbox,
    path: PathBuf,
    eye: Eye,
    /// The file as it was last read or written.
    last: Option<Vec<u8>>,
    /// What was written there.
    written: Vec<u8>,
    taken: Option<Vec<Taken>>,
    old_files: Vec<OldFile>,
    /// The last failure: it is told once.
    trouble: Option<String>,
}

impl Keeper {
    pub fn new(inbox: Inbox, path: PathBuf, eye: Eye) -> Keeper {
        let (last, written, taken, old_files, trouble) = (None, Vec::new(), None, Vec::new(), None);
        Keeper { inbox, path, eye, last, written, taken, old_files, trouble }
    }

    /// `dirty`: the queue may have changed.
    pub fn round(&mut self, dirty: bool, noise: Noise) -> Round {
        match self.look(dirty, noise) {
            Ok(round) => {
                if self.trouble.take().is_some() {
                    self.inbox.notes.set_trouble(None);
                }
                round
            }
            Err(error) => {
                self.inbox.notes.set_trouble(Some(&error));
                if self.trouble.as_ref() != Some(&error) {
                    self.note(vec![Line::error(format!("{}: {error}", self.path.display()))]);
                    self.trouble = Some(error);
                }
                Round::Failed
            }
        }
    }

    fn look(&mut self, dirty: bool, noise: Noise) -> Result<Round, String> {
        self.eye.look();
        // A link at the file's name was followed when the service began: who can change it chooses the file.
        if self.inbox.path != self.path {
            trust::check(&self.inbox.path, &Writers::own()).map_err(|error| error.to_string())?;
        }
        if self.last.is_none() {
            self.pick_up()?;
        }
        let mut news = self.news_of_old_files(noise)?;
        let found = file::content(&self.path).map_err(|error| error.to_string())?;
        let content = found.clone().unwrap_or_default();
        let touched = found.is_none() || self.last.as_ref() != Some(&content);
        let text = if touched { read(&content) } else { Read::default() };
        if touched && (noise == Noise::Fresh || (noise == Noise::Long && text.unfinished)) {
            return Ok(Round::Unfinished);
        }
        if touched {
            self.set_comments(text.comments.clone());
            news |= self.take(&text)?;
            self.last = Some(content.clone());
        }
        if dirty || touched || news {
            self.write(&content, found.is_some(), news)?;
        }
        for old in self.old_files.extract_if(.., |old| old.is_over()) {
            old.put_away();
        }
        Ok(Round::Done { look_again: self.old_files.iter().map(OldFile::until).min() })
    }

    /// What a service that was killed had replaced, or had not yet put into its place.
    fn pick_up(&mut self) -> Result<(), String> {
        let beside = [(file::beside(&self.path), 0)].into_iter();
        for (path, seen) in beside.chain(file::lasts(&self.path)) {
            let Ok(Some(bytes)) = file::content(&path) else { continue };
            self.take(&read(bytes.get(seen..).unwrap_or(&bytes)))?;
            // One that cannot be removed lies in nobody's way: what is taken from it is remembered.
            let _ = std::fs::remove_file(&path);
        }
        Ok(())
    }

    /// Lines that somebody wrote to a file that had just been replaced.
    fn news_of_old_files(&mut self, noise: Noise) -> Result<bool, String> {
        let mut any = false;
        let mut old_files = std::mem::take(&mut self.old_files);
        for old in &mut old_files {
            // It is nobody's any more if it cannot be read.
            let Ok(Some(bytes)) = old.news() else { continue };
            let text = read(&bytes);
            if text.unfinished && noise != Noise::None && !old.is_over() {
                continue;
            }
            let took = self.take(&text);
            if took.is_ok() {
                let _ = old.saw();
                any = true;
            }
            if let Err(error) = took {
                self.old_files = old_files;
                return Err(error);
            }
        }
        self.old_files = old_files;
        Ok(any)
    }

    /// Queues what has no id; whether the file is to be written for it.
    fn take(&mut self, text: &Read) -> Result<bool, String> {
        let mut refused = text.refused.clone();
        let mut notes = Vec::new();
        let shown: BTreeMap<String, Entry> =
            read(&self.written).entries.into_iter().filter_map(|entry| Some((entry.id.clone()?, entry))).collect();
        for entry in &text.entries {
            let Some(id) = &entry.id else { continue };
            match shown.get(id) {
                Some(shown) if shown.says_the_same(entry) => {}
                Some(_) => {
                    let (file, line) = (self.name(), entry.line);
                    let text =
                        format!("{file}, line {line}: job {id} is changed by nexus edit alone; its line is put back");
                    notes.push(Line::warn(text));
                }
                None if self.exists(id)? => {}
                None => refused.push(refusal(entry, format!("there is no job {id}; take the id away to queue it"))),
            }
        }
        let new = self.new_jobs(text, &mut refused, &mut notes)?;
        self.submit(new, &mut refused)?;
        for refused in &refused {
            let text = format!("{}, line {} is not taken: {}", self.name(), refused.line, refused.error);
            notes.push(Line::warn(text));
        }
        self.note(notes);
        self.keep_refused(&refused);
        Ok(!text.entries.is_empty() || !refused.is_empty())
    }

    /// Those without an id that were not taken before.
    fn new_jobs(
        &mut self,
        text: &Read,
        refused: &mut Vec<Refused>,
        notes: &mut Vec<Line>,
    ) -> Result<Vec<NewJob>, String> {
        let rules = self.inbox.reload.rules();
        let mut known = self.taken()?;
        // Where its id stands in the file, a line like it is a new one.
        known.retain(|taken| text.entries.iter().all(|entry| entry.id.as_ref() != Some(&taken.id)));
        let mut new = Vec::new();
        for entry in text.entries.iter().filter(|entry| entry.id.is_none()) {
            let line = fingerprint(entry);
            if let Some(place) = known.iter().position(|taken| taken.line == line) {
                known.remove(place);
                continue;
            }
            let spec = entry.new_spec(self.usual()).and_then(|mut spec| {
                let note = rules.fill(&mut spec);
                notes.extend(note.map(|note| Line::from(format!("{}, line {}: {note}", self.name(), entry.line))));
                let right = checks::spec(&mut spec).and_then(|()| checks::signal(None, &spec));
                right.map_err(|problem| problem.to_string())?;
                Ok(spec)
            });
            match spec {
                Ok(spec) => new.push(NewJob { spec, line, entry: entry.clone() }),
                Err(error) => refused.push(refusal(entry, error)),
            }
        }
        Ok(new)
    }

    /// All at once. A line that would be the second of its kind must not keep the others out: then it is one after the
    /// other.
    fn submit(&mut self, new: Vec<NewJob>, refused: &mut Vec<Refused>) -> Result<(), String> {
        match self.order(&new) {
            Err(problem) if is_of_one(&problem) => {
                for job in new {
                    match self.order(std::slice::from_ref(&job)) {
                        Err(problem) if is_of_one(&problem) => refused.push(refusal(&job.entry, problem.to_string())),
                        done => done.map_err(|problem| problem.to_string())?,
                    }
                }
                Ok(())
            }
            done => done.map_err(|problem| problem.to_string()),
        }
    }

    fn order(&mut self, new: &[NewJob]) -> Result<(), Problem> {
        if new.is_empty() {
            return Ok(());
        }
        let jobs = fresh(new.iter().map(|job| job.spec.clone()).collect());
        let lines: Vec<String> = new.iter().map(|job| job.line.clone()).collect();
        let before = self.taken().map_err(|error| Problem::Internal { error })?;
        let on_disk = lines.clone();
        let remembered = before.clone();
        let note = Box::new(move |ids: &[JobId]| {
            let taken = with(remembered, &on_disk, ids);
            (TAKEN, serde_json::to_string(&taken).expect("lines and ids are plain data"))
        });
        let (reply, answer) = oneshot::channel();
        self.inbox
            .engine
            .send(Message::Submit { jobs, note: Some(note), once: None, reply })
            .map_err(|_| Problem::Stopping)?;
        let ids = answer.blocking_recv().unwrap_or(Err(Problem::Stopping))?.ids;
        self.taken = Some(with(before, &lines, &ids));
        Ok(())
    }

    /// As remembered; read once from disk.
    fn taken(&mut self) -> Result<Vec<Taken>, String> {
        if self.taken.is_none() {
            let stored = self.read(|reader| reader.meta(TAKEN))?;
            let stored = stored.map(|text| serde_json::from_str(&text)).transpose();
            self.taken = Some(stored.map_err(|error| error.to_string())?.unwrap_or_default());
        }
        Ok(self.taken.clone().unwrap_or_default())
    }

    fn exists(&self, id: &str) -> Result<bool, String> {
        Ok(self.read(|reader| reader.job(id))?.is_some())
    }

    fn read<T>(&self, read: impl FnOnce(&Reader) -> Result<T, StoreError>) -> Result<T, String> {
        self.inbox.readers.read(read).map_err(|error| error.problem().to_string())
    }

    /// Writes the file, if it is not already as it should be.
    fn write(&mut self, content: &[u8], exists: bool, news: bool) -> Result<(), String> {
        let is_large = self.read(|reader| reader.is_queue_over(MOST_IN_FILE))?;
        let whole = self.inbox.notes.whole.swap(false, Ordering::Relaxed);
        let (header, rows) = match (is_large, whole) {
            (true, false) if exists && !news && is_of_large(content) => return Ok(()),
            (true, false) => (Header::LargeFile { whole: false }, vec![]),
            (true, true) => (Header::LargeFile { whole: true }, self.read(|reader| reader.waiting())?),
            (false, _) => (Header::File, self.read(|reader| reader.waiting())?),
        };
        let jobs: Vec<Waiting> = rows.into_iter().filter_map(Waiting::of).collect();
        let comments = self.inbox.notes.comments.lock().expect("nobody panics with the comments").clone();
        let text = write(header, &comments, jobs.iter().map(|job| (job.id.as_str(), &job.spec)), &self.inbox.user_home);
        if !exists || text.as_bytes() != content {
            let old = file::replace(&self.path, text.as_bytes(), content).map_err(|error| error.to_string())?;
            self.old_files.extend(old);
            let surplus = self.old_files.len().saturating_sub(MOST_OLD_FILES);
            self.old_files.drain(..surplus);
            // The new file is another one.
            self.eye.look();
        }
        self.written = text.into_bytes();
        self.last = Some(self.written.clone());
        if !self.taken()?.is_empty() {
            self.taken = Some(vec![]);
            // The engine is gone: the next service reads the ids in the file.
            let _ = self.inbox.engine.send(Message::Keep { key: TAKEN, value: "[]".into() });
        }
        Ok(())
    }

    fn set_comments(&self, mut comments: Vec<String>) {
        comments.truncate(MOST_COMMENTS);
        *self.inbox.notes.comments.lock().expect("nobody panics with the comments") = comments;
    }

    /// What was not taken stays in the file, as comments that say why.
    fn keep_refused(&self, refused: &[Refused]) {
        let mut comments = self.inbox.notes.comments.lock().expect("nobody panics with the comments");
        for refused in refused {
            comments.push(format!("{REFUSED_MARK} line {} was not taken: {}", refused.line, one_line(&refused.error)));
            comments.extend(refused.lines.iter().map(|line| format!("{REFUSED_MARK} {}", one_line(line))));
        }
        comments.truncate(MOST_COMMENTS);
    }

    fn note(&self, lines: Vec<Line>) {
        if !lines.is_empty() {
            // The engine is gone, and with it the log.
            let _ = self.inbox.engine.send(Message::Note(lines));
        }
    }

    fn name(&self) -> String {
        self.path.file_name().map_or_else(|| self.path.display().to_string(), |name| name.to_string_lossy().into())
    }

    /// A line before anything is said in it: the service's own environment, the user's home.
    fn usual(&self) -> JobSpec {
        JobSpec { env: own_env::env(), ..JobSpec::new(Command::Shell(String::new()), self.inbox.user_home.clone()) }
    }
}

/// Whether one of several jobs is at fault.
fn is_of_one(problem: &Problem) -> bool {
    matches!(problem, Problem::NotUnique { .. } | Problem::BadField { .. } | Problem::NoSuchJob { .. })
}

fn refusal(entry: &Entry, error: String) -> Refused {
    let words = entry.id.iter().cloned();
    let words = words.chain(entry.options.iter().map(|(name, value)| format!("{name}={}", quote(value))));
    let options = words.collect::<Vec<_>>().join(" ");
    let options = (!options.is_empty()).then(|| format!("{OPTIONS_MARK} {options}"));
    let lines = options.into_iter().chain(entry.command.lines().map(String::from)).collect();
    Refused { line: entry.line, error, lines }
}

fn with(mut taken: Vec<Taken>, lines: &[String], ids: &[JobId]) -> Vec<Taken> {
    taken.extend(lines.iter().zip(ids).map(|(line, id)| Taken { line: line.clone(), id: id.to_string() }));
    taken
}

fn fingerprint(entry: &Entry) -> String {
    digest::hex(&format!("{:?}\n{}", entry.options, entry.command))
}

fn is_of_large(content: &[u8]) -> bool {
    let heads = [true, false].map(|whole| write(Header::LargeFile { whole }, &[], [], ""));
    heads.iter().any(|head| content.starts_with(head.lines().next().unwrap_or_default().as_bytes()))
}

/// Control characters of a broken file do not go into the next one.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}
