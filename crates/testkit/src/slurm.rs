//! A Slurm cluster of a test: real munged, slurmctld and slurmd, with ports, a key, a folder and a configuration of
//! their own. The nodes share this machine; their GPUs are device files without a device.
//! The daemons are children in the test's process group, so that whoever ends the test ends them too.
//!
//! Programs found by [`Slurm::path_with_counting`] write down each call and fail as [`Slurm::break_next`] says.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{kill, proc};

/// Set where a test may not be left out for want of it.
const REQUIRED: &str = "NEXUS_TEST_SLURM";

/// Ports of all clusters: below those that the kernel gives to whoever asks for any.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// Of one cluster: its claim, its controller, its nodes.
const BLOCK: u16 = 40;

const START_LIMIT: Duration = Duration::from_secs(30);

/// What [`Slurm::path_with_counting`] has a stand-in for.
const COUNTED: [&str; 7] = ["sbatch", "squeue", "scontrol", "sacct", "scancel", "sinfo", "srun"];

/// What is asked of the cluster. GPUs and CPUs are those of each node.
pub struct Cluster {
    pub nodes: u16,
    pub gpus: u16,
    pub cpus: u16,
    /// Further lines of `slurm.conf`; one that sets what is set already takes its place.
    pub extra: Vec<String>,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster { nodes: 3, gpus: 2, cpus: 8, extra: Vec::new() }
    }
}

/// Its nodes are called `n1`, `n2`, …; its partitions `gpu`, the default, and `low`, which yields to it where
/// [`Cluster::extra`] says that there is preemption.
pub struct Slurm {
    dir: TempDir,
    conf: PathBuf,
    cluster: Cluster,
    /// Listens on the first port of the block, so that no other test takes a port that is free for a moment.
    _claim: TcpListener,
    port: u16,
    faults: AtomicU32,
    daemons: Mutex<BTreeMap<String, Child>>,
}

/// What goes wrong with a call; see [`Slurm::break_next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Slurm did what was asked, and the caller hears that the time was out.
    TimesOutButWorks,
    TimesOut,
    /// Half of the lines, and half of the next; the exit code is that of the real one.
    CutOutput,
    /// Seconds before the real one begins.
    Slow(u32),
    /// Something that is no answer, with exit code 0.
    Garbage,
}

/// One call of a program of Slurm; the time counts from 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub program: String,
    pub at_ms: u64,
    pub args: Vec<String>,
}

impl Slurm {
    /// Returns when all nodes are idle. None where Slurm is not installed, which is said.
    pub fn start(cluster: Cluster) -> Option<Slurm> {
        let programs = ["munged", "slurmctld", "slurmd"];
        if let Some(name) = programs.iter().chain(&COUNTED).find(|name| installed(name).is_none()) {
            let missing = format!("there is no {name}: apt-get install slurmctld slurmd slurm-client munge");
            assert!(std::env::var_os(REQUIRED).is_none(), "{missing}");
            eprintln!("skipped: {missing}");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("nx-slurm-").tempdir().expect("a temporary folder");
        // munged wants its socket where everybody may go.
        permit(dir.path(), 0o755);
        let (_claim, port) = claim_ports(cluster.nodes);
        let (conf, daemons) = (dir.path().join("slurm.conf"), Mutex::default());
        let slurm = Slurm { dir, conf, cluster, _claim, port, faults: AtomicU32::new(0), daemons };
        for folder in ["state", "spool", "log", "run", "bin", "faults", "taken"] {
            fs::create_dir(slurm.path(folder)).expect("a folder of the cluster");
        }
        slurm.write_configuration();
        slurm.write_stand_ins();
        slurm.start_munged();
        // Cold, for the first time only: what the controller knows outlives it.
        slurm.launch("slurmctld", "slurmctld", &["-D", "-c"]);
        // A node that finds no controller tries again a second later.
        slurm.comes_up("the controller listens", |slurm| TcpStream::connect(("127.0.0.1", slurm.port)).is_ok());
        slurm.node_names().for_each(|node| slurm.start_node(&node));
        slurm.comes_up("all nodes are idle", |slurm| slurm.node_names().all(|node| slurm.node_state(&node) == "idle"));
        Some(slurm)
    }

    /// The value of `SLURM_CONF`.
    pub fn conf(&self) -> &Path {
        &self.conf
    }

    /// A program of Slurm, told of this cluster and of nothing else.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(installed(program).unwrap_or_else(|| program.into()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path).env("TZ", "UTC").current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("HOME", self.dir.path()).env("SLURM_CONF", &self.conf);
        command
    }

