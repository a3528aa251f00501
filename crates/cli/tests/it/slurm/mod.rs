//! Jobs on a cluster: real Slurm, one of its own for each test.
//!
//! Jobs write down each of their executions, so that a test sees how often each ran, where, and with which GPUs.

mod answers;
mod away;
mod cancelled;
mod limits;
mod nodes;
mod output;
mod over_ssh;
mod preempted;
mod reasons;
mod sweeps;
mod together;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use nexus_testkit::{Call, Cluster, Nexus, Slurm, until};
use serde_json::Value;

use crate::NEXUS;

/// What a job writes down; see there.
const JOB: &str = include_str!("job.sh");

/// A cluster, and a home whose service has it as the machine `hpc`.
pub struct Hpc {
    // Dropped first: its service ends what it has in Slurm.
    pub nexus: Nexus,
    pub slurm: Slurm,
}

/// One execution of a job.
#[derive(Clone, Debug)]
pub struct Execution {
    pub attempt: u32,
    /// Slurm's own number, never that of an array.
    pub number: String,
    pub node: String,
    /// `CUDA_VISIBLE_DEVICES`, or `unset`.
    pub visible: String,
    /// What Slurm says that it gave, in two ways.
    pub given: String,
    pub ordinal: String,
    /// No other execution of the same job was there when it began.
    pub alone: bool,
    pub begin_ms: u64,
    /// Unless it was ended.
    pub end_ms: Option<u64>,
}

impl Hpc {
    /// Of class `hpc`, beside a service's host without GPUs. None where Slurm is not installed.
    pub fn start(cluster: Cluster, options: &[&str]) -> Option<Hpc> {
        let hpc = Hpc::apart(cluster)?;
        hpc.nexus.start(0);
        hpc.join(&[&["--class", "hpc"], options].concat());
        Some(hpc)
    }

    /// Not in the pool yet; no service runs.
    pub fn apart(cluster: Cluster) -> Option<Hpc> {
        let slurm = Slurm::start(cluster)?;
        let path = slurm.path_with_counting().into_string().expect("a path of text");
        let conf = slurm.conf().display().to_string();
        let nexus = Nexus::fresh(NEXUS).env("PATH", &path).env("SLURM_CONF", &conf);
        Some(Hpc::of(nexus, slurm))
    }

    /// A home that has no service yet.
    fn of(nexus: Nexus, slurm: Slurm) -> Hpc {
        nexus.config("[jobs]\nretry_wait = \"1s\"\n");
        nexus.file("job.sh", JOB);
        fs::create_dir(nexus.work().join("ran")).expect("the test's own folder");
        Hpc { nexus, slurm }
    }

    pub fn join(&self, options: &[&str]) {
        let added = self.nexus.run_limited(&[&["machine", "add", "--slurm", "hpc"], options].concat());
        added.expect_code(0);
    }

    /// Ends the service as a crash would, and starts another.
    #[track_caller]
    pub fn replace_service(&self) {
        self.nexus.kill_service();
        self.nexus.ok(&["start"]);
    }

    /// Queues one that writes down its executions, waits for a gate (`-` for none) and ends with a code.
    #[track_caller]
    pub fn add(&self, options: &[&str], gate: &str, code: i32) -> String {
        self.nexus.add_with(&[&["--class", "hpc"], options].concat(), &format!("sh job.sh {gate} {code}"))
    }

    /// The same so many times.
    #[track_caller]
    pub fn add_many(&self, count: usize, options: &[&str], gate: &str, code: i32) -> Vec<String> {
        let ids = self.add(&[options, &["-x", &count.to_string()]].concat(), gate, code);
        let ids: Vec<String> = ids.lines().map(String::from).collect();
        assert_eq!(ids.len(), count);
        ids
    }

    /// Lets those go that wait there.
    pub fn open(&self, gate: &str) {
        self.nexus.file(gate, "");
    }

    /// Waits for its end; one that does not come ends the test.
    #[track_caller]
    pub fn ended(&self, id: &str) -> Value {
        let waited = self.nexus.run_limited(&["wait", id]);
        assert!(matches!(waited.code, 0 | 1), "{waited}\n{}", self.about(id));
        self.nexus.job(id)
    }

    /// Waits for an end in this state.
    #[track_caller]
    pub fn ends(&self, id: &str, state: &str) -> Value {
        let job = self.ended(id);
        assert_eq!(job["state"], state, "{}", self.about(id));
        job
    }

