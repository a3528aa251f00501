//! What went wrong, as facts. [`Problem::title`], [`why`](Problem::why) and [`hint`](Problem::hint) put them
//! into words, once, for every client.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::command::BadCommand;
use crate::jobs::State;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "problem", rename_all = "snake_case")]
#[schema(as = ProblemFacts)]
pub enum Problem {
    NoSuchJob {
        id: String,
    },
    /// Nothing matches a selector.
    NothingMatches {
        selector: String,
    },
    BadSelector {
        selector: String,
        error: String,
    },
    /// A machine that is not in the pool; the one most like it that is.
    NoSuchMachine {
        name: String,
        near: Option<String>,
    },
    /// A machine of this name is in the pool already.
    MachineExists {
        name: String,
        address: Option<String>,
    },
    /// Jobs hold something of it.
    MachineBusy {
        name: String,
        jobs: Vec<String>,
    },
    /// The service's own host is always there.
    OwnMachine,
    /// Its line is lost, and what was asked for is there.
    Unreachable {
        machine: String,
        why: String,
    },
    /// GPUs that a machine does not have, and those that it has.
    NoSuchGpus {
        machine: String,
        missing: Vec<u16>,
        exist: Vec<u16>,
    },
    /// The verb does not fit the job's state.
    WrongState {
        id: String,
        verb: String,
        state: State,
        gpus: Vec<u16>,
    },
    /// It was to be the only one of its kind, and this job is identical.
    NotUnique {
        id: String,
        state: State,
    },
    /// A watch of this file was to be ended, and there is none.
    NotWatched {
        file: String,
        /// Files that are.
        watched: Vec<String>,
    },
    /// What lies there cannot be watched.
    CannotWatch {
        file: String,
        error: String,
    },
    /// It was to go on from checkpoints that another job, which has not ended, keeps its own in.
    CheckpointsInUse {
        id: String,
        by: String,
        state: State,
    },
    /// Something is to be told, and the configuration names nobody who would hear it.
    NobodyToTell,
    /// The key of a submission was that of another one.
    KeyReused {
        key: String,
    },
    /// A variable that is not set; the one most like it that is.
    NoSuchVariable {
        name: String,
        near: Option<String>,
    },
    /// A job is to be repeated, and a variable that it needs is not set any more.
    VariableGone {
        id: String,
        name: String,
    },
    /// The copy of a folder (`add --sync`) that a job would run in is not here. `id` is the job that is to be repeated, if
    /// one is; `of` the folder that was copied.
    CodeGone {
        id: Option<String>,
        of: String,
        missing: String,
    },
    BadCommand {
        bad: BadCommand,
    },
    NoSuchFolder {
        path: String,
        error: String,
    },
    /// A field of a request that cannot be met, `want` being what would be right.
    BadField {
        field: String,
        value: String,
        want: String,
    },
    /// No room left for what has to be written.
    DiskFull {
        path: String,
        free_bytes: u64,
    },
    /// The database could not be written or read.
    Database {
        path: String,
        error: String,
    },
    /// The database file is damaged. The service takes no jobs and starts none until another database is in its place.
    DatabaseDamaged {
        path: String,
        error: String,
        /// The newest copy made by `nexus backup`, if there is one.
        #[serde(default)]
        backup: Option<String>,
    },
    /// The database file is missing or empty, and folders of jobs show that there was one.
    DatabaseMissing {
        path: String,
        /// The folder with the logs of those jobs.
        logs: String,
        jobs: u64,
        /// The newest copy made by `nexus backup`, if there is one.
        #[serde(default)]
        backup: Option<String>,
    },
    /// There is no copy of the database to go back to.
    NoBackup {
        folder: String,
    },
    /// It can only be done while no service runs.
    ServiceRuns {
        home: String,
    },
    NewerDatabase {
        path: String,
        format: u32,
        known: u32,
    },
    OtherHost {
        path: String,
        host: String,
        here: String,
    },
    HomeUnusable {
        path: String,
        error: String,
    },
    BadConfig {
        path: String,
        line: Option<u64>,
        error: String,
    },
    /// The file that says what models need.
    BadModels {
        path: String,
        line: Option<u64>,
        error: String,
    },
    NotStarted {
        error: String,
    },
    /// The request itself cannot be read.
    BadRequest {
        error: String,
    },
    /// Logs of a job that never ran, or of an attempt that does not exist.
    NoLog {
        id: String,
        attempt: Option<u32>,
    },
    /// A run left its logs there, and they are gone, or it was elsewhere.
    LogsGone {
        id: String,
        path: String,
    },
    /// Something else than a file has the name of a log: the job put it there.
    LogUnreadable {
        id: String,
        /// As in `stdout.log is a named pipe, not a file`.
        error: String,
    },
    Stopping,
    /// The terminal of a job that runs cannot be reached.
    NoTerminal {
        id: String,
        error: String,
    },
    /// The time limit of a job that runs stays as it is.
    TimeLimitKept {
        id: String,
        error: String,
    },
    /// Nobody is to come in over TCP whom nexus does not know.
    NotIn,
    /// A request that a browser was made to send, perhaps.
    Forbidden {
        error: String,
    },
    /// It does not answer, for now.
    Busy {
        error: String,
    },
    /// More than is taken over TCP.
    TooMuch {
        most_bytes: u64,
    },
    /// The page cannot be had at this address.
    NoWeb {
        address: String,
        error: String,
    },
    /// GNU screen cannot be used.
    NoScreen {
        error: String,
    },
    /// A bug.
    Internal {
        error: String,
    },
}

