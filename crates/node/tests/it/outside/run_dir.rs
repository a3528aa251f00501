//! Any bytes as the files of a run directory, which a job or a full disk may leave in any state. `=== NAME` in a line of its
//! own begins a file; what stands before the first of them is `stdout.log`. `=== NAME pipe` puts a named pipe there, and so on.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use nexus_api::run_dir::{EXIT, LAST_LINES, ORDER, STARTED, STDERR, STDOUT};
use nexus_node::fuzzing::Order;
use nexus_node::inspect::{Seen, inspect};
use nexus_node::logs::{LogReader, Which};
use nexus_node::{kept_said, last_line, last_lines};

const NAMES: [&str; 6] = [STDOUT, STDERR, ORDER, EXIT, STARTED, LAST_LINES];
const MARK: &[u8] = b"=== ";

pub fn hold(bytes: &[u8]) {
    let temporary = tempfile::tempdir().expect("a folder can be made");
    let dir = temporary.path();
    let files = files(bytes);
    for (name, content) in &files {
        std::fs::write(dir.join(name), content).expect("a file can be written");
        // Long ago: nothing else is on its way.
        let file = std::fs::File::options().write(true).open(dir.join(name)).expect("it is there");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("its time can be set");
    }
    if put_hostile(dir, bytes) {
        return nothing_is_waited_for(dir);
    }
    let of = |name: &str| files.get(name).map_or(&[][..], Vec::as_slice);
    if let Ok(Seen::Exited(record)) = inspect(dir) {
        let text = serde_json::to_vec(&record).expect("what was read can be written");
        std::fs::write(dir.join(EXIT), text).expect("a file can be written");
        assert_eq!(inspect(dir).expect("what was written can be read"), Seen::Exited(record.clone()));
        let _ = record.outcome();
    }
    kept_said(dir);
    assert!(last_line(dir).is_none_or(|line| line.chars().count() <= 300 && !line.contains('\n')));
    for count in [0, 3, usize::MAX] {
        assert!(last_lines(dir, count).len() <= count.min(of(STDOUT).len() + of(STDERR).len()));
    }
    for which in [Which::Both, Which::Stdout, Which::Stderr] {
        all_is_read_once(dir, which, [of(STDOUT), of(STDERR)]);
        ends_are_ends(dir, which, [of(STDOUT), of(STDERR)]);
    }
    let order = dir.join(ORDER);
    if let Ok((mut reopened, Some(_))) = Order::reopen(order) {
        let _ = reopened.extend(true, 5, 1);
        all_is_read_once(dir, Which::Both, [of(STDOUT), of(STDERR)]);
    }
}

/// Puts what is no file at some names; whether there is any.
fn put_hostile(dir: &Path, bytes: &[u8]) -> bool {
    let mut is_any = false;
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(words) = line.strip_prefix(MARK).and_then(|words| std::str::from_utf8(words).ok()) else { continue };
        let Some((name, kind)) = words.trim_end().split_once(' ') else { continue };
        let Some(name) = NAMES.iter().find(|known| **known == name) else { continue };
        let path = dir.join(name);
        let _ = std::fs::remove_file(&path);
        // The second of two for the same name finds what the first has put there.
        let _ = match kind {
            "pipe" => rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).map_err(Into::into),
            "folder" => std::fs::create_dir(&path),
            "link" => std::os::unix::fs::symlink("/nowhere/at/all", &path),
            "socket" => rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Socket, 0o600.into(), 0)
                .map_err(Into::into),
            "sparse" => std::fs::File::create(&path).and_then(|file| file.set_len(1 << 40)),
            _ => continue,
        };
        is_any = true;
    }
    is_any
}

/// With what is no file at some names everything still comes to an end.
fn nothing_is_waited_for(dir: &Path) {
    let _ = (inspect(dir), last_line(dir), last_lines(dir, 3), kept_said(dir));
    for which in [Which::Both, Which::Stdout, Which::Stderr] {
        if let Ok(mut reader) = LogReader::open(dir, which) {
            let _ = reader.tail(3).and_then(|()| reader.read_next(4096));
        }
    }
    let _ = Order::reopen(dir.join(ORDER));
}

fn files(bytes: &[u8]) -> BTreeMap<&'static str, Vec<u8>> {
    let (mut files, mut name) = (BTreeMap::<&str, Vec<u8>>::new(), STDOUT);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let named = line.strip_prefix(MARK).map(<[u8]>::trim_ascii_end);
        match NAMES.iter().find(|known| Some(known.as_bytes()) == named) {
            Some(next) => {
                // The end of the line before the mark is the mark's.
                if let Some(content) = files.get_mut(name).filter(|content| content.ends_with(b"\n")) {
                    content.pop();
                }
                name = next;
                files.entry(name).or_default();
            }
            None => files.entry(name).or_default().extend_from_slice(line),
        }
    }
    files
}

/// Whatever the order says, every byte of each stream is shown, once, in its order.
fn all_is_read_once(dir: &Path, which: Which, logs: [&[u8]; 2]) {
    let mut reader = LogReader::open(dir, which).expect("the logs can be opened");
    let read = rest(&mut reader, 7);
    for (stderr, log) in [false, true].into_iter().zip(logs) {
        let shown = match (which, stderr) {
            (Which::Both, _) | (Which::Stdout, false) | (Which::Stderr, true) => log,
            _ => &[],
        };
        assert_eq!(read[usize::from(stderr)], shown, "{which:?}");
    }
}

/// From somewhere on there is no more than there is, and it is what stands at the end.
fn ends_are_ends(dir: &Path, which: Which, logs: [&[u8]; 2]) {
    for lines in [0, 1, 2, usize::MAX] {
        let mut reader = LogReader::open(dir, which).expect("the logs can be opened");
        reader.tail(lines).expect("the end can be found");
        for (read, log) in rest(&mut reader, 4096).iter().zip(logs) {
            assert!(log.ends_with(read), "{lines} lines of {which:?}");
        }
    }
    for had in [[0, 3], [2, 0], [1 << 40, 1 << 62]] {
        let mut reader = LogReader::open(dir, which).expect("the logs can be opened");
        reader.resume(had[0], had[1]);
        for (read, log) in rest(&mut reader, 4096).iter().zip(logs) {
            assert!(log.ends_with(read), "behind {had:?} of {which:?}");
        }
    }
}

fn rest(reader: &mut LogReader, at_once: usize) -> [Vec<u8>; 2] {
    let mut read = [Vec::new(), Vec::new()];
    while let Some(chunk) = reader.read_next(at_once).expect("the logs can be read") {
        assert!(!chunk.bytes.is_empty() && chunk.bytes.len() <= at_once);
        read[usize::from(chunk.stderr)].extend(chunk.bytes);
    }
    read
}
