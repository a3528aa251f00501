//! The run directory: the contract between service and shim, described in `docs/run-directory.md`.

use std::path::{Path, PathBuf};

use nexus_core::ids::RunId;
use nexus_core::run::{Memory, Outcome};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::environ::Environ;
use crate::results::{Extract, Found};
use crate::variables::Hidden;

/// Format of everything here. A shim of an older release must still be understood.
pub const FORMAT: u32 = 1;

pub const STARTED: &str = "started";
pub const EXIT: &str = "exit.json";
/// The record, until it is whole.
pub const EXIT_PART: &str = "exit.json.part";
pub const STDOUT: &str = "stdout.log";
pub const STDERR: &str = "stderr.log";
pub const ORDER: &str = "order.idx";
/// Why the environment of a run could not be activated; the script that tried writes it.
pub const START_ERROR: &str = "start_error";
/// The text of a shell command whose variables have values: the shell reads it here, so that they stand in no argv.
pub const SCRIPT: &str = "script";
/// What a run with variables printed last, [`Said`], with the variables' names in place of their values.
pub const LAST_LINES: &str = "last_lines";
/// Where folders of a job's own are put that it never used, for the next run of the same shim.
pub const SPARE_FOLDERS: [&str; 2] = [".checkpoints", ".results"];
/// Where the further copy of the output is, for a run that was given two names for it: a symbolic link.
pub const OUT: &str = "out";

/// What a run on a cluster is told, until its shim has read it: [`RunSpec`].
pub const SPEC: &str = "spec.json";
/// The job of Slurm that a run on a cluster was begun by: `12 3 15 0` for 12_3, which is 15 for srun and was restarted 0
/// times; `12 - 12 0` for 12.
pub const SLURM_JOB: &str = "slurm_job";
/// On a cluster: the run has been given up, and whoever still watches it ends it.
pub const FENCED: &str = "fenced";

/// Tells the processes of a run: each is started with the path of its run directory in this variable.
pub const RUN_DIR_VARIABLE: &str = "NEXUS_RUN_DIR";

/// Where the `number`th run of a job keeps its files.
pub fn of_run(log_dir: &Path, job: &str, number: u32) -> PathBuf {
    let job_dir = log_dir.join(format!("job_{job}"));
    match number {
        0 | 1 => job_dir,
        _ => job_dir.join(format!("attempt_{number}")),
    }
}

/// Where a job of a project is found by its name: a link in the folder of logs to its own, `by-project/P/NAME/ID`.
pub fn project_link(log_dir: &Path, project: &str, name: Option<&str>, job: &str) -> PathBuf {
    let folder = log_dir.join("by-project").join(as_file_name(project));
    folder.join(as_file_name(name.unwrap_or("unnamed"))).join(job)
}

/// A name that leads nowhere else, and is short enough for every file system.
fn as_file_name(name: &str) -> String {
    const LONGEST_BYTES: usize = 200;
    let unfit = |(place, letter): (usize, char)| match letter {
        '/' | '\0' => '_',
        '.' if place == 0 => '_',
        letter if letter.is_control() => '_',
        letter => letter,
    };
    let mut safe: String = name.char_indices().map(unfit).collect();
    safe.truncate((0..=LONGEST_BYTES.min(safe.len())).rev().find(|at| safe.is_char_boundary(*at)).unwrap_or(0));
    if safe.is_empty() { "_".into() } else { safe }
}

/// The folder of logs that a run directory of this job lies in.
pub fn log_dir_of<'a>(dir: &'a Path, job: &str) -> Option<&'a Path> {
    let own = format!("job_{job}");
    dir.ancestors().find(|folder| folder.file_name().is_some_and(|name| *name == *own))?.parent()
}

