//! Frozen samples of every format: what was once written must be read for ever, and be written alike.
//!
//! A sample is never edited. A format that changes gets a new number and samples of its own.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;

use nexus_api::amount::GpuAmount;
use nexus_api::config::{ConfigView, Overrides};
use nexus_api::edit::{JobEdit, JobEdited, QueueEdit, QueueEdited, QueueText};
use nexus_api::events::Event;
use nexus_api::export::{self, Exported};
use nexus_api::history_import::TakenOver;
use nexus_api::import::{Import, ImportReport, ImportText, Watch, Watching};
use nexus_api::jobs::{Job, JobDetail, JobSpec, Move, Note, Submitted, Waiting};
use nexus_api::left::{CopyResults, Results};
use nexus_api::machines::{NewMachine, OnMachines};
use nexus_api::notify::{Notice, Tried};
use nexus_api::problem::Problem;
use nexus_api::report::{Group, Tag, TagJobs};
use nexus_api::run_dir::{self, ExitRecord, RunSpec, Said, ShimMessage, Started};
use nexus_api::screens::Screen;
use nexus_api::service::{GpuPast, Machine, Service, StartReport, Status};
use nexus_api::sweeps::SweepPlanned;
use nexus_api::variables::{SetVariable, Variable};
use nexus_api::web::{Browser, BrowserKeys, Proof, Web, WebOn};
use nexus_api::why::Why;
use nexus_core::run::{Memory, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Name of a file, and the reading of it into its type.
type Sample = (&'static str, fn(&str));

/// Each sample and the type that reads it.
const SAMPLES: &[Sample] = &[
    ("run_spec", reads_and_writes::<RunSpec>),
    ("run_spec_least", reads_and_writes::<RunSpec>),
    ("run_spec_limits", reads_and_writes::<RunSpec>),
    ("started", reads_and_writes::<Started>),
    ("started_least", reads_and_writes::<Started>),
    ("exit_exited", reads_and_writes::<ExitRecord>),
    ("exit_signaled", reads_and_writes::<ExitRecord>),
    ("exit_asked", reads_and_writes::<ExitRecord>),
    ("exit_timeout", reads_and_writes::<ExitRecord>),
    ("exit_start_error", reads_and_writes::<ExitRecord>),
    ("exit_machine_error", reads_and_writes::<ExitRecord>),
    ("shim_started", reads_and_writes::<ShimMessage>),
    ("shim_ended", reads_and_writes::<ShimMessage>),
    ("job_spec_minimal", reads::<JobSpec>),
    ("job_spec_defaults", reads_and_writes::<JobSpec>),
    ("job_spec_full", reads_and_writes::<JobSpec>),
    ("job_spec_env_given", reads_and_writes::<JobSpec>),
    ("config", reads_and_writes::<ConfigView>),
    ("jobs_waiting", reads_and_writes::<Vec<Job>>),
    ("job_starting", reads_and_writes::<Job>),
    ("job_running", reads_and_writes::<Job>),
    ("jobs_ended", reads_and_writes::<Vec<Job>>),
    ("job_detail", reads_and_writes::<JobDetail>),
    ("status", reads_and_writes::<Status>),
    ("service", reads_and_writes::<Service>),
    ("events", reads_and_writes::<Vec<Event>>),
    ("start_reports", reads_and_writes::<Vec<StartReport>>),
    ("problems", reads_and_writes::<Vec<Problem>>),
    ("why", reads_and_writes::<Why>),
    ("problems_terminal", reads_and_writes::<Vec<Problem>>),
    ("problems_checkpoints", reads_and_writes::<Vec<Problem>>),
    ("problems_time_limit", reads_and_writes::<Vec<Problem>>),
    ("screens", reads_and_writes::<Vec<Screen>>),
    ("service_screen", reads_and_writes::<Service>),
    ("job_spec_screen", reads_and_writes::<JobSpec>),
    ("started_screen", reads_and_writes::<Started>),
    ("run_spec_share", reads_and_writes::<RunSpec>),
    ("run_spec_checkpoints", reads_and_writes::<RunSpec>),
    ("run_spec_variables", reads_and_writes::<RunSpec>),
    ("job_spec_checkpoints", reads_and_writes::<JobSpec>),
    ("job_detail_checkpoints", reads_and_writes::<JobDetail>),
    ("run_spec_screen", reads_and_writes::<RunSpec>),
    ("exit_session_closed", reads_and_writes::<ExitRecord>),
    ("jobs_waiting_for_shares", reads_and_writes::<Vec<Job>>),
    ("job_spec_shares", reads_and_writes::<JobSpec>),
    ("job_detail_shares", reads_and_writes::<JobDetail>),
    ("exit_gpu_oom", reads_and_writes::<ExitRecord>),
    ("exit_host_oom", reads_and_writes::<ExitRecord>),
    ("exit_timeout_oom", reads_and_writes::<ExitRecord>),
    ("job_spec_by_rule", reads_and_writes::<JobSpec>),
    ("job_detail_by_rule", reads_and_writes::<JobDetail>),
    ("submitted", reads_and_writes::<Submitted>),
    ("config_models", reads_and_writes::<ConfigView>),
    ("config_overridden", reads_and_writes::<ConfigView>),
    ("config_overrides", reads_and_writes::<Overrides>),
    ("problems_submit", reads_and_writes::<Vec<Problem>>),
    ("problems_watch", reads_and_writes::<Vec<Problem>>),
    ("problems_variables", reads_and_writes::<Vec<Problem>>),
    ("problems_web", reads_and_writes::<Vec<Problem>>),
    ("events_readings", reads_and_writes::<Vec<Event>>),
    ("gpu_readings", reads_and_writes::<Vec<GpuPast>>),
    ("web", reads_and_writes::<Web>),
    ("web_on", reads_and_writes::<WebOn>),
    ("move", reads_and_writes::<Move>),
    ("import_text", reads_and_writes::<ImportText>),
    ("sweep_planned", reads_and_writes::<SweepPlanned>),
    ("variables", reads_and_writes::<Vec<Variable>>),
    ("set_variable", reads_and_writes::<SetVariable>),
    ("last_lines", reads_and_writes::<Said>),
    ("report", reads_and_writes::<Vec<Group>>),
    ("tags", reads_and_writes::<Vec<Tag>>),
    ("tag_jobs", reads_and_writes::<TagJobs>),
    ("import", reads_and_writes::<Import>),
    ("import_report", reads_and_writes::<ImportReport>),
    ("watch", reads_and_writes::<Watch>),
    ("watching", reads_and_writes::<Watching>),
    ("queue_text", reads_and_writes::<QueueText>),
    ("queue_edit", reads_and_writes::<QueueEdit>),
    ("queue_edited", reads_and_writes::<QueueEdited>),
    ("job_edit", reads_and_writes::<JobEdit>),
    ("job_edited", reads_and_writes::<JobEdited>),
    ("job_spec_conda", reads_and_writes::<JobSpec>),
    ("job_spec_venv", reads_and_writes::<JobSpec>),
    ("job_detail_conda", reads_and_writes::<JobDetail>),
    ("exported_waiting", reads_and_writes::<Exported>),
    ("exported_ended", reads_and_writes::<Exported>),
    ("exported_dependency", reads_and_writes::<Exported>),
    ("exported_code", reads_and_writes::<Exported>),
    ("import_carried", reads_and_writes::<Import>),
    ("submitted_secrets", reads_and_writes::<Submitted>),
    ("problems_code", reads_and_writes::<Vec<Problem>>),
    ("problems_database", reads_and_writes::<Vec<Problem>>),
    ("taken_over", reads_and_writes::<TakenOver>),
    ("problems_logs", reads_and_writes::<Vec<Problem>>),
    ("problems_replaced_logs", reads_and_writes::<Vec<Problem>>),
    ("problems_machines", reads_and_writes::<Vec<Problem>>),
    ("machine", reads_and_writes::<Machine>),
    ("new_machine", reads_and_writes::<NewMachine>),
    ("on_machines", reads_and_writes::<OnMachines>),
    ("job_spec_pool", reads_and_writes::<Vec<JobSpec>>),
    ("jobs_waiting_for_machines", reads_and_writes::<Vec<Job>>),
    ("run_spec_out_dir", reads_and_writes::<RunSpec>),
    ("job_spec_out_dir", reads_and_writes::<JobSpec>),
    ("job_detail_out_dir", reads_and_writes::<JobDetail>),
    ("exit_found", reads_and_writes::<ExitRecord>),
    ("exit_gpu_locked", reads_and_writes::<ExitRecord>),
    ("run_spec_results", reads_and_writes::<RunSpec>),
    ("run_spec_login_env", reads_and_writes::<RunSpec>),
    ("job_spec_results", reads_and_writes::<JobSpec>),
    ("job_detail_results", reads_and_writes::<JobDetail>),
    ("results", reads_and_writes::<Results>),
    ("copy_results", reads_and_writes::<CopyResults>),
    ("job_spec_notify", reads_and_writes::<JobSpec>),
    ("notices", reads_and_writes::<Vec<Notice>>),
    ("web_proof", reads_and_writes::<Proof>),
    ("browser_keys", reads_and_writes::<Vec<BrowserKeys>>),
    ("browsers", reads_and_writes::<Vec<Browser>>),
    ("notices_blocked", reads_and_writes::<Vec<Notice>>),
    ("status_standstill", reads_and_writes::<Status>),
    ("notify_tried", reads_and_writes::<Vec<Tried>>),
    ("problems_notify", reads_and_writes::<Vec<Problem>>),
];

/// Names a script may rely on: the list of the specification.
const JOB_FIELDS: &str = "id name project command argv state reason detail waiting exit_code signal request machine \
    class gpus pid priority attempt retries tags sweep params submitted_at started_at ended_at runtime_seconds cwd \
    log_dir stdout_path stderr_path results results_state links";

/// What this product adds to them.
const FURTHER_JOB_FIELDS: &str = "simulated position rerun_of";

#[test]
fn every_sample_is_read_and_written_alike() {
    for (name, check) in SAMPLES {
        check(name);
    }
}

#[test]
fn every_file_is_a_sample_of_the_list() {
    let listed: BTreeSet<String> = SAMPLES.iter().map(|(name, _)| format!("{name}.json")).collect();
    let found: BTreeSet<String> = std::fs::read_dir(folder())
        .expect("the samples are in frozen/v1")
        .map(|entry| entry.expect("a readable folder").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, listed);
}

#[test]
fn what_a_submission_leaves_out_has_its_default() {
    let mut minimal = read::<JobSpec>("job_spec_minimal");
    // Whether a number of GPUs was said matters to rules; if none has a word in it, it is 1.
    assert_eq!((minimal.request.gpus, minimal.request.amount()), (None, GpuAmount::ONE));
    minimal.request.gpus = Some(GpuAmount::ONE);
    assert_eq!(minimal, read::<JobSpec>("job_spec_defaults"));
}

#[test]
fn a_record_of_before_the_count_of_lost_output_is_read() {
    let mut record = value("exit_exited");
    record.as_object_mut().expect("an object").remove("lost_output_bytes");
    let record: ExitRecord = serde_json::from_value(record).expect("an older record");
    assert_eq!(record, read::<ExitRecord>("exit_exited"));
}

#[test]
fn what_was_written_before_gpus_were_read_is_read() {
    let mut status = value("status");
    status["machines"][0].as_object_mut().expect("a machine").remove("error");
    let gpu = status["machines"][0]["gpus"][0].as_object_mut().expect("a GPU");
    let old = ["index", "uuid", "name", "memory_mib", "simulated", "jobs"];
    gpu.retain(|field, _| old.contains(&field.as_str()));
    let status: Status = serde_json::from_value(status).expect("an older status");
    assert_eq!((status.machines[0].gpus[0].paused, &status.machines[0].gpus[0].obstacle), (false, &None));

    let mut spec = value("run_spec");
    spec.as_object_mut().expect("an object").remove("gpu_locks");
    let spec: RunSpec = serde_json::from_value(spec).expect("an older run");
    assert!(spec.gpu_locks.is_empty());

    let mut service = value("service");
    let fields = service.as_object_mut().expect("an object");
    fields.retain(|field, _| !field.starts_with("gpu_"));
    let service: Service = serde_json::from_value(service).expect("an older service");
    assert_eq!(service.gpu_source, None);

    let gpus = serde_json::json!({"kind": "gpus", "need": 2, "free": 1, "on": null});
    let waiting: Waiting = serde_json::from_value(gpus).expect("an older reason");
    assert!(matches!(waiting, Waiting::Gpus(missing) if (missing.need, missing.free, missing.held) == (2, 1, 0)));
}

#[test]
fn a_job_has_the_fields_scripts_rely_on_and_none_is_left_out() {
    let expected: BTreeSet<&str> = JOB_FIELDS.split_whitespace().chain(FURTHER_JOB_FIELDS.split_whitespace()).collect();
    let jobs = [value("jobs_waiting"), value("jobs_ended"), Value::Array(vec![value("job_running")])];
    for job in jobs.iter().flat_map(|list| list.as_array().expect("a list")) {
        let fields: BTreeSet<&str> = job.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(fields, expected);
    }
    let detail = value("job_detail");
    let runs = detail["runs"].as_array().expect("attempts stand under runs");
    assert!(runs.iter().all(|run| run.get("outcome").is_some()), "a run's end is its outcome");
}

#[test]
fn samples_show_every_state_and_every_way_to_wait() {
    let samples = ["jobs_waiting", "jobs_waiting_for_shares", "jobs_waiting_for_machines", "jobs_ended"];
    let jobs = samples.map(read::<Vec<Job>>).concat();
    let jobs = jobs.into_iter().chain([read::<Job>("job_running"), read::<Job>("job_starting")]).collect::<Vec<_>>();
    for state in nexus_api::jobs::State::ALL {
        assert!(jobs.iter().any(|job| job.state == state), "no sample is {}", state.word());
        assert_eq!(serde_json::to_value(state).expect("a word"), state.word());
    }
    let ways: BTreeSet<String> =
        jobs.iter().filter_map(|job| Some(value_of(job.waiting.as_ref()?)["kind"].to_string())).collect();
    assert_eq!(ways.len(), 15, "{ways:?}");
}

#[test]
fn an_exported_job_says_its_format_first_and_then_what_every_listing_says() {
    let text = serde_json::to_string(&read::<Exported>("exported_ended")).expect("it can be written");
    let listed = serde_json::to_string(&read::<Exported>("exported_ended").job).expect("it can be written");
    assert_eq!(Exported::read(&text).expect("it is read"), read("exported_ended"));
    let begin = format!("{{\"format\":{},{}", export::FORMAT, listed.trim_start_matches('{').trim_end_matches('}'));
    assert!(text.starts_with(&begin), "{text}");
    let row = export::csv_row(&read::<Exported>("exported_ended").job);
    assert_eq!(
        row,
        "abc,failed,exit,3,,baseline,vision,-3,python train.py --name 'a b',\"0,3\",local,2,2024-10-24T15:30:15.123Z,\
         2024-10-24T15:30:16Z,2024-10-24T16:30:16.000Z,3600,/home/ann,night\n"
    );
    assert_eq!(row.matches(',').count() - 1, export::CSV_HEADER.matches(',').count());
}

/// A service refuses keys that it does not know. So a plain job asks for nothing that a service of 0.1.0 would not know: a field
/// that is added later is left out where it says nothing.
#[test]
fn a_plain_job_has_no_key_that_was_added_later() {
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>().join(" ");
    let spec = value_of(&JobSpec::new(nexus_api::command::Command::Argv(vec![]), "/".into()));
    let (job, request) = (keys(&spec), keys(&spec["request"]));
    assert_eq!(job, "command cwd env hold name out priority project request rerun_of retries tags tty window");
    assert_eq!(request, "cpus force gpus grace_seconds on signal time_seconds");
}

#[test]
fn samples_show_every_problem_and_each_has_words() {
    let further = ["problems_terminal", "problems_time_limit", "problems_submit", "problems_checkpoints"];
    let samples =
        [further.map(read::<Vec<Problem>>).concat(), read("problems_variables"), read("problems_notify")].concat();
    let samples = [samples, read("problems_code"), read("problems_database")].concat();
    let others =
        ["problems", "problems_logs", "problems_replaced_logs", "problems_watch", "problems_web", "problems_machines"];
    let samples = [samples, others.map(read::<Vec<Problem>>).concat()].concat();
    let shown: BTreeSet<u32> = samples.iter().map(number_of).collect();
    assert_eq!(shown, (1..=48).collect(), "a problem lacks a sample");
    for problem in samples {
        assert!(!problem.title().is_empty(), "{problem:?}");
        assert!(problem.why().is_none_or(|why| !why.is_empty()), "{problem:?}");
        assert!(problem.hint().is_none_or(|hint| !hint.is_empty()), "{problem:?}");
    }
}

#[test]
fn a_note_of_a_newer_service_is_no_hindrance() {
    let newer = serde_json::json!({"jobs": [], "notes": [{"note": "made-of-cheese", "holes": 3}]});
    let submitted: Submitted = serde_json::from_value(newer).expect("a newer answer");
    assert_eq!(submitted.notes, [Note::Other]);
}

#[test]
fn exit_records_mean_these_outcomes() {
    let table = [
        ("exit_exited", Outcome::Exited { code: 3 }),
        ("exit_signaled", Outcome::Signaled { signal: 9 }),
        ("exit_asked", Outcome::Stopped { code: None, signal: Some(15) }),
        ("exit_timeout", Outcome::TimedOut { code: Some(0), signal: None }),
        ("exit_session_closed", Outcome::SessionClosed { code: None, signal: Some(15) }),
        ("exit_gpu_oom", Outcome::OutOfMemory { of: Memory::Gpu, code: Some(1), signal: None }),
        ("exit_host_oom", Outcome::OutOfMemory { of: Memory::Host, code: None, signal: Some(9) }),
        ("exit_timeout_oom", Outcome::TimedOut { code: Some(1), signal: None }),
        ("exit_start_error", Outcome::StartError { error: "no such program: pyton".into(), code: Some(127) }),
        ("exit_machine_error", Outcome::MachineError { error: "failed to fork: out of memory".into() }),
        (
            "exit_gpu_locked",
            Outcome::GpuLocked {
                uuid: "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0".into(),
                user: Some("alice".into()),
                pid: Some(4312),
            },
        ),
    ];
    for (name, outcome) in table {
        assert_eq!(read::<ExitRecord>(name).outcome(), outcome, "{name}");
    }
}

#[test]
fn runs_have_folders_of_their_own() {
    let of_run = |number| run_dir::of_run("/logs".as_ref(), "abc", number);
    assert_eq!(of_run(1), PathBuf::from("/logs/job_abc"));
    assert_eq!(of_run(2), PathBuf::from("/logs/job_abc/attempt_2"));
    for number in [1, 2, 30] {
        assert_eq!(run_dir::run_of(&of_run(number)), format!("abc.{number}").parse().ok());
    }
    for other in ["/", "/logs", "/logs/job_", "/logs/job_a b", "/attempt_2", "/logs/job_abc/attempt_x"] {
        assert_eq!(run_dir::run_of(other.as_ref()), None, "{other}");
    }
}

/// A new problem does not compile here until it has a number, and is not shown until it has a sample.
fn number_of(problem: &Problem) -> u32 {
    match problem {
        Problem::NoSuchJob { .. } => 1,
        Problem::NothingMatches { .. } => 2,
        Problem::BadSelector { .. } => 3,
        Problem::WrongState { .. } => 4,
        Problem::BadCommand { .. } => 5,
        Problem::NoSuchFolder { .. } => 6,
        Problem::BadField { .. } => 7,
        Problem::DiskFull { .. } => 8,
        Problem::Database { .. } => 9,
        Problem::NewerDatabase { .. } => 10,
        Problem::OtherHost { .. } => 11,
        Problem::HomeUnusable { .. } => 12,
        Problem::BadConfig { .. } => 13,
        Problem::NotStarted { .. } => 14,
        Problem::BadRequest { .. } => 15,
        Problem::NoLog { .. } => 16,
        Problem::Stopping => 17,
        Problem::Internal { .. } => 18,
        Problem::NoSuchGpus { .. } => 19,
        Problem::NoTerminal { .. } => 20,
        Problem::NoScreen { .. } => 21,
        Problem::TimeLimitKept { .. } => 22,
        Problem::BadModels { .. } => 23,
        Problem::NotUnique { .. } => 24,
        Problem::CheckpointsInUse { .. } => 25,
        Problem::LogsGone { .. } => 26,
        Problem::NotWatched { .. } => 27,
        Problem::CannotWatch { .. } => 28,
        Problem::NoSuchVariable { .. } => 29,
        Problem::VariableGone { .. } => 30,
        Problem::KeyReused { .. } => 31,
        Problem::NotIn => 32,
        Problem::Forbidden { .. } => 33,
        Problem::Busy { .. } => 34,
        Problem::TooMuch { .. } => 35,
        Problem::NoWeb { .. } => 36,
        Problem::NoSuchMachine { .. } => 37,
        Problem::MachineExists { .. } => 38,
        Problem::MachineBusy { .. } => 39,
        Problem::OwnMachine => 40,
        Problem::Unreachable { .. } => 41,
        Problem::NobodyToTell => 42,
        Problem::DatabaseDamaged { .. } => 43,
        Problem::DatabaseMissing { .. } => 44,
        Problem::ServiceRuns { .. } => 45,
        Problem::NoBackup { .. } => 46,
        Problem::CodeGone { .. } => 47,
        Problem::LogUnreadable { .. } => 48,
    }
}

fn reads_and_writes<T: DeserializeOwned + Serialize + PartialEq + Debug>(name: &str) {
    let known = read::<T>(name);
    let written = value_of(&known);
    if let Some(path) = missing(&value(name), &written) {
        panic!("{name} is written otherwise: {path}");
    }
    let again: T = serde_json::from_value(written).unwrap_or_else(|error| panic!("{name} is not read again: {error}"));
    assert_eq!(again, known, "{name} is another when it was written");
}

/// Where what is written lacks something of the sample, or says another thing. New fields may stand beside the old.
fn missing(sample: &Value, written: &Value) -> Option<String> {
    match (sample, written) {
        (Value::Object(old), Value::Object(new)) => old.iter().find_map(|(field, value)| match new.get(field) {
            Some(now) => missing(value, now).map(|path| format!(".{field}{path}")),
            None => Some(format!(".{field} is gone")),
        }),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            let differs = |(index, (old, new))| missing(old, new).map(|path| format!("[{index}]{path}"));
            old.iter().zip(new).enumerate().find_map(differs)
        }
        _ => (sample != written).then(|| format!(" was {sample}, is {written}")),
    }
}

fn reads<T: DeserializeOwned>(name: &str) {
    read::<T>(name);
}

fn read<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_value(value(name)).unwrap_or_else(|error| panic!("{name} is not read any more: {error}"))
}

fn value_of(thing: &impl Serialize) -> Value {
    serde_json::to_value(thing).expect("it can be written")
}

fn value(name: &str) -> Value {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("frozen/v1")
}