impl Problem {
    /// What failed, in half a sentence.
    pub fn title(&self) -> String {
        match self {
            Problem::NoSuchJob { id } => format!("there is no job {id}"),
            Problem::NothingMatches { selector } => match selector.as_str() {
                "last" => "there is no job yet".into(),
                gpu if gpu.bytes().all(|byte| byte.is_ascii_digit()) => format!("no job is on GPU {gpu}"),
                selector => format!("nothing matches {selector}"),
            },
            Problem::BadSelector { selector, .. } => format!("{selector} selects nothing"),
            Problem::NoSuchMachine { name, .. } => format!("there is no machine {name}"),
            Problem::MachineExists { name, .. } => format!("there is a machine {name} already"),
            Problem::MachineBusy { name, .. } => format!("{name} cannot be removed"),
            Problem::OwnMachine => "local cannot be removed".into(),
            Problem::Unreachable { machine, .. } => format!("{machine} cannot be reached"),
            Problem::NoSuchGpus { machine, missing, .. } => {
                let place = if machine == "local" { String::new() } else { format!(" on {machine}") };
                format!("there is no GPU {}{place}", list(missing))
            }
            Problem::WrongState { id, verb, .. } => does_not_fit(verb, id),
            Problem::NotUnique { .. } => "an identical job is there already".into(),
            Problem::NobodyToTell => "there is nobody to be told".into(),
            Problem::KeyReused { key } => format!("the key {key} was that of another submission"),
            Problem::NotWatched { file, .. } => format!("{file} is not watched"),
            Problem::CannotWatch { file, .. } => format!("{file} cannot be watched"),
            Problem::CheckpointsInUse { id, .. } => format!("job {id} cannot be gone on from"),
            Problem::NoSuchVariable { name, .. } => format!("there is no variable {name}"),
            Problem::VariableGone { id, .. } => format!("job {id} cannot be repeated"),
            Problem::CodeGone { id: Some(id), .. } => format!("job {id} cannot be repeated"),
            Problem::CodeGone { id: None, .. } => "the job cannot run with that code".into(),
            Problem::BadCommand { .. } => "this command cannot run".into(),
            Problem::NoSuchFolder { path, .. } => format!("the working folder {path} cannot be used"),
            Problem::BadField { field, value, .. } => format!("{field} cannot be {value}"),
            Problem::DiskFull { .. } => "the disk is full, and nothing was done".into(),
            Problem::Database { .. } => "the database could not be used".into(),
            Problem::DatabaseDamaged { .. } => "the database is damaged: nexus takes no jobs and starts none".into(),
            Problem::DatabaseMissing { .. } => {
                "the database is gone, and nexus does not begin a new one by itself".into()
            }
            Problem::NoBackup { .. } => "there is no backup".into(),
            Problem::ServiceRuns { home } => format!("a service runs in {home}"),
            Problem::NewerDatabase { .. } => "the database was made by a newer nexus".into(),
            Problem::OtherHost { .. } => "this home belongs to another machine".into(),
            Problem::HomeUnusable { path, .. } => format!("nexus cannot keep its files in {path}"),
            Problem::BadConfig { path, line: Some(line), .. } | Problem::BadModels { path, line: Some(line), .. } => {
                format!("{path}, line {line} is wrong")
            }
            Problem::BadConfig { path, line: None, .. } | Problem::BadModels { path, line: None, .. } => {
                format!("{path} is wrong")
            }
            Problem::NotStarted { .. } => "the service did not start".into(),
            Problem::BadRequest { .. } => "the request cannot be read".into(),
            Problem::NoLog { id, attempt: None } => format!("job {id} has no log"),
            Problem::NoLog { id, attempt: Some(k) } => format!("job {id} has no attempt {k}"),
            Problem::LogsGone { id, .. } => format!("the logs of job {id} are not here"),
            Problem::LogUnreadable { id, .. } => format!("the log of job {id} cannot be read"),
            Problem::Stopping => "the service is stopping".into(),
            Problem::NoTerminal { id, .. } => format!("the terminal of job {id} cannot be reached"),
            Problem::TimeLimitKept { id, .. } => format!("the time limit of job {id} cannot be changed"),
            Problem::NotIn => "nexus does not know who asks".into(),
            Problem::Forbidden { .. } => "this request is not answered".into(),
            Problem::Busy { .. } => "the service is not well".into(),
            Problem::TooMuch { most_bytes } => format!("more than {} MiB are not taken here", most_bytes >> 20),
            Problem::NoWeb { address, .. } => format!("the web page cannot be at {address}"),
            Problem::NoScreen { .. } => "the service has no screen session".into(),
            Problem::Internal { .. } => "nexus failed; this is a bug".into(),
        }
    }

