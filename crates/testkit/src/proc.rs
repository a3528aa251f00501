//! A look at processes, independent of the code under test.

use std::fs;

/// Whether a process exists and is no zombie.
pub fn alive(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

pub fn cmdline(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

/// Live processes whose command line contains this mark.
pub fn children_marked(mark: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is there");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| alive(*pid) && cmdline(*pid).contains(mark)).collect()
}
