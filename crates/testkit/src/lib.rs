//! Test helpers: the real binary with a service of its own in a temporary home.
//!
//! Everything waits for a condition with a deadline; nothing waits for a time.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

mod cast;
mod chance;
mod conda;
mod database;
pub mod disk;
mod fd_store;
mod gpus;
mod limits;
mod mounts;
mod output;
mod pages;
pub mod proc;
pub mod record;
mod slurm;
mod socket;
mod ssh;
mod stir;
mod terminal;
mod tmux;
pub mod trace;
mod typist;
mod web;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub use chance::Chance;
pub use conda::{Conda, make_venv};
pub use fd_store::FdStore;
pub use gpus::{FakeGpu, FakeGpus};
pub use limits::{Limited, LimitedProcesses, tasks_of};
pub use mounts::{Filler, Inodes, Mount, ReadOnly};
pub use output::Output;
pub use pages::prose;
pub use proc::{alive, children_marked, cmdline};
pub use slurm::{Call, Cluster, Fault, Slurm};
pub use socket::request;
pub use ssh::SshHosts;
pub use stir::stir;
pub use tmux::Tmux;
pub use typist::Typist;
pub use web::{Answer, Browser, Web, sha256};

/// Longer than anything here takes on a loaded machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A home for one test. Its service is started by use or by [`Nexus::start`], and ended on drop.
pub struct Nexus {
    binary: PathBuf,
    dir: TempDir,
    env: Vec<(String, String)>,
    user: Option<u32>,
}

impl Nexus {
    /// A fresh home; no service runs yet. `binary` is `env!("CARGO_BIN_EXE_nexus")`.
    pub fn fresh(binary: &str) -> Nexus {
        Nexus::fresh_in(binary, &std::env::temp_dir())
    }

