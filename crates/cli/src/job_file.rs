//! A file of jobs on the client's side: found, opened and read whole; what its jobs that do not wait mean for the others.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use nexus_api::edit::LineError;
use nexus_api::job_file::{self, Entry, Format, Past};
use nexus_api::jobs::State;
use nexus_node::threads;
use serde::Deserialize;

use crate::error::{CliError, Refused};
use crate::typed_file;
use crate::ui::Ui;

/// More than this is not held in memory.
const MOST_BYTES: u64 = 2 << 30;

/// Lines of history that are sent at a time, and bytes: one transaction each.
const LINES: u64 = 5_000;
const CHUNK_BYTES: usize = 64 << 20;

/// Some editors put it first.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file, opened.
pub struct Source {
    /// As messages name it.
    pub name: String,
    /// Relative scripts count from here.
    pub folder: String,
    file: Box<dyn Read + Send>,
}

/// `-` is standard input.
pub fn open(typed: &str, ui: &Ui) -> Result<Source, CliError> {
    if typed == "-" || typed == "/dev/stdin" {
        let here = std::env::current_dir().map_err(CliError::io("the folder this was typed in cannot be found"))?;
        return Ok(Source { name: "standard input".into(), folder: text(here)?, file: Box::new(std::io::stdin()) });
    }
    let refused = |why: &str, hint: Option<String>| {
        CliError::from(Refused { error: format!("{typed} cannot be read"), why: Some(why.into()), hint })
    };
    if typed.is_empty() {
        return Err(Refused { error: "the name of the file is empty".into(), why: None, hint: None }.into());
    }
    let found = std::fs::metadata(typed).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            refused("there is no such file", Some(format!("nexus import --watch {typed} waits for it")))
        }
        _ => refused(&error.to_string(), None),
    })?;
    let kind = found.file_type();
    // What a shell makes of <(…) lies there, and somebody writes to it.
    let by_the_shell = typed.starts_with("/dev/fd/") || typed.starts_with("/proc/");
    if kind.is_dir() {
        return Err(refused("it is a folder", None));
    }
    if kind.is_fifo() && !by_the_shell {
        return Err(refused(
            "it is a pipe, and nobody may be writing to it",
            Some(format!("cat {typed} | nexus import -")),
        ));
    }
    if !kind.is_file() && !kind.is_fifo() {
        return Err(refused("it is not a file", None));
    }
    let file = typed_file::open(Path::new(typed), ui).map_err(|error| refused(&error.to_string(), None))?;
    let path = PathBuf::from(path(typed)?);
    let folder = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    Ok(Source { name: typed.into(), folder: text(folder)?, file: Box::new(file) })
}

impl Source {
    pub fn whole(&mut self) -> Result<Vec<u8>, CliError> {
        let mut bytes = Vec::new();
        let doing = format!("{} cannot be read", self.name);
        (&mut self.file).take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(CliError::io(doing))?;
        match bytes.len() as u64 > MOST_BYTES {
            false => Ok(bytes),
            true => Err(Refused {
                error: format!("{} is larger than {} GiB", self.name, MOST_BYTES >> 30),
                why: None,
                hint: Some("split -C 500M cuts it between lines".into()),
            }
            .into()),
        }
    }
}

/// A file that is read whole, and no device or pipe that never ends. One that is not there is the reader's to tell.
pub fn is_plain(path: &Path, what: &str) -> Result<(), CliError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let why = if found.is_dir() { "it is a folder" } else { "it is not a file" };
            Err(Refused {
                error: format!("{what} {} cannot be read", path.display()),
                why: Some(why.into()),
                hint: None,
            }
            .into())
        }
        _ => Ok(()),
    }
}

/// The path as the service knows it: absolute, its folder without links. The file need not exist.
pub fn path(typed: &str) -> Result<String, CliError> {
    let whole = std::path::absolute(typed).map_err(CliError::io(format!("{typed:?} is no path")))?;
    let whole = if whole.parent().is_some_and(Path::exists) { whole } else { without_dots(&whole) };
    let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) else { return text(whole) };
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
    text(folder.join(name))
}

/// By its words: what is not there has no links.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

fn text(path: PathBuf) -> Result<String, CliError> {
    path.into_os_string().into_string().map_err(|path| {
        let error = format!("the path {path:?} is not valid UTF-8");
        Refused { error, why: None, hint: Some("rename it".into()) }.into()
    })
}