    /// What a call that must succeed says, without the last newline.
    #[track_caller]
    pub fn ask(&self, program: &str, args: &[&str]) -> String {
        let done = self.command(program).args(args).output().expect("the program runs");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program} {args:?}: {}\n{errors}", done.status);
        String::from_utf8_lossy(&done.stdout).trim_end_matches('\n').to_string()
    }

    /// Ends the controller as an operator would.
    pub fn stop_controller(&self) {
        self.end("slurmctld", libc::SIGTERM);
    }

    /// Ends the controller as a crash would.
    pub fn kill_controller(&self) {
        self.end("slurmctld", libc::SIGKILL);
    }

    /// Returns when it answers. It knows what the one before it had saved.
    pub fn start_controller(&self) {
        self.launch("slurmctld", "slurmctld", &["-D"]);
        self.comes_up("the controller answers", |slurm| {
            slurm.command("scontrol").arg("ping").output().is_ok_and(|done| done.status.success())
        });
    }

    pub fn restart_controller(&self) {
        self.stop_controller();
        self.start_controller();
    }

    /// Ends a node's slurmd as a crash would; `with_jobs`, all that runs there too: a power cut. Slurm finds out some
    /// ten seconds later.
    pub fn kill_node(&self, node: &str, with_jobs: bool) {
        self.end(node, libc::SIGKILL);
        if with_jobs {
            self.end_jobs(Some(node));
        }
    }

    /// Starts its slurmd. Slurm takes it for up some moments later.
    pub fn start_node(&self, node: &str) {
        fs::create_dir_all(self.path("spool").join(node)).expect("a folder of the node");
        self.launch(node, "slurmd", &["-D", "-N", node]);
    }

    /// Its jobs end in peace, and no other starts there.
    pub fn drain(&self, node: &str, reason: &str) {
        self.ask("scontrol", &["update", &format!("NodeName={node}"), "State=DRAIN", &format!("Reason={reason}")]);
    }

    /// Has Slurm take a node for lost at once. It is back a second later if its slurmd runs.
    pub fn down(&self, node: &str, reason: &str) {
        self.ask("scontrol", &["update", &format!("NodeName={node}"), "State=DOWN", &format!("Reason={reason}")]);
    }

    /// Returns when it takes jobs again.
    pub fn resume(&self, node: &str) {
        // A new controller that has not heard of the node yet refuses, and does it all the same.
        let _ = self.command("scontrol").args(["update", &format!("NodeName={node}"), "State=RESUME"]).output();
        self.wait_until(&format!("{node} takes jobs"), START_LIMIT, |slurm| {
            ["idle", "mixed", "allocated"].contains(&slurm.node_state(node).as_str())
        });
    }

    /// As sinfo says it: `idle`, `allocated`, `drained`, `down*`, … Empty where it says nothing.
    pub fn node_state(&self, node: &str) -> String {
        let states = self.command("sinfo").args(["-h", "-N", "-n", node, "-o", "%T"]).output().expect("sinfo runs");
        // One line per partition.
        String::from_utf8_lossy(&states.stdout).lines().next().unwrap_or_default().to_string()
    }

    /// Panics with the logs of all daemons when it is not so in time.
    #[track_caller]
    pub fn wait_until(&self, what: &str, limit: Duration, is: impl Fn(&Slurm) -> bool) {
        let start = Instant::now();
        while !is(self) {
            assert!(start.elapsed() < limit, "not within {limit:?}: {what}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a daemon says: `munged`, `slurmctld` or the name of a node.
    pub fn log(&self, daemon: &str) -> String {
        let read = |name: &str| fs::read_to_string(self.path("log").join(name)).unwrap_or_default();
        let log = read(daemon);
        if log.is_empty() { read(&format!("{daemon}.stderr")) } else { log }
    }

    /// A `PATH` whose programs of Slurm are counted and can be broken.
    pub fn path_with_counting(&self) -> OsString {
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.path("bin")).chain(std::env::split_paths(&rest));
        std::env::join_paths(folders).expect("no colons")
    }

    /// All calls of programs of that path, in their order.
    pub fn calls(&self) -> Vec<Call> {
        let text = fs::read(self.path("calls")).unwrap_or_default();
        let call = |line: &str| {
            let mut words = line.split('\x1f').map(|word| word.replace('\x1e', "\n"));
            let (program, at_ms) = (words.next(), words.next().and_then(|at| at.parse().ok()));
            Call { program: program.expect("a name"), at_ms: at_ms.expect("a time"), args: words.collect() }
        };
        String::from_utf8_lossy(&text).lines().map(call).collect()
    }

    /// The next calls of a program of that path go wrong; of several faults, the one asked for first comes first.
    pub fn break_next(&self, program: &str, how: Fault, times: u32) {
        let text = match how {
            Fault::TimesOutButWorks => "works\n",
            Fault::TimesOut => "fails\n",
            Fault::CutOutput => "cut\n",
            Fault::Slow(seconds) => &format!("slow {seconds}\n"),
            Fault::Garbage => "garbage\n",
        };
        assert!(COUNTED.contains(&program), "there is no stand-in for {program}");
        for _ in 0..times {
            let number = self.faults.fetch_add(1, Ordering::Relaxed);
            // Made aside: a stand-in takes it as soon as it has its name.
            let (aside, fault) = (self.path("taken/new"), self.path("faults").join(format!("{program}.{number:06}")));
            fs::write(&aside, text).and_then(|()| fs::rename(&aside, fault)).expect("the test's own folder");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn node_names(&self) -> impl Iterator<Item = String> + use<> {
        (1..=self.cluster.nodes).map(|number| format!("n{number}"))
    }

    fn write_configuration(&self) {
        let name = self.dir.path().file_name().expect("a name").to_string_lossy();
        let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        let host = host.trim().split('.').next().unwrap_or_default();
        let user = fs::metadata(self.dir.path()).expect("it was made").uid().to_string();
        let (name, port, dir) = (name.to_lowercase(), self.port.to_string(), self.dir.path().to_string_lossy());
        let words = [("NAME", &*name), ("USER", &user), ("HOST", host), ("PORT", &port), ("DIR", &dir)];
        let fill = |line: &str| words.iter().fold(line.to_string(), |line, (word, value)| line.replace(word, value));
        let Cluster { nodes, gpus, cpus, extra } = &self.cluster;
        let is_default = |line: &&str| !extra.iter().any(|extra| sets(extra) == sets(line));
        let defaults = SETTINGS.split_ascii_whitespace().chain(PARTITIONS).filter(is_default);
        let mut lines: Vec<String> = defaults.map(fill).chain(extra.iter().cloned()).collect();
        let mut gres = vec!["AutoDetect=off".to_string()];
        for number in 1..=*nodes {
            let port = self.port + number;
            lines.push(format!(
                "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} Boards=1 \
                 SocketsPerBoard=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=16000 Gres=gpu:fake:{gpus}"
            ));
            if *gpus > 0 {
                gres.push(format!("NodeName=n{number} Name=gpu Type=fake File={}", self.make_gpus(number)));
            }
        }
        fs::write(&self.conf, lines.join("\n") + "\n").expect("a configuration");
        fs::write(self.path("gres.conf"), gres.join("\n") + "\n").expect("a configuration");
    }

    /// Slurm takes nothing but device files for GPUs. Their pattern.
    fn make_gpus(&self, node: u16) -> String {
        let (folder, last) = (self.path(&format!("gpu/n{node}")), self.cluster.gpus - 1);
        fs::create_dir_all(&folder).expect("a folder of the node");
        let make = |gpu: u16| {
            let mut mknod = Command::new("mknod");
            mknod.args(["-m", "666"]).arg(folder.join(format!("nvidia{gpu}"))).args(["c", "195", &gpu.to_string()]);
            mknod.output().is_ok_and(|done| done.status.success())
        };
        if (0..=last).all(make) {
            return format!("{}/nvidia[0-{last}]", folder.display());
        }
        // Only root makes some; others borrow what is there. Nobody opens them.
        format!("/dev/tty[11-{}]", 11 + last)
    }

    fn write_stand_ins(&self) {
        for name in COUNTED {
            let real = installed(name).expect("it was looked for");
            let words = match name {
                "sbatch" => "sbatch: error: Batch job submission failed:",
                "squeue" => "slurm_load_jobs error:",
                _ => &format!("{name}: error:"),
            };
            let text = STAND_IN.replace("NAME", name).replace("WORDS", words).replace("REAL", &real.to_string_lossy());
            let text = text.replace("DIR", &self.dir.path().to_string_lossy());
            let path = self.path("bin").join(name);
            fs::write(&path, text).expect("a script");
            permit(&path, 0o755);
        }
    }

    fn start_munged(&self) {
        let mut secret = [0; 128];
        let chance = File::open("/dev/urandom").and_then(|mut chance| chance.read_exact(&mut secret));
        let key = File::options().write(true).create_new(true).mode(0o600).open(self.path("run/munge.key"));
        chance.and(key).and_then(|mut key| key.write_all(&secret)).expect("a key");
        let mut args = vec!["--foreground".to_string(), "--num-threads=4".to_string()];
        for name in ["key", "pid", "seed"] {
            args.push(format!("--{name}-file={}", self.path("run/munge").with_extension(name).display()));
        }
        args.push(format!("--socket={}", self.path("run/munge.sock").display()));
        self.launch("munged", "munged", &args.iter().map(String::as_str).collect::<Vec<_>>());
        self.comes_up("munged listens", |slurm| slurm.path("run/munge.sock").exists());
    }

    fn launch(&self, name: &str, program: &str, args: &[&str]) {
        // What it says before it has a log, or in its stead.
        let said = File::options().create(true).append(true).open(self.path("log").join(format!("{name}.stderr")));
        let mut command = self.command(program);
        command.args(args).stdout(Stdio::null()).stderr(said.expect("the test's own folder"));
        let child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(self.lock().insert(name.to_string(), child).is_none(), "{name} runs already");
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Child>> {
        // A test that failed drops the cluster all the same.
        self.daemons.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Like [`Slurm::wait_until`]; panics at once when a daemon ends.
    fn comes_up(&self, what: &str, is: impl Fn(&Slurm) -> bool) {
        self.wait_until(what, START_LIMIT, |slurm| {
            let ended = |child: &mut Child| child.try_wait().expect("a child of ours");
            let dead = slurm.lock().iter_mut().find_map(|(name, child)| Some((name.clone(), ended(child)?)));
            assert!(dead.is_none(), "{dead:?}\n{}", slurm.logs());
            is(slurm)
        });
    }

    fn logs(&self) -> String {
        let names = ["munged".to_string(), "slurmctld".to_string()].into_iter().chain(self.node_names());
        names.map(|name| format!("-- {name}\n{}\n", self.log(&name))).collect()
    }

    /// Returns when it is gone.
    fn end(&self, name: &str, signal: i32) {
        let Some(mut child) = self.lock().remove(name) else { return };
        // Not reaped yet: the number is still its own.
        kill(child.id(), signal);
        let start = Instant::now();
        let runs = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_none());
        while signal != libc::SIGKILL && start.elapsed() < Duration::from_secs(10) && runs(&mut child) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill().and_then(|()| child.wait());
    }

    /// Ends the jobs of a node, or of all, at once.
    fn end_jobs(&self, node: Option<&str>) {
        // All stop before any is ended: nobody sees another go. Twice: what was forked meanwhile too.
        let mut all = BTreeSet::new();
        for signal in [libc::SIGSTOP, libc::SIGSTOP, libc::SIGKILL] {
            all.extend(self.processes_of_jobs(node));
            all.iter().for_each(|pid| kill(*pid, signal));
        }
        let start = Instant::now();
        while all.iter().any(|pid| proc::alive(*pid)) && start.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The stepds, what descends from them, and what went its own way and still has a job's environment.
    fn processes_of_jobs(&self, node: Option<&str>) -> BTreeSet<u32> {
        let conf = format!("SLURM_CONF={}", self.conf.display());
        let log = node.map_or(self.path("log"), |node| self.path("log").join(node));
        let is_job = |pid: &u32| {
            // Its title lies over its environment.
            if proc::name(*pid) == "slurmstepd" {
                return proc::has_open(*pid, &log);
            }
            let environment = proc::environment(*pid);
            let mut nodes = environment.iter().filter_map(|one| one.strip_prefix("SLURMD_NODENAME="));
            environment.contains(&conf) && nodes.any(|it| node.is_none_or(|node| node == it))
        };
        let all = proc::all();
        let jobs: BTreeSet<u32> = all.iter().copied().filter(is_job).collect();
        let forebears = |pid: u32| std::iter::successors(Some(pid), |pid| proc::parent(*pid));
        all.into_iter().filter(|pid| forebears(*pid).any(|pid| jobs.contains(&pid))).collect()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let names: Vec<String> = self.lock().keys().cloned().collect();
        names.iter().for_each(|name| self.end(name, libc::SIGKILL));
        self.end_jobs(None);
        if std::env::var_os("NEXUS_TEST_KEEP").is_some() {
            self.dir.disable_cleanup(true);
            eprintln!("kept: {}", self.dir.path().display());
        }
    }
}

/// Other tests have others.
fn claim_ports(nodes: u16) -> (TcpListener, u16) {
    assert!(nodes + 2 <= BLOCK, "at most {} nodes", BLOCK - 2);
    let blocks = u32::from(PORTS.end - PORTS.start) / u32::from(BLOCK);
    let begin = std::process::id();
    for number in begin..begin + blocks {
        let first = PORTS.start + (number % blocks) as u16 * BLOCK;
        let Ok(claim) = TcpListener::bind(("127.0.0.1", first)) else { continue };
        if (first + 1..=first + 1 + nodes).all(|port| TcpListener::bind(("0.0.0.0", port)).is_ok()) {
            return (claim, first + 1);
        }
    }
    panic!("no ports are free");
}

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is the test's own");
}

fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons lie where the path of an ordinary user does not lead.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// What a line of `slurm.conf` is about: partitions have a line each.
fn sets(line: &str) -> String {
    let line = line.to_ascii_lowercase();
    let end = if line.starts_with("partitionname=") { ' ' } else { '=' };
    line.split(end).next().unwrap_or_default().to_string()
}

/// Quick where Slurm lets us choose. Words in capitals are filled in.
const SETTINGS: &str = "ClusterName=NAME SlurmctldHost=HOST(127.0.0.1) SlurmctldPort=PORT SlurmUser=USER
    SlurmdUser=USER AuthInfo=socket=DIR/run/munge.sock,cred_expire=5 StateSaveLocation=DIR/state
    SlurmdSpoolDir=DIR/spool/%n SlurmctldPidFile=DIR/run/slurmctld.pid SlurmdPidFile=DIR/run/%n.pid
    SlurmctldLogFile=DIR/log/slurmctld SlurmdLogFile=DIR/log/%n
    SelectType=select/cons_tres SelectTypeParameters=CR_Core_Memory GresTypes=gpu DefMemPerCPU=64
    ProctrackType=proctrack/linuxproc SlurmdParameters=config_overrides ReturnToService=2
    SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
    KillWait=2 SlurmdTimeout=3 MessageTimeout=5";

const PARTITIONS: [&str; 2] = [
    "PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10",
    "PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1",
];

/// Stands in for a program. One line per call, and whoever renames a fault has it: calls may come all at once.
const STAND_IN: &str = r#"#!/bin/sh
line=NAME$(printf '\037%s' "$(date +%s%3N)" "$@")
case $line in *'
'*) line=$(printf %s "$line" | tr '\n' '\036') ;; esac
printf '%s\n' "$line" >> DIR/calls
how=none
for fault in DIR/faults/NAME.*; do
    [ -e "$fault" ] || continue
    mv "$fault" DIR/taken/$$ 2> /dev/null || continue
    read -r how seconds < DIR/taken/$$; break
done
case $how in
works | fails)
    [ $how = fails ] || REAL "$@" > /dev/null 2>&1
    echo 'WORDS Socket timed out on send/recv operation' >&2; exit 1 ;;
cut)
    answer=$(REAL "$@"); code=$?
    printf '%s\n' "$answer" | awk '{ line[NR] = $0 } END { half = int(NR / 2); cut = line[half + 1]
        for (at = 1; at <= half; at++) print line[at]
        printf "%s", substr(cut, 1, int(length(cut) / 2)) }'; exit $code ;;
slow) sleep "$seconds" ;;
garbage) printf '\377\376\033[1m<html>502 Bad Gateway</html>\n|||\n'; exit 0 ;;
esac
exec REAL "$@"
"#;