    /// The same in memory, where there is room for it: for a test that writes many gigabytes in all.
    pub fn in_memory(binary: &str) -> Nexus {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Nexus::fresh_in(binary, memory) } else { Nexus::fresh(binary) }
    }

    fn fresh_in(binary: &str, place: &Path) -> Nexus {
        let dir = tempfile::Builder::new().prefix("nx-").tempdir_in(place).expect("a temporary folder");
        std::fs::create_dir(dir.path().join("work")).expect("a working folder");
        Nexus { binary: binary.into(), dir, env: Vec::new(), user: None }
    }

    /// A home whose service runs with simulated GPUs.
    pub fn with_gpus(binary: &str, gpus: u16) -> Nexus {
        let nexus = Nexus::fresh(binary);
        nexus.start(gpus);
        nexus
    }

    /// Further environment of every command of this home.
    pub fn env(mut self, name: &str, value: &str) -> Nexus {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Makes this a fresh home of another user, who types all its commands. Only root can.
    pub fn of_user(mut self, number: u32) -> Nexus {
        for folder in [self.dir.path(), &self.work()] {
            std::os::unix::fs::chown(folder, Some(number), Some(number)).expect("the test runs as root");
        }
        self.user = Some(number);
        self
    }

    /// Gives this home the GPUs of a file; see [`FakeGpus`].
    pub fn fake_gpus(self, gpus: &FakeGpus) -> Nexus {
        gpus.env().into_iter().fold(self, |nexus, (name, value)| nexus.env(name, &value))
    }

    pub fn start(&self, gpus: u16) {
        self.ok(&["start", "--simulate-gpus", &gpus.to_string()]);
    }

    /// `NEXUS_HOME`.
    pub fn home(&self) -> PathBuf {
        match self.env.iter().find(|(name, _)| name == "NEXUS_HOME") {
            Some((_, value)) => value.into(),
            None => self.dir.path().join("home"),
        }
    }

    /// The folder that has the home, and all else of this test.
    pub fn root(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }

    /// The folder commands are typed in.
    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// The binary in this home, with a clean environment.
    pub fn command<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Command {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&self.binary);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.dir.path())
            .env("NEXUS_HOME", self.dir.path().join("home"))
            .env("TZ", "UTC")
            // What the machine under the tests has is none of theirs.
            .env("NEXUS_NVML", "/nonexistent/libnvidia-ml.so.1")
            .env("NEXUS_NVIDIA_SMI", "/nonexistent/nvidia-smi")
            .env("NEXUS_GPU_LOCKS", self.dir.path().join("gpu-locks"))
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Output {
        let shown: Vec<String> = args.iter().map(|arg| arg.as_ref().to_string_lossy().into_owned()).collect();
        let done = self.command(args).output().expect("the binary runs");
        Output::new(format!("nexus {}", shown.join(" ")), done)
    }

    /// Like [`Nexus::run`]; one that hangs is ended by a signal (code 142) after [`DEADLINE`].
    pub fn run_limited<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Output {
        use std::os::unix::process::CommandExt;
        let shown: Vec<String> = args.iter().map(|arg| arg.as_ref().to_string_lossy().into_owned()).collect();
        let mut command = self.command(args);
        // SAFETY: alarm(2) is async-signal-safe; it outlives exec and is not inherited by the client's children.
        let done = unsafe {
            command.pre_exec(|| {
                libc::alarm(DEADLINE.as_secs() as u32);
                Ok(())
            })
        }
        .output();
        Output::new(format!("nexus {}", shown.join(" ")), done.expect("the binary runs"))
    }

    /// Like [`Nexus::run`], with this on standard input.
    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        use std::io::Write;
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        // One that refuses does not read.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        Output::new(format!("nexus {}", args.join(" ")), child.wait_with_output().expect("it ends"))
    }

    /// Sets a variable.
    #[track_caller]
    pub fn set_variable(&self, name: &str, value: &str) {
        self.run_with_input(&["var", "set", name], value.as_bytes()).expect_code(0);
    }

    /// Must succeed; stdout without the last newline.
    #[track_caller]
    pub fn ok<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> String {
        self.run(args).expect_code(0).stdout.trim_end_matches('\n').to_string()
    }

    /// Must fail with this code; stderr.
    #[track_caller]
    pub fn fails<S: AsRef<std::ffi::OsStr>>(&self, code: i32, args: &[S]) -> String {
        self.run(args).expect_code(code).stderr
    }

    #[track_caller]
    pub fn json<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Value {
        let text = self.ok(args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON ({error}): {text}"))
    }

    /// Queues a shell command; its id.
    #[track_caller]
    pub fn add(&self, command: &str) -> String {
        self.ok(&["add", command])
    }

    /// Queues with options; its id.
    #[track_caller]
    pub fn add_with(&self, options: &[&str], command: &str) -> String {
        let args: Vec<&str> = [&["add"], options, &[command]].concat();
        self.ok(&args)
    }

    /// The job as `show --json` tells it.
    #[track_caller]
    pub fn job(&self, id: &str) -> Value {
        self.json(&["show", id, "--json"])
    }

    /// Waits for the job's end; the job as it is then.
    #[track_caller]
    pub fn ended(&self, id: &str) -> Value {
        // Exit 1 says that it did not complete: the caller looks for itself.
        let waited = self.run(&["wait", id]);
        assert!(matches!(waited.code, 0 | 1), "{waited}");
        self.job(id)
    }

    /// Queues a shell command and waits for its end.
    #[track_caller]
    pub fn done(&self, command: &str) -> Value {
        let id = self.add(command);
        self.ended(&id)
    }

    /// Waits until the job is in this state.
    #[track_caller]
    pub fn in_state(&self, id: &str, state: &str) -> Value {
        until(&format!("{id} is {state}"), || Some(self.job(id)).filter(|job| job["state"] == state))
    }

    #[track_caller]
    pub fn stdout_of(&self, id: &str) -> String {
        self.stdout(id).unwrap_or_else(|| panic!("{id} has no log"))
    }

    /// The same while the job may not have begun.
    #[track_caller]
    pub fn stdout_so_far(&self, id: &str) -> String {
        self.stdout(id).unwrap_or_default()
    }

    #[track_caller]
    fn stdout(&self, id: &str) -> Option<String> {
        let path = self.job(id)["stdout_path"].as_str().expect("a path").to_string();
        match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            read => Some(read.unwrap_or_else(|error| panic!("{path}: {error}"))),
        }
    }

    pub fn service_log(&self) -> String {
        std::fs::read_to_string(self.home().join("service.log")).unwrap_or_default()
    }

    #[track_caller]
    pub fn service_pid(&self) -> u32 {
        let pid = self.json(&["doctor", "--json"])["service"]["pid"].as_u64();
        u32::try_from(pid.expect("the service runs")).expect("a pid")
    }

    /// `kill -9`, and waits until it is gone.
    #[track_caller]
    pub fn kill_service(&self) {
        let pid = self.service_pid();
        kill(pid, libc::SIGKILL);
        until("the service is gone", || (!alive(pid)).then_some(()));
    }

    /// Writes the home's `config.toml`, before its first start too.
    pub fn config(&self, text: &str) {
        use std::os::unix::fs::DirBuilderExt;
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.home());
        made.and_then(|()| std::fs::write(self.home().join("config.toml"), text)).expect("the home is writable");
    }

    /// Makes a file of the test's own, and its folder.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.work().join(name);
        let folder = path.parent().expect("it lies in the test's own folder");
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, content));
        written.expect("the test's own folder is writable");
        path
    }
}

impl Drop for Nexus {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.home().join("service.log")).unwrap_or_default();
            let last = log.lines().rev().take(LAST_LINES).collect::<Vec<_>>().into_iter().rev();
            eprintln!("the end of service.log:\n{}", last.collect::<Vec<_>>().join("\n"));
        }
        // A home that never had a service has nothing to stop.
        let _ = self.command(&["stop", "-y"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if std::env::var_os("NEXUS_TEST_KEEP").is_some() {
            self.dir.disable_cleanup(true);
            eprintln!("kept: {}", self.dir.path().display());
        }
    }
}

/// Of the service's log, shown where a test fails.
const LAST_LINES: usize = 15;

/// Signals by name, for tests of crates that have no libc.
pub mod signal {
    pub use libc::{SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGSTOP, SIGTERM};
}

pub fn kill(pid: u32, signal: i32) {
    // SAFETY: kill(2) touches no memory of ours.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Asks until there is an answer; panics when the deadline has passed.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
