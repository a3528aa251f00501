//! A home on a small disk, a binary that can be exchanged, and one machine besides.

use std::path::{Path, PathBuf};
use std::process::Command;

use nexus_testkit::{Mount, Nexus, SshHosts, proc, until};
use serde_json::Value;
use tempfile::TempDir;

use super::misfortune::Misfortune;
use crate::NEXUS;
use crate::bad_days::is_root;
use crate::crashes::client::Entry;

const GPUS: u16 = 6;
const GPUS_THERE: u16 = 4;

/// Room for the jobs of some thousand rounds, and little enough to be filled in no time.
const DISK: &str = "size=192m,nr_inodes=40k,mode=700";

pub struct Stage {
    // In this order: the service ends before its disk goes, and that before the machine it is connected to.
    pub nexus: Nexus,
    pub disk: Mount,
    pub ssh: SshHosts,
    program: Program,
}

impl Stage {
    /// None where disks cannot be made.
    pub fn set() -> Option<Stage> {
        if !is_root() {
            return None;
        }
        let (program, ssh) = (Program::new(), SshHosts::start(1));
        let nexus = Nexus::fresh(program.path().to_str().expect("temporary folders have names"));
        let home = nexus.work().join("small");
        let disk = Mount::small(&home, DISK);
        let nexus = nexus.env("NEXUS_HOME", home.to_str().expect("temporary folders have names"));
        nexus.config("[jobs]\nretry_wait = \"1s\"\n");
        nexus.start(GPUS);
        ssh.known_to(&nexus);
        ssh.add_to(&nexus, 1, GPUS_THERE);
        Some(Stage { nexus, disk, ssh, program })
    }

    /// Another binary takes the place of the one that runs; clients have it from now on.
    pub fn exchange(&self) {
        self.program.exchange();
    }

    /// The service is exchanged for one of the binary that is there now.
    pub fn restart(&self, service: u32) -> u32 {
        self.nexus.run_limited(&["restart"]).expect_code(0);
        let next = until("there is a service", || self.nexus.service_process());
        assert_ne!(next, service, "the same service runs after a restart");
        assert_eq!(proc::program(next).as_deref(), Some(self.program.path().as_path()), "the old binary runs");
        next
    }

    /// Clients of the test that are at work.
    pub fn clients(&self) -> Vec<u32> {
        let is_client =
            |pid: &u32| proc::parent(*pid) == Some(std::process::id()) && proc::name(*pid).starts_with("nexus");
        self.nexus.processes().into_iter().filter(is_client).collect()
    }

    /// The node on the other machine, without the shell that started it.
    pub fn nodes(&self) -> Vec<u32> {
        self.ssh.nodes(1).into_iter().filter(|pid| proc::name(*pid).starts_with("nexus")).collect()
    }

    /// Shims here and there, each with its run.
    pub fn shims(&self) -> Vec<(u32, String)> {
        [self.nexus.home(), self.ssh.home(1)].iter().flat_map(|home| Nexus::shims_in(home)).collect()
    }

    /// Asks until there is an answer, while machines may go out of use: jobs that fail on them put them in quarantine, and
    /// one that cannot be reached is called again later.
    pub fn until_resumed<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        until(what, || {
            self.nexus.run_limited(&["machine", "resume", "local", "host1"]);
            ask()
        })
    }

    /// A job goes through: what befell nexus is over.
    pub fn comes_through(&self, machine: &str, ledger: &Path, after: Misfortune) -> Entry {
        let ledger = ledger.display().to_string();
        let words = ["add", "--gpus", "0", "--priority", "-9", "--machine", machine, "sh", "job.sh", &ledger];
        let added = until(&format!("a job is taken after {after:?}"), || {
            let added = self.nexus.run_limited(&[&words[..], &["exit", "0", "0"]].concat());
            (added.code == 0).then_some(added)
        });
        let entry = Entry::new(added.stdout.trim_end(), &added.typed);
        self.until_resumed(&format!("{} comes through on {machine} after {after:?}", entry.id), || {
            let told = self.nexus.run_limited(&["show", &entry.id, "--json"]);
            let job: Value = serde_json::from_str(&told.stdout).ok()?;
            (job["state"] == "completed").then_some(())
        });
        entry
    }

    /// Nothing waits or runs any more.
    pub fn drains(&self) {
        self.until_resumed("all jobs have ended", || {
            self.nexus.json(&["ls", "--json"]).as_array().is_some_and(Vec::is_empty).then_some(())
        });
    }

    /// Processes that should have gone with the last job.
    pub fn left_behind(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let jobs = Nexus::job_processes_in(&self.ssh.home(1));
        findings.extend((!jobs.is_empty()).then(|| format!("still running on host1: {jobs:?}")));
        until("the last shim has gone", || self.shims().is_empty().then_some(()));
        let nodes = self.nodes();
        findings.extend((nodes.len() != 1).then(|| format!("host1 has nodes {nodes:?}")));
        for (home, keeper) in
            [(self.nexus.home(), self.nexus.service_process()), (self.ssh.home(1), nodes.first().copied())]
        {
            let is_launcher = |pid: &u32| proc::name(*pid) == "nexus-launcher" && proc::has_open(*pid, &home);
            let launchers: Vec<u32> = proc::all().into_iter().filter(is_launcher).collect();
            let is_known = launchers.iter().all(|pid| proc::parent(*pid) == keeper);
            findings.extend((!is_known).then(|| format!("launchers {launchers:?} of {keeper:?}")));
        }
        findings
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.nexus.service_log();
            let last: Vec<&str> = log.lines().rev().take(60).collect();
            eprintln!("service.log, the last first:\n{}", last.join("\n"));
        }
    }
}

/// A copy of the binary under test, to be exchanged for another: two that differ take turns, so that hosts, which are
/// sent each one they do not have, need not keep more than two.
struct Program {
    dir: TempDir,
}

impl Program {
    fn new() -> Program {
        let program =
            Program { dir: tempfile::Builder::new().prefix("nx-bin-").tempdir().expect("a temporary folder") };
        program.put("");
        program
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("nexus")
    }

    fn exchange(&self) {
        let len = |path: &Path| std::fs::metadata(path).expect("it is there").len();
        let more = if len(&self.path()) == len(Path::new(NEXUS)) { "x" } else { "" };
        self.put(more);
    }

    /// By a program of its own: a file that this one writes could not be run while a child has it open by chance.
    fn put(&self, more: &str) {
        let script = "cp \"$0\" \"$1.new\"; printf %s \"$2\" >>\"$1.new\"; mv \"$1.new\" \"$1\"";
        let done = Command::new("sh").args(["-ec", script, NEXUS]).arg(self.path()).arg(more).status();
        assert!(done.expect("sh is there").success(), "the binary can be copied");
    }
}