    /// The reason, if the title does not say it all.
    pub fn why(&self) -> Option<String> {
        Some(match self {
            Problem::BadSelector { error, .. }
            | Problem::NoSuchFolder { error, .. }
            | Problem::HomeUnusable { error, .. }
            | Problem::BadConfig { error, .. }
            | Problem::BadModels { error, .. }
            | Problem::NotStarted { error }
            | Problem::BadRequest { error }
            | Problem::NoTerminal { error, .. }
            | Problem::LogUnreadable { error, .. }
            | Problem::TimeLimitKept { error, .. }
            | Problem::NoScreen { error }
            | Problem::Forbidden { error }
            | Problem::Busy { error }
            | Problem::NoWeb { error, .. }
            | Problem::Internal { error } => error.clone(),
            Problem::Database { path, error } => format!("{path}: {error}"),
            Problem::DatabaseDamaged { .. }
            | Problem::DatabaseMissing { .. }
            | Problem::NoBackup { .. }
            | Problem::NewerDatabase { .. }
            | Problem::ServiceRuns { .. } => return self.why_of_database(),
            Problem::MachineExists { address, .. } => match address {
                Some(address) => format!("its address is {address}"),
                None => "it is the service's own host".into(),
            },
            Problem::MachineBusy { jobs, .. } => match jobs.as_slice() {
                [one] => format!("job {one} is on it"),
                several => format!("{} jobs are on it", several.len()),
            },
            Problem::OwnMachine => "it is the service's own host".into(),
            Problem::Unreachable { why, .. } => why.clone(),
            Problem::NoSuchGpus { exist, .. } => match exist.as_slice() {
                [] => "there are no GPUs at all".into(),
                [one] => format!("there is only GPU {one}"),
                several => format!("there are GPUs {}", list(several)),
            },
            Problem::WrongState { state, gpus, .. } => what_it_does(*state, gpus),
            Problem::NotUnique { id, state } => format!("job {id} of the same command and folder {}", does(*state)),
            Problem::NotWatched { watched, .. } if watched.is_empty() => "no file is".into(),
            Problem::NotWatched { watched, .. } => format!("these are: {}", watched.join(", ")),
            Problem::CannotWatch { error, .. } => error.clone(),
            Problem::CheckpointsInUse { by, state, .. } => {
                format!("job {by} is {} and has the same folder of checkpoints", state.word())
            }
            Problem::VariableGone { name, .. } => format!("it needs the variable {name}, which is not set any more"),
            Problem::CodeGone { of, missing, .. } => no_copy_of_code(of, missing),
            Problem::BadCommand { bad } => what_is_bad(bad),
            Problem::NobodyToTell => "[notify] of the configuration names no webhook and no command".into(),
            Problem::BadField { want, .. } => want.clone(),
            Problem::DiskFull { path, free_bytes } => {
                format!("{path} has {} KiB free; no new jobs are taken, running ones go on", free_bytes / 1024)
            }
            Problem::OtherHost { path, host, here } => format!("{path} was made on {host}; this is {here}"),
            Problem::NoLog { attempt: None, .. } => "it has not started yet".into(),
            Problem::LogsGone { path, .. } => no_logs(path),
            Problem::NoSuchJob { .. }
            | Problem::NothingMatches { .. }
            | Problem::NoSuchMachine { .. }
            | Problem::NoSuchVariable { .. }
            | Problem::NoLog { .. }
            | Problem::NotIn
            | Problem::KeyReused { .. }
            | Problem::TooMuch { .. }
            | Problem::Stopping => return None,
        })
    }