/// The run whose folder has this name; none for a folder of another name.
pub fn run_of(dir: &Path) -> Option<RunId> {
    let name = |path: &Path| path.file_name()?.to_str().map(String::from);
    let own = name(dir)?;
    let (job, number) = match own.strip_prefix("attempt_") {
        Some(number) => (name(dir.parent()?)?, number.parse().ok()?),
        None => (own, 1),
    };
    Some(RunId { job: job.strip_prefix("job_")?.parse().ok()?, number })
}

/// What a shim is told. Travels through the launcher's pipe and does not lie on disk, since it holds the job's whole
/// environment; on a cluster it lies in [`SPEC`] until the shim begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    pub format: u32,
    /// `abc.2`
    pub run: String,
    pub dir: PathBuf,
    /// Program and arguments; for a shell command the shell stands first.
    pub argv: Vec<String>,
    /// Whether `argv` is a shell with the user's text: then exit 126 and 127 mean it could not start.
    pub shell: bool,
    pub cwd: PathBuf,
    /// The whole environment, in order.
    pub env: Environ,
    /// Further variables, read when the run starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_file: Option<EnvFile>,
    #[serde(default, skip_serializing_if = "ResourceLimits::are_none")]
    pub limits: ResourceLimits,
    /// Two ptys, or pipes and an empty stdin.
    pub tty: bool,
    pub columns: u16,
    pub rows: u16,
    pub time_limit_ms: Option<u64>,
    pub warning: Option<Warning>,
    pub grace_ms: u64,
    /// Further copy of both streams, opened for append.
    pub out: Option<PathBuf>,
    /// With it `out` is a file of this run alone: made anew, in a folder that is made if need be. Where one of that name
    /// is there already, this is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_else: Option<PathBuf>,
    /// Socket on which the service takes [`ShimMessage`]s.
    pub reports: PathBuf,
    /// Folder of a cgroup (v2) in which the run may make one of its own.
    pub cgroup_base: Option<PathBuf>,
    /// UUIDs of the GPUs that the shim locks against other services for as long as the run has processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_locks: Vec<String>,
    /// Lock them together with other runs that share them, instead of alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gpu_locks_shared: bool,
    /// Show the run in a session of GNU screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<ScreenSpec>,
    /// With `tty`: one pty for all three streams.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_terminal: bool,
    /// Memory of the machine that the run may use; kept where its cgroup can do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_max_mib: Option<u64>,
    /// Where the job keeps what it wants to go on from; made by the shim, and removed if nothing is in it at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Where the job puts results; made and removed as the folder of checkpoints is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_dir: Option<PathBuf>,
    /// Values to take from what it prints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extract: Vec<Extract>,
    /// Where a link to the job's folder is made: of a job with a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_link: Option<PathBuf>,
    /// Content of [`SCRIPT`], which `argv` has a shell read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Values that stand in no record: their names do instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<Hidden>,
    /// `env` goes over the login environment of the machine: a node behind a line puts that under it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub login_env: bool,
    /// The content whose copy `cwd` is in: a node behind a line asks for it where it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the service calls the machine, for what is said of it; none on the service's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// What Slurm is asked for on its behalf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<SlurmRequest>,
}

/// What a run on a cluster needs of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SlurmRequest {
    pub gpus: u16,
    /// Only of this kind, as Slurm calls it.
    pub kind: Option<String>,
    /// 0 = what Slurm gives.
    pub cpus: u32,
    pub ram_mib: u32,
    /// What it stands back behind others of the same user.
    pub nice: u32,
}

/// The session of GNU screen that a run is to be shown in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenSpec {
    /// `nexus_job_abc`
    pub name: String,
    /// Where its socket goes if screen's own folder cannot be used; made when it is needed.
    pub dir: PathBuf,
}

/// A file of `NAME=value` lines whose values go over those of the run's environment, but for some.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvFile {
    pub path: PathBuf,
    /// Names that were given for the job itself: the file does not change them.
    pub except: Vec<String>,
}

