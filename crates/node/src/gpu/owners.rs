//! Whose process it is that the driver names: its user, its program, and the nexus run it belongs to, by `/proc`.

use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use nexus_api::run_dir::RUN_DIR_VARIABLE;

use super::GpuProcess;
use crate::processes;
use crate::system_file;
use crate::users;

/// Computes for its clients, which are listed themselves: nobody's work of its own.
const MPS_SERVER: &str = "nvidia-cuda-mps-server";

/// Generations above a process in which its run is looked for.
const MOST_ANCESTORS: usize = 64;

const LONGEST_NAME: usize = 64;

/// A process as the driver lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    pub pid: u32,
    pub memory_mib: Option<u64>,
    pub graphics: bool,
}

/// Each process once, with its owner. Who computes and draws, computes.
pub fn describe(listed: Vec<Listed>) -> Vec<GpuProcess> {
    let known = merge(listed).into_iter().map(|one| {
        let arguments = system_file::read(format!("/proc/{}/cmdline", one.pid)).ok();
        (arguments.as_deref().and_then(|arguments| program_name(one.pid, arguments)), arguments, one)
    });
    let foreign = known.filter(|(name, _, _)| name.as_deref() != Some(MPS_SERVER));
    foreign
        .map(|(name, arguments, one)| GpuProcess {
            pid: one.pid,
            user: user_of(one.pid),
            name,
            memory_mib: one.memory_mib,
            graphics: one.graphics,
            run_dir: run_dir(one.pid),
            // A process that ends loses its memory first, and its arguments with that; it may take a second to be gone.
            ending: arguments.is_some_and(|arguments| arguments.is_empty()),
        })
        .collect()
}

fn merge(mut listed: Vec<Listed>) -> Vec<Listed> {
    listed.sort_by_key(|one| one.pid);
    listed.dedup_by(|later, kept| {
        let same = later.pid == kept.pid;
        if same {
            // Both lists tell all that the process has.
            kept.memory_mib = kept.memory_mib.max(later.memory_mib);
            kept.graphics &= later.graphics;
        }
        same
    });
    listed
}

/// The name of the user a process runs as.
pub fn user_of(pid: u32) -> Option<String> {
    // Not the owner of the folder in /proc: that is root for a process that must not be looked into.
    let status = system_file::read_text(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    Some(users::name_of(numbers.split_ascii_whitespace().next()?.parse().ok()?))
}

fn program_name(pid: u32, arguments: &[u8]) -> Option<String> {
    let name = name_in(arguments);
    name.or_else(|| Some(system_file::read_text(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned()))
}

fn name_in(arguments: &[u8]) -> Option<String> {
    let mut parts = arguments.split(|byte| *byte == 0);
    let first = String::from_utf8_lossy(parts.next()?).into_owned();
    // A program that wrote a title over its arguments leaves one text with blanks.
    let alone = parts.all(<[u8]>::is_empty);
    let first = if alone { first.split(' ').next()? } else { &first };
    let name: String = first.rsplit('/').next()?.chars().take(LONGEST_NAME).collect();
    (!name.is_empty()).then_some(name)
}

/// The run directory in the environment of the process, or of the nearest ancestor that has one. Those of other
/// users cannot be read: their runs are known by the lock of the GPU.
fn run_dir(pid: u32) -> Option<PathBuf> {
    let mut pid = pid;
    for _ in 0..MOST_ANCESTORS {
        if let Some(dir) = processes::environment_value(pid, RUN_DIR_VARIABLE) {
            return Some(std::ffi::OsString::from_vec(dir).into());
        }
        pid = processes::stat(pid)?.parent;
        if pid <= 1 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_two_lists_is_one_that_computes() {
        let one = |pid, memory_mib, graphics| Listed { pid, memory_mib, graphics };
        let merged = merge(vec![one(7, Some(10), true), one(5, None, true), one(7, Some(30), false)]);
        assert_eq!(merged, [one(5, None, true), one(7, Some(30), false)]);
    }

    #[test]
    fn programs_are_named_without_their_folder() {
        let name = |arguments: &[u8]| name_in(arguments);
        assert_eq!(name(b"/usr/bin/python3\0train.py\0").as_deref(), Some("python3"));
        assert_eq!(name(b"/opt/my tools/run\0x\0").as_deref(), Some("run"));
        assert_eq!(name(b"ray::IDLE of somebody\0\0\0").as_deref(), Some("ray::IDLE"));
        assert_eq!(name(b""), None);
        assert_eq!(name("ä".repeat(100).as_bytes()).map(|name| name.chars().count()), Some(LONGEST_NAME));
    }

    #[test]
    fn a_run_is_found_through_ancestors() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "env -u NEXUS_RUN_DIR sleep 60 & echo $!; wait"])
            .env(RUN_DIR_VARIABLE, "/logs/job_abc")
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut lines = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        nexus_testkit::until("it sleeps", || nexus_testkit::cmdline(child).starts_with("sleep").then_some(()));
        assert_eq!(run_dir(child), Some("/logs/job_abc".into()));
        assert_eq!(user_of(child).as_deref(), Some(users::name_of(rustix::process::getuid().as_raw()).as_str()));
        assert!(processes::stat(child).unwrap().process.signal(libc::SIGKILL));
        shell.wait().unwrap();
    }
}
