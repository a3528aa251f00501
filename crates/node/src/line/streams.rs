//! What a node does for the streams that the service opens: a thread for each, which ends with it.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::channel::Channel;
use super::client::STACK;
use super::frames::LONGEST_CHUNK;
use super::words::{Last, Stream};
use super::{logs, terminal};
use crate::last_line::{kept_said, last_line, last_lines};
use crate::left::Plan;
use crate::run_file;
use crate::threads;

/// Where the service may have folders removed.
#[derive(Clone)]
pub struct Roots(pub Vec<PathBuf>);

/// Begins a stream. Its end, good or bad, is told on the channel.
pub fn begin(channel: Channel, stream: Stream, roots: &Roots) {
    let (channel, roots) = (Arc::new(channel), roots.clone());
    let shared = channel.clone();
    let work = move || {
        let done = run(&shared, stream, &roots);
        shared.finish(done.err().map(|error| error.to_string()));
    };
    if let Err(error) = threads::start_with_stack("nexus-stream", STACK, work) {
        channel.finish(Some(format!("the node cannot start a thread: {error}")));
    }
}

fn run(channel: &Channel, stream: Stream, roots: &Roots) -> io::Result<()> {
    match stream {
        Stream::Logs { dir, had, follow } => logs::send(channel, &dir, had, follow),
        Stream::Terminal { dir } => terminal::pass_on(channel, &dir),
        Stream::File { path, from } => send_file(channel, &path, from),
        Stream::Plan { sources } => answer(channel, &Plan::of(&sources, None)),
        Stream::Remove { path } => roots.remove(&path),
        Stream::Said { dir, lines } => {
            let last = Last { line: last_line(&dir), lines: last_lines(&dir, lines), kept: kept_said(&dir) };
            answer(channel, &last)
        }
    }
}

fn answer(mut channel: &Channel, value: &impl Serialize) -> io::Result<()> {
    channel.write_all(&serde_json::to_vec(value)?)
}

fn send_file(mut channel: &Channel, path: &Path, from: u64) -> io::Result<()> {
    let failed = |error: io::Error| io::Error::new(error.kind(), format!("{} cannot be read: {error}", path.display()));
    // It may have become something else since it was looked at.
    let mut file = run_file::open_of_any_user(path).map_err(failed)?;
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut part = vec![0; LONGEST_CHUNK];
    loop {
        match file.read(&mut part) {
            Ok(0) => return Ok(()),
            Ok(count) => channel.write_all(&part[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

impl Roots {
    fn remove(&self, path: &Path) -> io::Result<()> {
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("failed to remove {}: {error}", path.display()));
        match self.has(path) {
            Ok(true) => {}
            Ok(false) => return Err(failed(io::Error::other("it is in no folder of this node"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Whether a path is below one of them, whatever links stand in it. Where its last name leads does not matter: a link
    /// is removed and not followed.
    fn has(&self, path: &Path) -> io::Result<bool> {
        let (Some(folder), Some(Component::Normal(_))) = (path.parent(), path.components().next_back()) else {
            return Ok(false);
        };
        let folder = fs::canonicalize(folder)?;
        Ok(self.0.iter().filter_map(|root| fs::canonicalize(root).ok()).any(|root| folder.starts_with(root)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_the_nodes_folders_is_removed() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        for folder in ["home/results/abc/deep", "home/other", "outside/kept"] {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(dir.join("outside"), dir.join("home/results/link")).unwrap();
        let roots = Roots(vec![dir.join("home/results"), dir.join("home/logs")]);
        for path in
            ["home/other", "home/results", "home/results/..", "home/results/../other", "home/results/link/kept", "/"]
        {
            assert!(roots.remove(&dir.join(path)).is_err(), "{path}");
        }
        for path in ["home/results/abc", "home/results/link", "home/results/none", "home/logs/job_abc"] {
            roots.remove(&dir.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
        let there = |path: &str| dir.join(path).exists();
        assert!(
            there("home/other") && there("outside/kept") && !there("home/results/abc") && !there("home/results/link")
        );
    }
}