    /// What to type next.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Problem::NoSuchJob { .. } | Problem::NothingMatches { .. } => "nexus ls, nexus history".into(),
            Problem::NoSuchMachine { near: Some(near), .. } => format!("did you mean {near}? nexus machine ls"),
            Problem::NoSuchMachine { near: None, .. } => "nexus machine ls, nexus machine add [user@]host".into(),
            Problem::MachineExists { .. } => "--name gives it another name".into(),
            Problem::MachineBusy { name, .. } => {
                format!("nexus machine rm {name} --drain waits for them, --kill ends them")
            }
            Problem::OwnMachine => "nexus machine pause local keeps jobs off it".into(),
            Problem::Unreachable { machine, .. } => format!("nexus machine show {machine}"),
            Problem::NoSuchGpus { .. } => "nexus gpus".into(),
            Problem::WrongState { id, verb, state, .. } => return fitting_verb(verb, id, *state),
            Problem::NotUnique { id, .. } => {
                format!("nexus show {id}; without --unique it is queued all the same")
            }
            Problem::KeyReused { .. } => {
                "a new key for each submission; the old one only to send the same again".into()
            }
            Problem::NotWatched { .. } => "nexus import --list".into(),
            Problem::NobodyToTell => {
                "nexus config set notify.webhooks slack:https://hooks.slack.com/…, or nexus help notify for other ways"
                    .into()
            }
            Problem::CheckpointsInUse { by, state: State::Held | State::Queued, .. } => {
                format!("nexus wait {by}, or nexus remove {by}; then try again")
            }
            Problem::CheckpointsInUse { by, .. } => format!("nexus wait {by}, or nexus kill {by}; then try again"),
            Problem::NoSuchVariable { near: Some(near), .. } => format!("nexus var unset {near}, or nexus var ls"),
            Problem::NoSuchVariable { near: None, .. } => "nexus var ls".into(),
            Problem::VariableGone { name, .. } => format!("nexus var set {name}, then try again"),
            Problem::CodeGone { .. } => {
                "nexus add --sync takes the folder as it is now; a job of another home needs that home's copy here"
                    .into()
            }
            Problem::BadCommand { bad: BadCommand::Empty } => "nexus add \"python train.py\"".into(),
            Problem::BadCommand { .. } => "put it into a script and queue that: nexus add bash script.sh".into(),
            Problem::NoSuchFolder { .. } => "--cwd DIR names another".into(),
            Problem::DiskFull { .. } => "make room, then try again".into(),
            Problem::NewerDatabase { .. } => "use the newer nexus, or another NEXUS_HOME".into(),
            Problem::OtherHost { .. } => {
                "set NEXUS_HOME to a folder of this machine; if the machine was only renamed: nexus start --adopt-home"
                    .into()
            }
            Problem::HomeUnusable { .. } => "NEXUS_HOME=/some/folder nexus … uses another place".into(),
            Problem::BadConfig { path, .. } => format!("correct {path}, or move it away for a fresh one"),
            Problem::BadModels { path, .. } => {
                format!("correct {path}, or name another: nexus config set models.file FILE")
            }
            Problem::NotStarted { .. } => "nexus doctor".into(),
            Problem::NoLog { id, .. } => format!("nexus show {id}"),
            Problem::LogsGone { id, .. } => format!("nexus show {id} tells how it ended"),
            Problem::LogUnreadable { id, .. } => format!("nexus show {id} tells where its logs are"),
            Problem::NoTerminal { id, .. } => format!("nexus logs -f {id}"),
            Problem::TimeLimitKept { id, .. } => format!("nexus show {id} tells the limit that holds"),
            Problem::NotIn => "nexus web prints a link for a browser; programs send the token of web.token".into(),
            Problem::Forbidden { .. } => "nexus web prints an address that works".into(),
            Problem::TooMuch { .. } => "nexus import FILE takes more".into(),
            Problem::NoWeb { .. } => "nexus web --port N takes another port".into(),
            Problem::NoScreen { .. } => "nexus attach service shows the same without screen".into(),
            Problem::Database { .. } => "nexus doctor".into(),
            Problem::DatabaseDamaged { .. }
            | Problem::DatabaseMissing { .. }
            | Problem::NoBackup { .. }
            | Problem::ServiceRuns { .. } => return self.hint_of_database(),
            Problem::BadSelector { .. } => "nexus help selectors".into(),
            _ => return None,
        })
    }
}

