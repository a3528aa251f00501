//! A node in a temporary directory, and ways to wait for what it reports.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nexus_api::run_dir::{ExitRecord, ExitStatus, ResourceLimits, RunSpec};
use nexus_core::ids::RunId;
use nexus_node::processes::{self, Process};
use nexus_node::{Node, NodeConfig, Report, RunPlace};

/// Longer than anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Stage {
    pub home: tempfile::TempDir,
    pub cgroups: bool,
    /// How long shims may be silent that should tell an end.
    shim_patience: Duration,
    node: Option<Node>,
    reports: Receiver<Report>,
}

impl Stage {
    pub fn new() -> Stage {
        Stage::with_cgroups(true)
    }

    pub fn with_cgroups(cgroups: bool) -> Stage {
        Stage::open(cgroups, NodeConfig::usual_shim_patience())
    }

    pub fn open(cgroups: bool, shim_patience: Duration) -> Stage {
        let home = tempfile::tempdir().unwrap();
        let (node, reports) = open_node(home.path(), cgroups, shim_patience);
        Stage { home, cgroups, shim_patience, node: Some(node), reports }
    }

    pub fn node(&self) -> &Node {
        self.node.as_ref().expect("the node is open")
    }

    /// As when the service is stopped or dies: jobs go on.
    pub fn close_node(&mut self) {
        self.node = None;
    }

    pub fn open_node(&mut self) {
        assert!(self.node.is_none());
        let (node, reports) = open_node(self.home.path(), self.cgroups, self.shim_patience);
        (self.node, self.reports) = (Some(node), reports);
    }

    pub fn dir(&self, run: &str) -> PathBuf {
        self.home.path().join("logs").join(run)
    }

    pub fn place(&self, run: &str) -> RunPlace {
        RunPlace { run: id(run), dir: self.dir(run) }
    }

    /// A run of a program with its arguments, in the home, on terminals.
    pub fn spec(&self, run: &str, argv: &[&str]) -> RunSpec {
        spec_in(self.home.path(), run, argv)
    }

    pub fn shell(&self, run: &str, text: &str) -> RunSpec {
        RunSpec { shell: true, ..self.spec(run, &["sh", "-c", text]) }
    }

    pub fn start(&self, spec: RunSpec) {
        self.node().start(vec![spec], vec![]);
    }

    pub fn stop(&self, run: &str) {
        self.node().stop(vec![self.place(run)]);
    }

    /// Starts it and waits for its end.
    pub fn run(&self, spec: RunSpec) -> ExitRecord {
        let run = spec.run.clone();
        self.start(spec);
        self.end_of(&run)
    }

    /// The next report that is of interest; others are passed over.
    pub fn wait_for<T>(&self, what: &str, mut pick: impl FnMut(Report) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        let mut passed = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(report) = self.reports.recv_timeout(left) else { panic!("no {what}, only {passed:?}") };
            passed.push(report.clone());
            if let Some(found) = pick(report) {
                return found;
            }
        }
    }

    pub fn end_of(&self, run: &str) -> ExitRecord {
        self.wait_for(&format!("end of {run}"), |report| match report {
            Report::Ended { run: ended, record } if ended == id(run) => Some(record),
            Report::StartFailed { .. } | Report::Lost { .. } => panic!("{report:?}"),
            _ => None,
        })
    }

    /// The command's pid.
    pub fn start_of(&self, run: &str) -> u32 {
        self.wait_for(&format!("start of {run}"), |report| match report {
            Report::Started { run: started, pid, .. } if started == id(run) => Some(pid),
            _ => None,
        })
    }

    pub fn reports_until_quiet(&self, quiet: Duration) -> Vec<Report> {
        std::iter::from_fn(|| self.reports.recv_timeout(quiet).ok()).collect()
    }

    pub fn log(&self, run: &str, name: &str) -> String {
        String::from_utf8(std::fs::read(self.dir(run).join(name)).unwrap_or_default()).unwrap()
    }

    /// The job says how far it is by making files in the home.
    pub fn wait_for_file(&self, name: &str) -> String {
        let path = self.home.path().join(name);
        wait_until(&format!("file {name}"), || path.exists());
        std::fs::read_to_string(path).unwrap()
    }

    /// A process that the job named in a file.
    pub fn process_in(&self, name: &str) -> Process {
        let path = self.home.path().join(name);
        wait_until(&format!("pid in {name}"), || std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        let pid = std::fs::read_to_string(path).unwrap().trim().parse().unwrap();
        processes::stat(pid).expect("the process is there").process
    }
}

/// A run of a program with its arguments, in the home, on terminals.
pub fn spec_in(home: &Path, run: &str, argv: &[&str]) -> RunSpec {
    RunSpec {
        format: 1,
        run: run.to_owned(),
        dir: home.join("logs").join(run),
        argv: argv.iter().map(|&one| one.to_owned()).collect(),
        shell: false,
        cwd: home.to_owned(),
        env: [("PATH", std::env::var("PATH").unwrap())].into_iter().collect(),
        env_file: None,
        limits: ResourceLimits::default(),
        tty: true,
        columns: 120,
        rows: 40,
        time_limit_ms: None,
        warning: None,
        grace_ms: 60_000,
        out: None,
        out_else: None,
        reports: PathBuf::new(),
        cgroup_base: None,
        gpu_locks: vec![],
        gpu_locks_shared: false,
        screen: None,
        one_terminal: false,
        memory_max_mib: None,
        checkpoint_dir: None,
        results_dir: None,
        extract: vec![],
        project_link: None,
        machine: None,
        slurm: None,
        script: None,
        hidden: vec![],
        login_env: false,
        code: None,
    }
}

fn open_node(home: &Path, cgroups: bool, shim_patience: Duration) -> (Node, Receiver<Report>) {
    let own = std::env::current_exe().unwrap().into_os_string();
    let arguments = ["launcher_entry", "--exact", "--ignored", "--nocapture", "--test-threads=1"].map(OsString::from);
    // `env` becomes the launcher: GPUs are locked in a folder of this test's own.
    let locks = OsString::from(format!("NEXUS_GPU_LOCKS={}", home.join("gpu-locks").display()));
    let config = NodeConfig {
        reports: home.join("reports.sock"),
        launcher: [OsString::from("env"), locks, own].into_iter().chain(arguments).collect(),
        cgroups,
        guard: None,
        shim_patience,
    };
    let (sender, reports) = channel();
    let sender = std::sync::Mutex::new(sender);
    let sink = Box::new(move |report| {
        let _ = sender.lock().unwrap().send(report);
    });
    (Node::open(config, sink).unwrap(), reports)
}

pub fn id(run: &str) -> RunId {
    run.parse().unwrap()
}

/// For what has no event of its own, such as a file that a job makes.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether it runs; a zombie that nobody has collected does not.
pub fn lives(process: Process) -> bool {
    processes::stat(process.pid).is_some_and(|stat| stat.process == process && !stat.zombie)
}

pub fn exited(code: i32) -> ExitStatus {
    ExitStatus::Exited { code }
}