/// What a process of the run may use; none = as the service has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceLimits {
    /// Open files; [`UNLIMITED`] = as many as the machine allows. So for the other.
    pub nofile: Option<u64>,
    /// Bytes of memory that may be locked.
    pub memlock: Option<u64>,
}

pub const UNLIMITED: u64 = u64::MAX;

impl ResourceLimits {
    pub fn are_none(&self) -> bool {
        *self == ResourceLimits::default()
    }
}

/// A signal sent a while before the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub signal: i32,
    pub before_ms: u64,
}

/// Content of `started`: who watches this run. Empty while the shim is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub format: u32,
    pub run: String,
    pub shim_pid: u32,
    /// Start time of the shim in clock ticks since boot, as in `/proc/PID/stat`: tells a reused pid.
    pub shim_start: u64,
    pub boot_id: String,
    /// The command's own process; also its session.
    pub pid: u32,
    pub started_at_ms: i64,
    /// The same in clock ticks since boot, as `shim_start`; 0 by a shim of before. A process with the command's pid that is much
    /// younger is another.
    #[serde(default)]
    pub started_ticks: u64,
    /// [`RunSpec::grace_ms`], which the shim keeps whatever the configuration says later; none by an older shim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
    pub cgroup: Option<PathBuf>,
    /// Where viewers of its terminal connect: the name of an abstract socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// The GNU screen session it can be seen in. Few runs have one: without the box each message of a shim has room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<Box<ScreenSession>>,
}

/// A session of GNU screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenSession {
    /// Its whole name, `1234.nexus_job_abc`: a part of it could mean another session.
    pub session: String,
    /// `SCREENDIR`, where one was in force.
    #[schema(value_type = Option<String>)]
    pub dir: Option<PathBuf>,
    /// Whether that folder is one of nexus's own, since screen's could not be used: then it has to be typed.
    #[serde(default)]
    pub own_dir: bool,
}

impl ScreenSession {
    /// The process of the session.
    pub fn pid(&self) -> Option<u32> {
        self.session.split('.').next()?.parse().ok()
    }

    /// Its name without the pid: `nexus_job_abc`.
    pub fn name(&self) -> &str {
        self.session.split_once('.').map_or(&self.session, |(_, name)| name)
    }

    /// What to type to see it.
    pub fn to_type(&self) -> String {
        let command = format!("screen -r {}", self.name());
        match self.dir.as_ref().filter(|_| self.own_dir) {
            Some(dir) => format!("SCREENDIR={} {command}", crate::command::quote(&dir.to_string_lossy())),
            None => command,
        }
    }
}

/// Content of `exit.json`: how the run ended. Written whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    pub format: u32,
    pub run: String,
    pub status: ExitStatus,
    pub cause: Cause,
    pub pid: Option<u32>,
    pub started_at_ms: Option<i64>,
    pub ended_at_ms: i64,
    /// Output that could not be written (a full disk).
    #[serde(default)]
    pub lost_output_bytes: u64,
    /// Which memory it failed for want of, as far as anything tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom: Option<Oom>,
    /// What it said of its results.
    #[serde(default, skip_serializing_if = "Found::is_nothing")]
    pub found: Found,
}

/// Which memory did not suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oom {
    /// By what it printed last.
    Gpu,
    /// By the kernel's word.
    Host,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ExitStatus {
    Exited {
        code: i32,
    },
    Signaled {
        signal: i32,
    },
    /// The command could not be executed: its own fault (no such program, no such cwd).
    StartError {
        error: String,
        code: Option<i32>,
    },
    /// The machine could not do it (fork, pty, disk).
    MachineError {
        error: String,
    },
    /// Another service holds the lock of this GPU: nothing of the run began.
    GpuLocked {
        uuid: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    /// On a cluster: it was ended while it waited there.
    NeverBegan,
}

/// Why the process ended when it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// By itself.
    Own,
    /// The shim had been asked to end it.
    Asked,
    Timeout,
    /// The GNU screen session it was in was closed.
    SessionClosed,
    /// A cluster took its place back, for another or for a while.
    Preempted,
    /// Somebody ended it by the means of a cluster.
    Cancelled,
}