/// Words for a database that is damaged, gone or newer.
impl Problem {
    fn why_of_database(&self) -> Option<String> {
        Some(match self {
            Problem::DatabaseDamaged { path, error, .. } => {
                format!("{path}: {error}; running jobs go on, and their folders keep how they end")
            }
            Problem::DatabaseMissing { path, logs, jobs, .. } => {
                let jobs = if *jobs == 1 { "1 job".to_string() } else { format!("{jobs} jobs") };
                format!("{path} is missing or empty, and {logs} has the logs of {jobs}")
            }
            Problem::NoBackup { folder } => format!("nexus backup makes them in {folder}, and none is there"),
            Problem::ServiceRuns { .. } => "this can be done only while none runs".into(),
            Problem::NewerDatabase { path, format, known } => {
                format!("{path} has format {format}, this nexus knows up to {known}")
            }
            _ => return None,
        })
    }

    fn hint_of_database(&self) -> Option<String> {
        Some(match self {
            Problem::DatabaseDamaged { backup, .. } => match backup {
                Some(backup) => format!("nexus stop; nexus backup restore   (puts back {backup})"),
                None => "nexus stop; nexus start --new-database   (there is no backup: begins empty, keeps the damaged file)".into(),
            },
            Problem::DatabaseMissing { backup, .. } => match backup {
                Some(backup) => format!(
                    "nexus backup restore   (puts back {backup}), or nexus start --new-database   (begins with an empty database)"
                ),
                None => "move the file back if you moved it, or nexus start --new-database   (begins with an empty database)".into(),
            },
            Problem::NoBackup { .. } => "nexus backup restore FILE, or nexus start --new-database".into(),
            Problem::ServiceRuns { .. } => "nexus stop --keep-jobs, then try again; running jobs go on".into(),
            _ => return None,
        })
    }
}

