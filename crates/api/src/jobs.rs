//! A job as clients see it, and as they ask for one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::amount::{GpuAmount, Vram};
use crate::command::Command;
use crate::env::Env;
pub use crate::note::{Few, Note};
use crate::results::{Copy as ResultsCopy, Extract};
pub use crate::waiting::{GpusMissing, SlurmJob, Waiting};

/// What is asked for: the body of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobSpec {
    pub command: Command,
    pub cwd: String,
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub env: Env,
    /// Names in `env` that were given for this job (`--env`, `--env-file`); the others are the submitter's, and the
    /// machine's `env_file` goes over those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_given: Vec<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub project: Option<String>,
    #[serde(default)]
    pub tags: Vec<String>,
    #[serde(default)]
    pub request: JobRequest,
    /// Lower runs first.
    #[serde(default)]
    pub priority: i32,
    #[serde(default)]
    pub retries: u32,
    /// Failures that retries cover beside those they always do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retry_on: Vec<RetryOn>,
    /// Jobs that must complete before it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Jobs that must end, in any way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after_any: Vec<String>,
    /// Refused while an identical job is queued, runs or has completed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unique: bool,
    #[serde(default)]
    pub hold: bool,
    /// Its end is told of, whatever the configuration tells of else; of a sweep, that of the whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
    #[serde(default)]
    pub tty: Option<bool>,
    /// Columns and rows of the submitter's terminal.
    #[serde(default)]
    pub window: Option<(u16, u16)>,
    #[serde(default)]
    pub out: Option<String>,
    /// A folder that gets one more copy of its output, in a file named by its start. Never beside `out`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_dir: Option<String>,
    /// The job this one repeats.
    #[serde(default)]
    pub rerun_of: Option<String>,
    /// The job whose checkpoints this one goes on from, and keeps its own with; none for a folder of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_of: Option<String>,
    /// The rule that said what it needs of GPUs; none where the job said so itself. The service's to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_rule: Option<String>,
    /// Where it can be seen while it runs; as the configuration says where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// Standard error on the very terminal of the rest: for a shell that somebody sits in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_terminal: bool,
    /// The conda environment it runs in: its name, or its folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conda: Option<String>,
    /// The virtual environment of Python it runs in: its folder, which may count from `cwd`. Never beside `conda`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venv: Option<String>,
    /// An option of the command, as in `--cuda`, that is told the numbers of its GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_arg: Option<String>,
    /// The folder that gets a copy of what it leaves behind, under its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<String>,
    /// Values that are taken from its output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extract: Vec<Extract>,
    /// The sweep it belongs to. The service's to say, as the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// Its values of the sweep's parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Variables whose values are put in when it starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
    /// On another machine too it has the submitter's whole environment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub export_env: bool,
    /// It runs in a copy of a folder as that was when the job was added, wherever it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

/// What a folder had in it at one time. The service keeps it and sends it to machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Code {
    /// Made from all that is in it, so that the same content is sent once.
    pub content: String,
    /// The folder, an absolute path. A `cwd` in it is the same place in the copy; any other is the copy's own folder.
    pub of: String,
}

impl Code {
    /// Letters of a content: SHA-256 in hex, shortened.
    pub const LETTERS: usize = 32;

    /// Names a folder below one of ours, and nothing else.
    pub fn is_content(text: &str) -> bool {
        text.len() == Code::LETTERS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }
}

impl JobSpec {
    /// The command and nothing said beyond it.
    pub fn new(command: Command, cwd: String) -> JobSpec {
        JobSpec {
            command,
            cwd,
            env: Env::new(),
            env_given: Default::default(),
            name: None,
            project: None,
            tags: vec![],
            request: JobRequest::default(),
            priority: 0,
            retries: 0,
            retry_on: vec![],
            after: vec![],
            after_any: vec![],
            unique: false,
            hold: false,
            notify: false,
            tty: None,
            window: None,
            out: None,
            out_dir: None,
            rerun_of: None,
            checkpoint_of: None,
            by_rule: None,
            session: None,
            one_terminal: false,
            conda: None,
            venv: None,
            gpu_arg: None,
            results: None,
            extract: vec![],
            sweep: None,
            params: BTreeMap::new(),
            variables: vec![],
            export_env: false,
            code: None,
        }
    }
}

/// A failure that is tried again only if one asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RetryOn {
    Timeout,
}

impl RetryOn {
    pub const ALL: &[RetryOn] = &[RetryOn::Timeout];

    pub fn word(self) -> &'static str {
        match self {
            RetryOn::Timeout => "timeout",
        }
    }
}

/// Where a job's terminal can be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Session {
    /// By `nexus attach`.
    #[default]
    Builtin,
    /// In a session of GNU screen as well.
    Screen,
}

