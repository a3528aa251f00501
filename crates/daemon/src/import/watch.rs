//! One watched file: what is new in it since the last look becomes jobs.
//!
//! An entry is known by its bytes, and by how often they stand there. New bytes are taken at once; that some are gone is
//! believed only when nobody has written for a while, since whoever replaces a file by writing it anew empties it first.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nexus_api::command::quote;
use nexus_api::edit::LineError;
use nexus_api::import::{Fate, Import, Imported};
use nexus_api::job_file::{self, Entry, Read};
use nexus_node::groups::group_of;
use nexus_node::trust::{self, OpenError, Stranger, Untrusted, Writers};

use super::{Importer, Memory};
use crate::digest;
use crate::engine::Message;
use crate::file_watch::Eye;
use crate::service_log::Line;
use crate::store::{Seen, WatchChange, WatchRow};
use crate::text_file;

/// No file of jobs is that long.
const MOST_BYTES: u64 = 256 << 20;

/// Said of a file that may come.
const ABSENT: &str = "it is not there yet";

pub struct Keeper {
    pub row: WatchRow,
    importer: Importer,
    path: PathBuf,
    eye: Eye,
    seen: Seen,
    /// What was told of lines that were not taken: each is told once.
    told: BTreeSet<(i64, String)>,
    /// Why it cannot be read now.
    pub trouble: Option<String>,
}

/// What a look brought.
#[derive(Default)]
pub struct Look {
    pub imported: Imported,
    pub refused: Vec<LineError>,
    pub doubtful: Vec<LineError>,
    /// Something waits for the file to be quiet: its last line, or lines that are gone.
    pub unsettled: bool,
    /// The engine could not take it now.
    pub again: bool,
}

impl Keeper {
    pub fn new(row: WatchRow, seen: Seen, importer: Importer, eye: Eye) -> Keeper {
        let path = PathBuf::from(&row.file);
        Keeper { row, importer, path, eye, seen, told: BTreeSet::new(), trouble: None }
    }

    /// Entries of the file that are known.
    pub fn taken(&self) -> u64 {
        self.seen.values().sum()
    }

    /// `quiet`: nobody has written for a while.
    pub fn look(&mut self, quiet: bool) -> Look {
        self.eye.look();
        let read = match self.read() {
            Ok(Some((bytes, read))) => (bytes, read),
            // Not there yet, or away for a moment: what was seen is remembered.
            Ok(None) => {
                self.trouble = Some(ABSENT.into());
                return Look::default();
            }
            Err(error) => {
                self.in_trouble(error);
                // Nobody tells of a mode that is mended.
                return Look { again: true, ..Look::default() };
            }
        };
        self.trouble = None;
        let (bytes, mut read) = read;
        let mut look = Look::default();
        if read.unfinished && !quiet {
            look.unsettled = true;
            leave_the_last(&bytes, &mut read);
        }
        let marks: Vec<i64> = read.entries.iter().map(|entry| mark(&bytes, entry)).collect();
        let gone = self.gone(&marks);
        match quiet {
            true => self.forget(gone, &read),
            false => look.unsettled |= !gone.is_empty(),
        }
        self.take(read, marks, &mut look);
        look
    }

    fn read(&self) -> Result<Option<(Vec<u8>, Read)>, String> {
        let writers = writers(self.row.shared_with.as_deref())?;
        let bytes = text_file::bytes(&self.path, MOST_BYTES, &writers);
        let bytes = bytes.map_err(|bad| bad.untrusted.map_or(bad.error, |by| untrusted(&self.row.file, &by)))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let read = job_file::read(&bytes, self.row.format)
            .map_err(|LineError { line, error }| format!("line {line}: {error}"))?;
        Ok(Some((bytes, read)))
    }

