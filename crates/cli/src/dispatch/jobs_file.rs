//! The file of jobs: a JSON object in each line, appended. The last one of a job counts. One dispatcher has it at a time.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nexus_node::run_file;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::record::Record;
use crate::error::{CliError, Refused};
use crate::job_file::is_plain;

pub struct JobsFile {
    file: File,
    pub path: PathBuf,
    /// What was written last stops in the middle of a line.
    mid_line: bool,
}

/// What the file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The last of each job, in the order in which the jobs came.
    pub records: Vec<Record>,
    /// Lines that cannot be read, from 1.
    pub wrong: Vec<(usize, String)>,
    /// The last line was cut short and means nothing.
    pub torn: bool,
}

impl JobsFile {
    /// Makes it where there is none. Whoever has it keeps it until he ends.
    #[expect(clippy::disallowed_methods, reason = "is_plain refuses what is no file")]
    pub fn open(path: &Path) -> Result<(JobsFile, Past), CliError> {
        let fail = |what: &str| CliError::io(format!("the file of jobs {} cannot be {what}", path.display()));
        is_plain(path, "the file of jobs")?;
        let is_new = !path.exists();
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fail("made"))?;
        }
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
        let mut file = file.map_err(fail("opened"))?;
        lock(&file, path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(fail("read"))?;
        let path = std::fs::canonicalize(path).map_err(fail("found"))?;
        if is_new {
            let folder = path.parent().unwrap_or(Path::new("/"));
            run_file::open_folder(folder).and_then(|folder| folder.sync_all()).map_err(fail("kept"))?;
        }
        let past = read(&bytes);
        if past.records.is_empty() && !past.wrong.is_empty() {
            return Err(no_jobs_file(&path, &past));
        }
        let mid_line = bytes.last().is_some_and(|last| *last != b'\n');
        Ok((JobsFile { file, path, mid_line }, past))
    }

    /// One line by one write.
    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        if !self.is_in_its_place() {
            return Err(io::Error::other("somebody deleted it, or put another file into its place"));
        }
        let newline = if self.mid_line { "\n" } else { "" };
        let line = format!("{newline}{}", record.line());
        let written = self.file.write_all(line.as_bytes());
        // Nobody knows how much of it is there; a blank line does no harm.
        self.mid_line = written.is_err();
        written
    }

    /// What is written to a file without a name nobody reads.
    fn is_in_its_place(&self) -> bool {
        let place = |found: std::fs::Metadata| (found.dev(), found.ino());
        let there = std::fs::metadata(&self.path).map(place).ok();
        there.is_some() && there == self.file.metadata().map(place).ok()
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn lock(file: &File, path: &Path) -> Result<(), CliError> {
    match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => {
            let holder = fcntl_getlk(file, &Flock::from(FlockType::WriteLock)).ok().flatten().and_then(|held| held.pid);
            let by = holder.map(|pid| format!(" (pid {})", pid.as_raw_nonzero())).unwrap_or_default();
            Err(Refused {
                error: format!("another dispatcher{by} goes by {}", path.display()),
                why: Some("two of them would queue each command twice".into()),
                hint: Some("nexus run --status shows how far it is; --jobs-file OTHER for other commands".into()),
            }
            .into())
        }
        Err(error) => Err(CliError::io(format!("the file of jobs {} cannot be locked", path.display()))(error.into())),
    }
}

fn no_jobs_file(path: &Path, past: &Past) -> CliError {
    let (line, error) = &past.wrong[0];
    Refused {
        error: format!("{} is no file of jobs", path.display()),
        why: Some(format!("none of its lines can be read; line {line}: {error}")),
        hint: Some("--jobs-file jobs.jsonl names a file that nexus makes and keeps".into()),
    }
    .into()
}

pub fn read(bytes: &[u8]) -> Past {
    let mut past = Past::default();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let last = lines.pop().unwrap_or_default();
    let whole = lines.into_iter().enumerate().map(|(place, line)| (place + 1, line, true));
    let number = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    for (number, line, is_whole) in whole.chain([(number, last, false)]) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Record>(line) {
            Ok(record) => match places.get(&record.id) {
                Some(place) => past.records[*place] = record,
                None => {
                    places.insert(record.id.clone(), past.records.len());
                    past.records.push(record);
                }
            },
            Err(error) if is_whole => past.wrong.push((number, error.to_string())),
            Err(_) => past.torn = true,
        }
    }
    past
}

#[cfg(test)]
mod tests {
    use super::super::record::Status;
    use super::*;

    fn line(id: &str, status: &str) -> String {
        format!("{{\"id\":\"{id}\",\"command\":\"true\",\"status\":\"{status}\"}}\n")
    }

    #[test]
    fn the_last_word_on_a_job_counts() {
        let text = [line("abc", "pending"), line("xyz", "pending"), line("abc", "running"), line("xyz", "failed")];
        let past = read(text.concat().as_bytes());
        let found: Vec<_> = past.records.iter().map(|record| (record.id.as_str(), record.status)).collect();
        assert_eq!(found, [("abc", Status::Running), ("xyz", Status::Failed)]);
        assert!(past.wrong.is_empty() && !past.torn);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_a_cut_line_is_no_fault() {
        let whole = line("abc", "pending");
        for cut in 1..whole.len() {
            let past = read(format!("{whole}{}", &line("xyz", "pending")[..cut]).as_bytes());
            // Complete but for its newline, it counts.
            let is_complete = cut == whole.len() - 1;
            assert_eq!((past.records.len(), past.torn), (1 + usize::from(is_complete), !is_complete), "{cut}");
            assert!(past.wrong.is_empty());
        }
        let past = read(format!("\nnonsense\n{whole}{{\"id\":3}}\n\n").as_bytes());
        let lines: Vec<usize> = past.wrong.iter().map(|(line, _)| *line).collect();
        assert_eq!((past.records.len(), lines), (1, vec![2, 4]));
        assert_eq!(read(b""), Past::default());
    }

    #[test]
    fn a_line_that_was_cut_short_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/jobs.jsonl");
        let (mut file, past) = JobsFile::open(&path).unwrap();
        assert_eq!(past, Past::default());
        let record: Record = serde_json::from_str(&line("abc", "pending")).unwrap();
        file.append(&record).unwrap();
        drop(file);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"id\":\"xy")).unwrap();
        let (mut file, past) = JobsFile::open(&path).unwrap();
        assert_eq!((past.records.len(), past.torn), (1, true));
        file.append(&Record { status: Status::Running, ..record.clone() }).unwrap();
        let past = read(&std::fs::read(&path).unwrap());
        assert_eq!((past.records[0].status, past.wrong.len()), (Status::Running, 1));
        std::fs::rename(&path, folder.path().join("away")).unwrap();
        assert!(file.append(&record).is_err(), "it has no name any more");
        std::fs::write(&path, "").unwrap();
        assert!(file.append(&record).is_err(), "another has its name");
    }
}