/// What it needs and how long it may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct JobRequest {
    /// None = as a rule of the configuration has it, else 1. A job that was taken always says it.
    pub gpus: Option<GpuAmount>,
    /// Memory of each of its GPUs, which it shares with others.
    #[serde(rename = "vram_mib", skip_serializing_if = "Option::is_none")]
    pub vram: Option<Vram>,
    /// None = 1 for a CPU job, 0 for a GPU job.
    pub cpus: Option<u16>,
    /// Memory of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram_mib: Option<u64>,
    /// Allowed GPU indices.
    pub on: Option<Vec<u16>>,
    /// GPUs whose name contains this, in any case of letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_model: Option<String>,
    pub time_seconds: Option<u64>,
    pub signal: Option<SignalBefore>,
    pub grace_seconds: Option<u64>,
    /// May have paused GPUs too.
    pub force: bool,
    /// Machines of this class; `default` where neither this nor `machine` says where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// This machine alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// It runs on the service's host, for a machine that is held for it as a whole: `{MACHINE}` is its address.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub driver: bool,
}

impl JobRequest {
    /// How much of GPUs it asks for.
    pub fn amount(&self) -> GpuAmount {
        self.gpus.unwrap_or(GpuAmount::ONE)
    }

    /// Whether it runs on other machines than those where jobs run that name none: their folders are not ours.
    pub fn runs_elsewhere(&self) -> bool {
        let named = |name: &Option<String>, usual: &str| name.as_deref().is_some_and(|name| name != usual);
        !self.driver && (named(&self.machine, "local") || named(&self.class, "default"))
    }

    /// Whether others may be on its GPUs too.
    pub fn shares(&self) -> bool {
        self.amount().milli().is_some() || self.vram.is_some()
    }
}

/// `--signal USR1@120s`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignalBefore {
    pub signal: i32,
    pub before_seconds: u64,
}

/// Words of the state column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Held,
    Queued,
    Starting,
    Running,
    Copying,
    Completed,
    Failed,
    Killed,
}

impl State {
    pub const ALL: [State; 8] = [
        State::Held,
        State::Queued,
        State::Starting,
        State::Running,
        State::Copying,
        State::Completed,
        State::Failed,
        State::Killed,
    ];

    pub fn word(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Queued => "queued",
            State::Starting => "starting",
            State::Running => "running",
            State::Copying => "copying",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Killed => "killed",
        }
    }

    pub fn has_ended(self) -> bool {
        matches!(self, State::Completed | State::Failed | State::Killed)
    }

    /// States meant by a word of a filter, aliases of other tools included.
    pub fn from_filter(word: &str) -> Option<&'static [State]> {
        Some(match word.to_ascii_lowercase().as_str() {
            "held" => &[State::Held],
            "queued" => &[State::Queued],
            "pending" | "waiting" | "scheduled" => &[State::Held, State::Queued],
            "starting" => &[State::Starting],
            "running" => &[State::Running],
            "copying" => &[State::Copying],
            "completed" | "done" | "succeeded" => &[State::Completed],
            "failed" => &[State::Failed],
            "killed" | "canceled" | "cancelled" => &[State::Killed],
            _ => return None,
        })
    }
}

/// A job in every listing. Unknown is null, never absent; scripts rely on these names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    pub id: String,
    pub name: Option<String>,
    pub project: Option<String>,
    pub command: String,
    pub argv: Option<Vec<String>>,
    pub state: State,
    /// One word: how it failed or who ended it.
    pub reason: Option<String>,
    /// One sentence on the reason.
    pub detail: Option<String>,
    pub waiting: Option<Waiting>,
    /// What a cluster calls it, while it has it.
    #[serde(default)]
    pub slurm: Option<SlurmJob>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub request: JobRequest,
    pub machine: Option<String>,
    pub class: Option<String>,
    /// Indices held, or held by the last run.
    pub gpus: Vec<u16>,
    pub pid: Option<u32>,
    pub priority: i32,
    /// Number of the newest run; 0 before the first.
    pub attempt: u32,
    pub retries: u32,
    pub tags: Vec<String>,
    pub sweep: Option<String>,
    pub params: Option<serde_json::Value>,
    /// RFC 3339, as all times.
    pub submitted_at: String,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    pub runtime_seconds: Option<f64>,
    pub cwd: String,
    pub log_dir: String,
    pub stdout_path: String,
    pub stderr_path: String,
    /// The folder that its results were copied to, or are to be.
    pub results: Option<String>,
    /// A word of [`crate::results::ResultsState`].
    #[schema(value_type = crate::results::ResultsState)]
    pub results_state: String,
    /// Paths of the `RESULTS:` lines that it printed.
    #[serde(default)]
    pub results_named: Vec<String>,
    /// Values taken from its output; null where none was asked for.
    #[serde(default)]
    pub extracted: Option<BTreeMap<String, String>>,
    pub links: Vec<String>,
    /// Whether the GPUs it holds are simulated.
    pub simulated: bool,
    /// Place in the queue, from 1; null unless it waits there.
    pub position: Option<u64>,
    /// The job this one repeats.
    pub rerun_of: Option<String>,
    /// The job of the same sweep that repeats this one.
    #[serde(default)]
    pub replaced_by: Option<String>,
    /// When it is expected to start and to end; left out where nobody asked, or nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
}