    /// Queues what is new.
    fn take(&mut self, read: Read, marks: Vec<i64>, look: &mut Look) {
        let Read { format, entries, refused, doubtful, .. } = read;
        let mut left = self.seen.clone();
        let (mut new, mut new_marks) = (Vec::new(), Vec::new());
        for (entry, mark) in entries.into_iter().zip(marks) {
            match left.get_mut(&mark).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => {
                    new.push(entry);
                    new_marks.push(mark);
                }
            }
        }
        let lines: BTreeSet<u64> = new.iter().map(|entry| entry.line).collect();
        look.doubtful = doubtful.into_iter().filter(|doubt| lines.contains(&doubt.line)).collect();
        look.refused = refused.into_iter().filter(|bad| self.told.insert((0, format!("{bad:?}")))).collect();
        if !new.is_empty() {
            let marks = new_marks.clone();
            self.import(new, marks, format, look);
        }
        self.tell(look, &new_marks);
    }

    fn import(&mut self, entries: Vec<Entry>, marks: Vec<i64>, format: job_file::Format, look: &mut Look) {
        let folder = self.path.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
        let (file, usual, again) = (self.row.file.clone(), self.row.usual.clone(), self.row.again);
        let (dry_run, together) = (false, false);
        let import = Import { file: file.clone(), folder, usual, entries: vec![], again, dry_run, together };
        let memory = Memory { file: &file, format, marks: &marks, seen: &mut self.seen };
        match self.importer.import(import, entries, Some(memory)) {
            Ok(imported) => {
                // From here on it is known how the file is written.
                if imported.entries.iter().any(|one| !matches!(one.fate, Fate::Refused { .. })) {
                    self.row.format = Some(format);
                }
                look.again = imported.stopped.is_some();
                if let Some(problem) = &imported.stopped {
                    self.in_trouble(problem.to_string());
                }
                look.imported = imported;
            }
            Err(problem) => {
                look.again = true;
                self.in_trouble(problem.to_string());
            }
        }
    }

    /// Entries that stand there less often than they did, and how often.
    fn gone(&self, marks: &[i64]) -> Seen {
        let mut now = Seen::new();
        for mark in marks {
            *now.entry(*mark).or_default() += 1;
        }
        let count = |mark: &i64| now.get(mark).copied().unwrap_or(0);
        let fewer = self.seen.iter().filter(|(mark, before)| count(mark) < **before);
        fewer.map(|(mark, _)| (*mark, count(mark))).collect()
    }

    fn forget(&mut self, gone: Seen, read: &Read) {
        if gone.is_empty() {
            return;
        }
        let (file, format) = (self.row.file.clone(), read.format);
        let change = WatchChange::News { file, format, seen: gone.clone() };
        let line = match gone.len() {
            1 => format!("1 entry is gone from {}", self.row.file),
            count => format!("{count} entries are gone from {}", self.row.file),
        };
        // Were it not kept, they would be found gone again.
        if self.importer.order(|reply| Message::Watch { change, line, reply }).is_ok() {
            for (mark, count) in gone {
                match count {
                    0 => self.seen.remove(&mark),
                    count => self.seen.insert(mark, count),
                };
            }
        }
    }

    fn in_trouble(&mut self, error: String) {
        if self.trouble.as_ref() != Some(&error) {
            self.importer.tell(vec![Line::warn(format!("{} is not taken: {error}", self.row.file))]);
            self.trouble = Some(error);
        }
    }

    /// In service.log, once for each line.
    fn tell(&mut self, look: &Look, marks: &[i64]) {
        let file = &self.row.file;
        let mut lines = Vec::new();
        for LineError { line, error } in &look.refused {
            lines.push(Line::warn(format!("{file}, line {line} is not taken: {error}")));
        }
        for LineError { line, error } in &look.doubtful {
            lines.push(Line::warn(format!("{file}, line {line}: {error}")));
        }
        for (taken, mark) in look.imported.entries.iter().zip(marks) {
            let (line, word) = match &taken.fate {
                Fate::Refused { error } => (taken.line, format!(" is not taken: {error}")),
                Fate::Known { id, state, differs } if !differs.is_empty() => {
                    (taken.line, format!(": job {id} is {} and stays as it is", state.word()))
                }
                _ => continue,
            };
            if self.told.insert((*mark, word.clone())) {
                lines.push(Line::warn(format!("{file}, line {line}{word}")));
            }
        }
        lines.extend(look.imported.notes.iter().map(|note| format!("Note: {file}: {note}").into()));
        self.importer.tell(lines);
    }
}

/// Who may write to a file that is shared with a group, or with nobody.
fn writers(shared_with: Option<&str>) -> Result<Writers, String> {
    shared_with.map_or(Ok(Writers::own()), |group| Writers::shared_with(group).map_err(|error| error.to_string()))
}

/// Whether a file may be watched as far as its writers go; it need not exist.
pub fn trusted(file: &str, shared_with: Option<&str>) -> Result<(), String> {
    match trust::check(Path::new(file), &writers(shared_with)?) {
        Err(OpenError::Untrusted(by)) => Err(untrusted(file, &by)),
        // The first look tells of it.
        _ => Ok(()),
    }
}

/// Who can write, what ends it, and how a group keeps the file that it shares on purpose.
fn untrusted(file: &str, by: &Untrusted) -> String {
    let Stranger::Group(gid) = by.who else { return by.to_string() };
    let group = group_of(gid).map_or_else(|| gid.to_string(), |group| group.name);
    format!("{by}; if it is shared on purpose: nexus import --watch {} --shared-with {}", quote(file), quote(&group))
}

/// Its bytes as a number.
fn mark(bytes: &[u8], entry: &Entry) -> i64 {
    digest::of([String::from_utf8_lossy(&bytes[entry.written.clone()])])
}

/// What stands at the very end may be half of it.
fn leave_the_last(bytes: &[u8], read: &mut Read) {
    let ends = |entry: &Entry| bytes[entry.written.end.min(bytes.len())..].iter().all(u8::is_ascii_whitespace);
    if read.entries.last().is_some_and(|entry| !bytes.ends_with(b"\n") && ends(entry)) {
        read.entries.pop();
    }
    let settled = read.entries.last().map_or(0, |entry| entry.line);
    read.refused.retain(|refused| refused.line <= settled);
    read.doubtful.retain(|doubt| doubt.line <= settled);
}
