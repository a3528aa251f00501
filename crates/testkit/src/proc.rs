//! A look at processes, independent of the code under test.

use std::fs;
use std::path::{Path, PathBuf};

/// Whether a process exists and is no zombie. One whose other threads are still on their way out is not gone yet.
pub fn alive(pid: u32) -> bool {
    match stat(pid).as_ref().and_then(|fields| fields.chars().next()) {
        None | Some('X') => false,
        Some('Z') => fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1),
        Some(_) => true,
    }
}

/// Whether a process is stopped by a signal.
pub fn stopped(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields.starts_with('T'))
}

pub fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The connected unix socket that a process has open, by its inode.
pub fn connection(pid: u32) -> Option<String> {
    let sockets = fs::read_to_string("/proc/net/unix").ok()?;
    let fields = |line: &str| line.split_ascii_whitespace().map(String::from).collect::<Vec<_>>();
    // Columns of the kernel: state is the sixth, 03 for connected, the inode the seventh.
    let connected: Vec<String> =
        sockets.lines().map(fields).filter(|f| f.get(5).is_some_and(|s| s == "03")).map(|f| f[6].clone()).collect();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    let inodes = open.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string()));
    inodes.into_iter().find(|inode| connected.contains(inode))
}

/// The fields of `/proc/PID/stat` from the state on.
fn stat(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_string())
}

pub fn cmdline(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

/// The name a process goes by in `ps`.
pub fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_string()
}

/// `NAME=value` as the process was started with.
pub fn environment(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|one| String::from_utf8_lossy(one).into_owned()).collect()
}

/// Whether a process has something of a folder open. Shims and launchers keep their home open; their environment is
/// overwritten by their titles.
pub fn has_open(pid: u32, folder: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|path| path.starts_with(folder))
}

/// The program that a process runs.
pub fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Every process there is.
pub fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is there");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok()).collect()
}

/// Live processes whose command line contains this mark.
pub fn children_marked(mark: &str) -> Vec<u32> {
    all().into_iter().filter(|pid| alive(*pid) && cmdline(*pid).contains(mark)).collect()
}

/// Bytes a process has read, from whatever, since it began.
pub fn bytes_read(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).expect("a process of ours can be looked at")
}