/// Whole lines of an export, some thousand at a time: history may be longer than memory.
pub struct Chunks {
    name: String,
    file: BufReader<Box<dyn Read + Send>>,
    next_line: u64,
}

struct Chunk {
    /// From 1.
    first_line: u64,
    bytes: Vec<u8>,
}

/// Just enough of a line to know whether its job has ended.
#[derive(Deserialize)]
struct Head {
    state: State,
}

/// What stands in it.
pub struct Part {
    /// From 1.
    pub first_line: u64,
    /// All its lines, those that are no ended jobs without a word; none where there are no such.
    pub ended: Option<Vec<u8>>,
    pub entries: Vec<Entry>,
    pub running: Vec<Past>,
    pub refused: Vec<LineError>,
    pub doubtful: Vec<LineError>,
}

impl Chunks {
    pub fn of(source: Source) -> Chunks {
        Chunks { name: source.name, file: BufReader::new(source.file), next_line: 1 }
    }

    /// What stands in each, read while the service has the one before. An error is the last.
    pub fn ahead(mut self) -> tokio::sync::mpsc::Receiver<Result<Part, CliError>> {
        let (parts, ahead) = tokio::sync::mpsc::channel(1);
        let (failed, doing) = (parts.clone(), format!("{} cannot be read", self.name));
        let read = move || {
            while let Some(part) = self.part().transpose() {
                let last = part.is_err();
                // Nobody wants the rest: the service refused what came before.
                if parts.blocking_send(part).is_err() || last {
                    break;
                }
            }
        };
        if let Err(error) = threads::start("nexus-read", read) {
            // There is room for it: nothing else was sent.
            let _ = failed.try_send(Err(CliError::io(doing)(error)));
        }
        ahead
    }

    fn part(&mut self) -> Result<Option<Part>, CliError> {
        let Some(chunk) = self.next()? else { return Ok(None) };
        chunk.read().map(Some).map_err(|wrong| unreadable(&self.name, &wrong))
    }

    fn next(&mut self) -> Result<Option<Chunk>, CliError> {
        let (first_line, mut bytes, mut lines) = (self.next_line, Vec::new(), 0);
        while lines < LINES && bytes.len() < CHUNK_BYTES {
            let doing = format!("{} cannot be read", self.name);
            let line = (&mut self.file).take(CHUNK_BYTES as u64 + 1).read_until(b'\n', &mut bytes);
            match line.map_err(CliError::io(doing))? {
                0 => break,
                // A file without newlines may have no end.
                length if length > CHUNK_BYTES => {
                    let error = format!("it is longer than {} MiB", CHUNK_BYTES >> 20);
                    return Err(unreadable(&self.name, &LineError { line: first_line + lines, error }));
                }
                _ => {}
            }
            lines += 1;
        }
        self.next_line += lines;
        if first_line == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok((lines > 0).then_some(Chunk { first_line, bytes }))
    }
}

impl Chunk {
    /// An error is of the whole file: it is no text, say.
    fn read(&self) -> Result<Part, LineError> {
        let (mut ended, mut others, mut any) = (Vec::with_capacity(self.bytes.len()), Vec::new(), false);
        for line in self.bytes.split_inclusive(|byte| *byte == b'\n') {
            // The service reads the whole of it.
            let is_past = serde_json::from_slice::<Head>(line).is_ok_and(|head| head.state.has_ended());
            any |= is_past;
            let (its, not_its) = if is_past { (&mut ended, &mut others) } else { (&mut others, &mut ended) };
            its.extend_from_slice(line);
            not_its.push(b'\n');
        }
        let job_file::Read { mut entries, mut refused, mut doubtful, past, .. } =
            job_file::read(&others, Some(Format::Jsonl))?;
        let unread = past.iter().filter(|past| past.ended).map(|past| past.line);
        refused.extend(unread.map(|line| LineError { line, error: "its state cannot be read".into() }));
        let before = self.first_line - 1;
        entries.iter_mut().for_each(|entry| entry.line += before);
        refused.iter_mut().chain(&mut doubtful).for_each(|error| error.line += before);
        let running = past.into_iter().filter(|past| !past.ended).collect();
        let (first_line, ended) = (self.first_line, any.then_some(ended));
        Ok(Part { first_line, ended, entries, running, refused, doubtful })
    }
}

/// A file that means nothing as a whole.
pub fn unreadable(name: &str, LineError { line, error }: &LineError) -> CliError {
    let error = format!("{name}, line {line}: {error}");
    Refused { error, why: Some("nothing was queued".into()), hint: None }.into()
}