/// What to type for a job in this state instead of that verb.
fn fitting_verb(verb: &str, id: &str, state: State) -> Option<String> {
    Some(match (verb, state) {
        ("kill", State::Held | State::Queued) => format!("nexus remove {id}"),
        ("remove" | "hold" | "first", State::Starting | State::Running) => format!("nexus kill {id}"),
        ("release", State::Queued) => return None,
        ("results", _) => format!("nexus wait {id}, then try again"),
        ("attach", state) if state.has_ended() => format!("nexus logs {id}"),
        ("attach", _) => format!("nexus logs -f {id} shows its output from the start, nexus wait {id} waits"),
        ("forget", State::Held | State::Queued) => format!("nexus remove {id}"),
        ("forget", _) => format!("nexus kill {id}"),
        (verb, State::Starting | State::Running) if verb.starts_with("edit") => {
            format!("once it has started, nexus edit {id} takes --time, --priority and --tag alone")
        }
        (_, state) if state.has_ended() => format!("nexus rerun {id} runs it again"),
        _ => format!("nexus show {id}"),
    })
}

/// What cannot be done to a job.
fn does_not_fit(verb: &str, id: &str) -> String {
    match verb {
        "kill" => format!("job {id} cannot be killed"),
        "remove" => format!("job {id} cannot be removed"),
        "cancel" => format!("job {id} cannot be cancelled"),
        "hold" => format!("job {id} cannot be held"),
        "release" => format!("job {id} cannot be released"),
        "first" => format!("job {id} cannot be put first"),
        "move" => format!("job {id} cannot be moved"),
        "forget" => format!("job {id} cannot be forgotten"),
        "attach" => format!("job {id} cannot be attached to"),
        "edit" => format!("job {id} cannot be changed"),
        "results" => format!("results of job {id} cannot be copied"),
        option if option.starts_with("edit ") => {
            format!("{} of job {id} cannot be changed", option.trim_start_matches("edit "))
        }
        other => format!("{other} does not fit job {id}"),
    }
}

fn what_it_does(state: State, gpus: &[u16]) -> String {
    match (state, gpus) {
        (State::Running, [gpu]) => format!("it is running on GPU {gpu}"),
        (State::Queued | State::Held, _) => format!("it has not started: it is {}", state.word()),
        (state, _) if state.has_ended() => format!("it has ended: {}", state.word()),
        (state, _) => format!("it is {}", state.word()),
    }
}

fn no_copy_of_code(of: &str, missing: &str) -> String {
    format!("it runs in a copy of {of} that nexus add --sync made, and there is no {missing}")
}

fn no_logs(path: &str) -> String {
    format!("there is no {path}: they were deleted, or the job was taken over from another home without them")
}

fn what_is_bad(bad: &BadCommand) -> String {
    match bad {
        BadCommand::Empty => "it is empty".into(),
        BadCommand::Nul => "it contains a NUL byte, which no program can be given".into(),
        BadCommand::TooLong { bytes, most } => {
            format!("one argument has {bytes} bytes and the system allows {most}")
        }
    }
}

/// What a job in this state does, behind its name.
fn does(state: State) -> String {
    match state {
        State::Held | State::Queued => "waits".into(),
        State::Starting | State::Running | State::Copying => "runs".into(),
        ended => format!("has {}", ended.word()),
    }
}

/// A problem as it is told: the facts, and the words for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct Told {
    #[serde(flatten)]
    pub problem: Problem,
    pub title: String,
    pub why: Option<String>,
    pub hint: Option<String>,
}

impl Problem {
    pub fn told(self) -> Told {
        Told { title: self.title(), why: self.why(), hint: self.hint(), problem: self }
    }
}

fn list(indices: &[u16]) -> String {
    indices.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.title())?;
        match self.why() {
            Some(why) => write!(f, ": {why}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}
