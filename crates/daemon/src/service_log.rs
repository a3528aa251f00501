//! `service.log`: one line for every operation, rotated by size.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::clock;

pub struct ServiceLog {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    max_size: u64,
    keep: u32,
}

impl ServiceLog {
    pub fn open(path: PathBuf, max_size: u64, keep: u32) -> std::io::Result<ServiceLog> {
        let file = append(&path)?;
        let size = file.metadata()?.len();
        Ok(ServiceLog { path, file: Some(file), size, max_size, keep })
    }

    /// From now on.
    pub fn limit(&mut self, max_size: u64, keep: u32) {
        (self.max_size, self.keep) = (max_size, keep);
    }

    /// Appends lines, each behind the time. A log that cannot be written (a full disk) stops nothing:
    /// the database holds what matters.
    pub fn write(&mut self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        let stamp = clock::log_stamp(clock::now());
        let mut text = String::new();
        for line in lines {
            text.extend(["[", &stamp, "] ", &one_line(line), "\n"]);
        }
        if self.size > self.max_size {
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
        for number in (1..self.keep).rev() {
            // A gap in the row is no fault: those that exist move up.
            let _ = std::fs::rename(self.numbered(number), self.numbered(number + 1));
        }
        let moved = if self.keep == 0 {
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
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// A command of several lines stays one line here.
fn one_line(text: &str) -> Cow<'_, str> {
    match text.contains(['\n', '\r']) {
        true => text.replace('\n', "\\n").replace('\r', "\\r").into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rotates_by_size_and_keeps_a_few() {
        let dir = std::env::temp_dir().join(format!("nexus-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("service.log");
        let mut log = ServiceLog::open(path.clone(), 100, 2).unwrap();
        for number in 0..20 {
            log.write(&[format!("line {number} of this log\nwith a break")]);
        }
        let names = ["service.log", "service.log.1", "service.log.2", "service.log.3"];
        let exist: Vec<bool> = names.iter().map(|name| dir.join(name).exists()).collect();
        assert_eq!(exist, [true, true, true, false]);
        let newest = std::fs::read_to_string(&path).unwrap();
        assert!(newest.ends_with("line 19 of this log\\nwith a break\n"), "{newest}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