/// When a job is expected to start and to end, if nobody else comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Expected {
    pub start: String,
    /// Null where nobody knows how long it takes.
    pub end: Option<String>,
    /// No later than that, by limits alone; else about then, by earlier runs.
    pub at_latest: bool,
}

/// `show`: the job, and each of its attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobDetail {
    #[serde(flatten)]
    pub job: Job,
    pub runs: Vec<Run>,
    /// As in the spec; so the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conda: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub venv: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_arg: Option<String>,
    /// The code that it runs in a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Names only, unless values were asked for.
    pub env_names: Vec<String>,
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    pub env: Option<Env>,
    /// The folder of its checkpoints, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_dir: Option<String>,
    /// The rule that said what it needs of GPUs.
    #[serde(default)]
    pub by_rule: Option<String>,
    /// As in its spec, as are the others.
    #[serde(default)]
    pub after: Vec<String>,
    #[serde(default)]
    pub after_any: Vec<String>,
    #[serde(default)]
    pub retry_on: Vec<RetryOn>,
    #[serde(default)]
    pub unique: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extract: Vec<Extract>,
    /// The folder for results of its own, where something is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_folder: Option<String>,
    /// Why the last copy of its results failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_error: Option<String>,
    /// How far the copy is, while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_copy: Option<ResultsCopy>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    pub attempt: u32,
    pub machine: String,
    pub gpus: Vec<u16>,
    pub pid: Option<u32>,
    pub planned_at: String,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    /// Null while it is on.
    pub outcome: Option<RunOutcome>,
    pub log_dir: String,
    /// The part of a GPU that it held; null where it had GPUs alone, or shared them by memory.
    #[serde(default)]
    pub part: Option<GpuAmount>,
    /// Memory of each GPU that it was given, where it shared them.
    #[serde(default)]
    pub vram_mib: Option<u64>,
    /// The most memory that it was seen to have on one GPU.
    #[serde(default)]
    pub peak_vram_mib: Option<u64>,
    /// The further copy of its output, where the job has a folder for such.
    #[serde(default)]
    pub out: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunOutcome {
    /// `completed`, or a reason word.
    pub word: String,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub error: Option<String>,
}

/// Answer to a submission, in the order of the specs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Submitted {
    pub jobs: Vec<Job>,
    /// What the submitter should know beside that; each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

/// What is done to jobs by id. The word is the last part of the path: `POST /v1/jobs/kill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// End running jobs.
    Kill,
    /// Take queued jobs out.
    Remove,
    /// Whichever of the two fits.
    Cancel,
    Hold,
    Release,
    First,
    /// Delete ended jobs and their logs.
    Forget,
}

impl Action {
    pub fn word(self) -> &'static str {
        match self {
            Action::Kill => "kill",
            Action::Remove => "remove",
            Action::Cancel => "cancel",
            Action::Hold => "hold",
            Action::Release => "release",
            Action::First => "first",
            Action::Forget => "forget",
        }
    }
}

/// Body of an action. All or nothing: one job in the wrong state and none is touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OnJobs {
    pub ids: Vec<String>,
    /// Leave out those that the action does not fit (any more): for jobs that were named as a group.
    #[serde(default)]
    pub skip_unfit: bool,
}

/// Body of `POST /v1/jobs/{id}/move`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Move {
    /// The job that it is to stand before; null = behind all others.
    pub before: Option<String>,
}

/// Body of `POST /v1/jobs/rerun`: the caller's values for names that look like secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rerun {
    pub ids: Vec<String>,
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub secrets: Env,
    /// With the checkpoints of the old jobs.
    #[serde(default)]
    pub resume: bool,
}

/// Query of `GET /v1/jobs`. Empty = everything alive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct JobQuery {
    /// Selectors, as typed, several joined by a NUL-free newline.
    pub select: Option<String>,
    /// State words, comma separated; `ended` and `alive` are allowed too.
    pub state: Option<String>,
    /// Only those that ended (or, alive, were submitted) at or after this time.
    pub since: Option<String>,
    /// The newest this many, returned oldest first.
    pub limit: Option<u64>,
    /// Only those of this project; so the next, of this tag, this sweep, this name.
    pub project: Option<String>,
    pub tag: Option<String>,
    pub sweep: Option<String>,
    pub name: Option<String>,
    /// Only those whose id, name, command, project or a tag of theirs contains this, in any case of letters.
    pub contains: Option<String>,
    /// A page of them, at most `limit`: those that wait in the order of the queue, ended ones the newest first. Empty =
    /// the first; the header `nexus-cursor` of the answer, where there is one, is that of the next.
    pub cursor: Option<String>,
    /// Say when they are expected to start and to end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expected: bool,
}