    /// All that there is to know when something is wrong.
    pub fn about(&self, id: &str) -> String {
        let log = self.nexus.service_log();
        let told: Vec<&str> = log.lines().filter(|line| line.contains(id)).collect();
        let queue = self.slurm.command("squeue").args(["-h", "-r", "-t", "all"]).output();
        let queue = queue.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
        format!("{id}: {:?}\n{}\n{:#}\n{queue}", self.ran(id), told.join("\n"), self.nexus.job(id))
    }

    /// Its executions so far.
    pub fn ran(&self, id: &str) -> Vec<Execution> {
        let text = fs::read_to_string(self.nexus.work().join("ran").join(id)).unwrap_or_default();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').collect()).collect();
        let ends = |number: &str| lines.iter().find(|words| words[0] == "end" && words[3] == number);
        let begun = lines.iter().filter(|words| words[0] == "begin").map(|words| Execution {
            attempt: words[2].parse().expect("a number"),
            number: words[3].to_string(),
            node: words[4].to_string(),
            visible: words[5].to_string(),
            given: words[6].to_string(),
            ordinal: words[7].to_string(),
            alone: words[8] == "yes",
            begin_ms: words[1].parse().expect("a time"),
            end_ms: ends(words[3]).map(|words| words[1].parse().expect("a time")),
        });
        begun.collect()
    }

    /// Waits until an attempt of it has begun, and the service knows.
    #[track_caller]
    pub fn begun(&self, id: &str, attempt: u32) -> Execution {
        let begun = until(&format!("{id} begins attempt {attempt}"), || {
            self.ran(id).into_iter().find(|execution| execution.attempt == attempt)
        });
        self.nexus.in_state(id, "running");
        begun
    }

    /// It ran so many times, and never beside itself.
    #[track_caller]
    pub fn assert_ran(&self, id: &str, times: usize) {
        let ran = self.ran(id);
        assert!(ran.len() == times && ran.iter().all(|execution| execution.alone), "{}", self.about(id));
    }

    /// Waits until it waits in Slurm and has a number there; that, as the service tells it.
    #[track_caller]
    pub fn pending(&self, id: &str) -> Value {
        until(&format!("{id} waits in Slurm"), || {
            let waiting = self.nexus.job(id)["waiting"].clone();
            (waiting["kind"] == "slurm" && waiting["job"].is_string()).then_some(waiting)
        })
    }

    /// Calls of sbatch that submit something.
    pub fn submissions(&self) -> Vec<Call> {
        let submits =
            |call: &Call| call.program == "sbatch" && !call.args.iter().any(|argument| argument == "--test-only");
        self.slurm.calls().into_iter().filter(submits).collect()
    }

    /// All that Slurm remembers, by its names for them (`7`, `8_4`): their states. Not those that it started without the
    /// GPUs that they asked for, as after a restart of its controller: nexus does not begin them.
    pub fn numbers(&self) -> BTreeMap<String, String> {
        let is_ours = |number: &str, state: &str| {
            let told = || self.slurm.ask("scontrol", &["-o", "show", "job", number]);
            state != "FAILED" || !told().contains(" ExitCode=77:0 ")
        };
        let text = self.slurm.ask("squeue", &["-h", "-r", "-t", "all", "-o", "%i %T"]);
        let pairs = text.lines().filter_map(|line| line.split_once(' '));
        let pairs = pairs.filter(|(number, state)| is_ours(number, state));
        pairs.map(|(number, state)| (number.to_string(), state.to_string())).collect()
    }

    /// Waits until Slurm says this of one, by its own number.
    #[track_caller]
    pub fn number_is(&self, number: &str, state: &str) {
        let state = format!("JobState={state} ");
        until(&format!("{number} is {state}"), || {
            self.slurm.ask("scontrol", &["-o", "show", "job", number]).contains(&state).then_some(())
        });
    }

    /// Waits until all faults that were asked for have come.
    pub fn faults_came(&self) {
        let folder: PathBuf = self.slurm.conf().with_file_name("faults");
        until("the faults came", || {
            fs::read_dir(&folder).expect("a folder of the cluster").next().is_none().then_some(())
        });
    }
}

/// Smaller than usual: comes up sooner.
pub fn small(nodes: u16, gpus: u16) -> Cluster {
    Cluster { nodes, gpus, ..Cluster::default() }
}

/// Whether all is asked for that takes its time.
pub fn long() -> bool {
    let asked = std::env::var_os("NEXUS_TEST_LONG").is_some();
    if !asked {
        eprintln!("skipped: NEXUS_TEST_LONG=1 runs it");
    }
    asked
}
