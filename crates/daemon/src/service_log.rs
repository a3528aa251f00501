//! `service.log`: one line for every operation, rotated by size. `log.level` says which lines are wanted.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use nexus_api::shown::one_line;
use nexus_node::own_file;

use crate::clock;

/// What a line is about, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// nexus could not do something.
    Error,
    /// Something failed that nexus looks after: a job, a machine, a GPU.
    Warn,
    /// Any other operation.
    Info,
    /// What it took.
    Debug,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub level: Level,
    pub text: String,
}

impl Line {
    pub fn error(what: impl Display) -> Line {
        Line { level: Level::Error, text: format!("Error: {what}") }
    }

    pub fn warn(text: impl Into<String>) -> Line {
        Line { level: Level::Warn, text: text.into() }
    }

    pub fn debug(text: impl Into<String>) -> Line {
        Line { level: Level::Debug, text: text.into() }
    }
}

impl<T: Into<String>> From<T> for Line {
    fn from(text: T) -> Line {
        Line { level: Level::Info, text: text.into() }
    }
}

pub struct ServiceLog {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    limits: Limits,
}

/// What is written, and how much of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub level: Level,
    pub max_size: u64,
    pub keep: u32,
}

impl Limits {
    /// For last words.
    pub const NONE: Limits = Limits { level: Level::Debug, max_size: u64::MAX, keep: 0 };
}

impl ServiceLog {
    pub fn open(path: PathBuf, limits: Limits) -> std::io::Result<ServiceLog> {
        let file = append(&path)?;
        let size = file.metadata()?.len();
        Ok(ServiceLog { path, file: Some(file), size, limits })
    }

    /// From now on.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Whether such a line is written: one that is not need not be made.
    pub fn wants(&self, level: Level) -> bool {
        level <= self.limits.level
    }

    /// Appends lines, each behind the time. A log that cannot be written (a full disk) stops nothing:
    /// the database holds what matters.
    pub fn write(&mut self, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        let stamp = clock::log_stamp(clock::now());
        let mut text = String::new();
        for line in lines.iter().filter(|line| self.wants(line.level)) {
            // A command of several lines is one line here, and whoever follows the file has a terminal that obeys nothing in it.
            text.extend(["[", &stamp, "] ", &one_line(&line.text), "\n"]);
        }
        if text.is_empty() {
            return;
        }
        if self.size > self.limits.max_size {
            self.rotate();
        }
        if self.file.is_none() {
            self.file = append(&self.path).ok();
        }
        if let Some(file) = &mut self.file
            && file.write_all(text.as_bytes()).is_ok()
        {
            self.size += text.len() as u64;
        }
    }

    /// `service.log` becomes `service.log.1`, that `service.log.2`, and so on; the oldest goes.
    fn rotate(&mut self) {
        self.file = None;
        for number in (1..self.limits.keep).rev() {
            // A gap in the row is no fault: those that exist move up.
            let _ = std::fs::rename(self.numbered(number), self.numbered(number + 1));
        }
        let moved = if self.limits.keep == 0 {
            std::fs::remove_file(&self.path)
        } else {
            std::fs::rename(&self.path, self.numbered(1))
        };
        if moved.is_ok() {
            self.size = 0;
        }
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    own_file::append(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rotates_by_size_and_keeps_a_few() {
        let dir = std::env::temp_dir().join(format!("nexus-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("service.log");
        let limits = Limits { level: Level::Info, max_size: 100, keep: 2 };
        let mut log = ServiceLog::open(path.clone(), limits).unwrap();
        for number in 0..20 {
            log.write(&[format!("line {number} of this log\nwith a break").into()]);
        }
        let names = ["service.log", "service.log.1", "service.log.2", "service.log.3"];
        let exist: Vec<bool> = names.iter().map(|name| dir.join(name).exists()).collect();
        assert_eq!(exist, [true, true, true, false]);
        let newest = std::fs::read_to_string(&path).unwrap();
        assert!(newest.ends_with("line 19 of this log\\nwith a break\n"), "{newest}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
