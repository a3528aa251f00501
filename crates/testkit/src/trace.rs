//! Counts what programs ask of the kernel, with strace; and what they compute, with valgrind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::until;

/// Calls that wait: how many there are is a matter of who was first.
const WAITS: &[&str] = &["futex", "epoll_wait", "epoll_pwait", "poll", "ppoll", "restart_syscall", "sched_yield"];

/// System calls by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls(BTreeMap<String, u64>);

impl Calls {
    pub fn of(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.0.get(*name)).sum()
    }

    /// All that do not wait.
    pub fn all(&self) -> u64 {
        self.0.iter().filter(|(name, _)| !WAITS.contains(&name.as_str())).map(|(_, count)| count).sum()
    }

    /// Whatever brings something to disk for good.
    pub fn syncs(&self) -> u64 {
        self.of(&["fsync", "fdatasync", "sync_file_range", "sync", "syncfs"])
    }

    fn read(file: &Path) -> Calls {
        let text = String::from_utf8_lossy(&fs::read(file).expect("strace wrote its file")).into_owned();
        let mut calls = Calls::default();
        // `1234  openat(…) = 3`; the second half of a call that was interrupted begins with `<...`.
        let named = |line: &str| {
            let call =
                line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().split_once('(')?.0.to_string();
            call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(call)
        };
        // Programs are looked for in one folder after another: those that were found count.
        let (starts, others): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains("execve"));
        let started = starts.into_iter().filter(|line| line.ends_with(" = 0")).map(|_| "execve".to_string());
        for call in others.into_iter().filter_map(named).chain(started) {
            *calls.0.entry(call).or_default() += 1;
        }
        calls
    }
}

/// Processes that are watched, with all that come from them.
pub struct Watched {
    strace: Child,
    file: PathBuf,
}

impl Watched {
    pub fn begin(pids: &[u32], file: PathBuf) -> Watched {
        let mut command = strace(&file);
        for pid in pids {
            command.arg("-p").arg(pid.to_string());
        }
        let strace = command.stderr(Stdio::null()).spawn().expect("strace can be started");
        until("strace watches", || pids.iter().all(|pid| is_watched(*pid)).then_some(()));
        Watched { strace, file }
    }

    pub fn end(mut self) -> Calls {
        crate::kill(self.strace.id(), libc::SIGINT);
        self.strace.wait().expect("strace ends");
        Calls::read(&self.file)
    }
}

/// A command from its begin to its end.
pub fn calls_of(command: &Command, file: PathBuf) -> Calls {
    let output = under(strace(&file), command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Calls::read(&file)
}

/// Instructions of a command, as many as the processor is asked to do by the program itself.
pub fn instructions_of(command: &Command) -> u64 {
    let mut callgrind = Command::new("valgrind");
    callgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    number_after("Collected : ", &under(callgrind, command))
}

/// Pieces of memory that a command asks for.
pub fn allocations_of(command: &Command) -> u64 {
    let mut memcheck = Command::new("valgrind");
    memcheck.args(["--tool=memcheck", "--leak-check=no", "--undef-value-errors=no"]);
    number_after("total heap usage: ", &under(memcheck, command))
}

/// Whether strace and valgrind are there, and may look at a service; where they have to be, they are.
pub fn is_there() -> bool {
    let missing = |tool: &&&str| Command::new(tool).arg("--version").stdout(Stdio::null()).status().is_err();
    let why = match ["strace", "valgrind"].iter().find(missing) {
        Some(tool) => format!("{tool} is not there"),
        None if !may_watch() => "kernel.yama.ptrace_scope lets nobody but root watch a service".into(),
        None => return true,
    };
    assert!(std::env::var_os("NEXUS_TEST_COSTS").is_none(), "{why}");
    eprintln!("skipped: {why}");
    false
}

/// A service is nobody's child: where the kernel is strict, only root may watch it.
fn may_watch() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    // SAFETY: it cannot fail and touches no memory.
    let is_root = unsafe { libc::geteuid() } == 0;
    is_root || matches!(scope.trim(), "" | "0")
}

fn strace(file: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-e", "signal=none", "-s", "0", "-o"]).arg(file);
    command
}

/// The same command, with its environment and folder, as words of another.
fn under(mut tool: Command, command: &Command) -> Output {
    tool.arg(command.get_program()).args(command.get_args()).env_clear().stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        tool.env(name, value.unwrap_or_default());
    }
    tool.current_dir(command.get_current_dir().expect("a folder of the test"));
    tool.output().expect("it can be started")
}

fn number_after(mark: &str, output: &Output) -> u64 {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let rest = text.split_once(mark).unwrap_or_else(|| panic!("no {mark:?} in {text}")).1;
    let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
    digits.parse().expect("a number")
}

/// All threads of a process.
fn is_watched(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    })
}
