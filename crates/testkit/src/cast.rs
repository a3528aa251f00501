//! Who plays in a home: its service, its launcher, its shims and the processes of its jobs, found in `/proc` without
//! asking any of them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Nexus, proc, until};

impl Nexus {
    /// The process of the service, if there is one.
    pub fn service_process(&self) -> Option<u32> {
        let found: Vec<u32> =
            self.processes().into_iter().filter(|pid| proc::cmdline(*pid).contains(" __service")).collect();
        // Its child looks like it until it has become the launcher.
        found.iter().find(|pid| proc::parent(**pid).is_some_and(|parent| !found.contains(&parent))).copied()
    }

    /// The launcher of the service that runs.
    #[track_caller]
    pub fn launcher(&self) -> u32 {
        until("there is a launcher", || self.launcher_of(self.service_process()?))
    }

    pub fn launcher_of(&self, service: u32) -> Option<u32> {
        let launcher = |pid: &u32| proc::name(*pid) == "nexus-launcher" && proc::parent(*pid) == Some(service);
        self.processes().into_iter().find(launcher)
    }

    /// Where an attempt of a job keeps its files.
    pub fn run_dir(&self, id: &str, attempt: u32) -> PathBuf {
        let dir = self.home().join("logs").join(format!("job_{id}"));
        if attempt > 1 { dir.join(format!("attempt_{attempt}")) } else { dir }
    }

    /// What the shim of a job's first attempt wrote when it started it.
    #[track_caller]
    pub fn started(&self, id: &str) -> Value {
        let path = self.run_dir(id, 1).join("started");
        until(&format!("{id} has a shim"), || {
            serde_json::from_slice::<Value>(&std::fs::read(&path).ok()?).ok().filter(|started| started["pid"].is_u64())
        })
    }

    /// The shim of a job that runs.
    #[track_caller]
    pub fn shim(&self, id: &str) -> u32 {
        u32::try_from(self.started(id)["shim_pid"].as_u64().expect("a shim has a pid")).expect("a pid")
    }

    /// Shims that watch runs in a folder, each with its run. A job that is on its way to its program looks like its shim:
    /// it is the one that has a shim for a parent.
    pub fn shims_in(folder: &Path) -> Vec<(u32, String)> {
        let run = |pid: u32| proc::cmdline(pid).strip_prefix("nexus: job ").map(|run| run.trim_end().to_string());
        let is_shim = |pid: u32| proc::alive(pid) && proc::name(pid) == "nexus-shim";
        let shims = proc::all().into_iter().filter(|pid| is_shim(*pid) && !proc::parent(*pid).is_some_and(is_shim));
        shims.filter(|pid| proc::has_open(*pid, folder)).filter_map(|pid| Some((pid, run(pid)?))).collect()
    }

    /// Processes of this home's jobs, shims not among them.
    pub fn job_processes(&self) -> Vec<u32> {
        Nexus::job_processes_in(&self.home())
    }

    /// The same for the home of another machine.
    pub fn job_processes_in(home: &Path) -> Vec<u32> {
        let mark = setting("NEXUS_RUN_DIR", home);
        let of_a_job = |pid: &u32| proc::environment(*pid).iter().any(|one| one.starts_with(&mark));
        proc::all().into_iter().filter(|pid| proc::alive(*pid)).filter(of_a_job).collect()
    }

    /// Whatever was started with this home in its environment: service, launcher, shims, clients, and jobs.
    pub fn processes(&self) -> Vec<u32> {
        let mark = setting("NEXUS_HOME", &self.home());
        proc::all().into_iter().filter(|pid| proc::alive(*pid) && proc::environment(*pid).contains(&mark)).collect()
    }
}

fn setting(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}