impl ExitRecord {
    pub fn outcome(&self) -> Outcome {
        let (code, signal) = match &self.status {
            ExitStatus::StartError { error, code } => {
                return Outcome::StartError { error: error.clone(), code: *code };
            }
            ExitStatus::MachineError { error } => return Outcome::MachineError { error: error.clone() },
            ExitStatus::GpuLocked { uuid, user, pid } => {
                return Outcome::GpuLocked { uuid: uuid.clone(), user: user.clone(), pid: *pid };
            }
            ExitStatus::NeverBegan => (None, None),
            ExitStatus::Exited { code } => (Some(*code), None),
            ExitStatus::Signaled { signal } => (None, Some(*signal)),
        };
        if let (Cause::Own, Some(oom), false) = (self.cause, self.oom, code == Some(0)) {
            let of = match oom {
                Oom::Gpu => Memory::Gpu,
                Oom::Host => Memory::Host,
            };
            return Outcome::OutOfMemory { of, code, signal };
        }
        match (self.cause, code, signal) {
            (Cause::Asked, code, signal) => Outcome::Stopped { code, signal },
            (Cause::Timeout, code, signal) => Outcome::TimedOut { code, signal },
            (Cause::SessionClosed, code, signal) => Outcome::SessionClosed { code, signal },
            (Cause::Preempted, ..) => Outcome::Preempted,
            (Cause::Cancelled, code, signal) => Outcome::Cancelled { code, signal },
            (Cause::Own, Some(code), _) => Outcome::Exited { code },
            (Cause::Own, None, signal) => Outcome::Signaled { signal: signal.unwrap_or(0) },
        }
    }
}

/// "GPU GPU-0f1e2d3c… is held by alice's nexus (pid 4312)"
pub fn gpu_is_held(uuid: &str, user: Option<&str>, pid: Option<u32>) -> String {
    /// Characters of a UUID that tell GPUs of a machine apart.
    const SHORT_UUID: usize = 12;
    let short: String = uuid.chars().take(SHORT_UUID).collect();
    let more = if short.len() < uuid.len() { "…" } else { "" };
    let user = user.map_or("another".into(), |user| format!("{user}'s"));
    let pid = pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
    format!("GPU {short}{more} is held by {user} nexus{pid}")
}

/// What a run printed last, as short as a list can show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Of standard error, or else of standard output.
    pub line: Option<String>,
    /// Of both, in the order of their arrival.
    pub lines: Vec<String>,
}

/// What a shim tells the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub enum ShimMessage {
    Started(Started),
    Ended(ExitRecord),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_in_their_folder() {
        let link = |project: &str, name: Option<&str>| project_link(Path::new("/logs"), project, name, "abc");
        let path = |text: &str| PathBuf::from(format!("/logs/by-project/{text}/abc"));
        assert_eq!(link("p", Some("n.1")), path("p/n.1"));
        assert_eq!(link("p", None), path("p/unnamed"));
        assert_eq!(link("..", Some("../../x")), path("_./_._.._x"));
        assert_eq!(link("a/b", Some(".hidden")), path("a_b/_hidden"));
        assert_eq!(link(&"é".repeat(200), Some("")), path(&format!("{}/_", "é".repeat(100))));
    }

    #[test]
    fn the_folder_of_logs_is_known_from_every_run() {
        let of = |dir: &str| log_dir_of(Path::new(dir), "abc").map(|dir| dir.display().to_string());
        assert_eq!(of("/logs/job_abc").as_deref(), Some("/logs"));
        assert_eq!(of("/logs/job_abc/attempt_2").as_deref(), Some("/logs"));
        assert_eq!(of("/logs/job_abd"), None);
    }
}
