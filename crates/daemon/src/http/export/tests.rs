//! Every field of a job survives the store, an export and both kinds of import, or its loss is said here with the reason.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nexus_api::amount::{GpuAmount, Vram};
use nexus_api::command::Command;
use nexus_api::env::Env;
use nexus_api::job_file::{self, Entry, Format};
use nexus_api::jobs::{Code, Few, JobRequest, JobSpec, Note, RetryOn, Session, SignalBefore};
use nexus_api::paths::{Home, Surroundings};
use nexus_api::results::Extract;
use nexus_core::event::{Event, NewJob};
use nexus_core::ids::JobId;
use nexus_core::time::Time;
use serde_json::{Value, json};

use super::exported;
use crate::http::past;
use crate::identity::identity;
use crate::import::Reader;
use crate::models::Rules;
use crate::store::{Batch, Envs, JobEnv, NewRow, NewSpec, Readers, Store};
use crate::{clock, view};

const ID: &str = "zaa";
const CONTENT: &str = "0123456789abcdef0123456789abcdef";

fn env(variables: &[(&str, &str)]) -> Env {
    variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// A spec in which nothing is as usual. Two, since some fields exclude each other. A new field does not compile here: give it
/// a value, and see the comparisons below fail until an export carries it.
fn full(first: bool, dir: &Path) -> JobSpec {
    let path = |name: &str| dir.join(name).display().to_string();
    JobSpec {
        command: match first {
            true => Command::Shell("train --x 'a b' | tee log\necho {X}".into()),
            false => Command::Argv(["train", "a b", ""].map(String::from).into()),
        },
        cwd: "/proj/sub".into(),
        env: env(&[("SEED", "3"), ("MY_TOKEN", "xyzzy"), ("OF_THE_SHELL", "there")]),
        env_given: vec!["MY_TOKEN".into(), "SEED".into()],
        name: Some("n".into()),
        project: Some("p".into()),
        tags: vec!["s".into(), "t".into()],
        request: JobRequest {
            gpus: GpuAmount::parse("2").ok(),
            vram: Some(Vram::Mib(8192)),
            cpus: Some(3),
            ram_mib: Some(1536),
            on: Some(vec![0, 1, 5]),
            gpu_model: Some("RTX 3090".into()),
            time_seconds: Some(5400),
            signal: Some(SignalBefore { signal: 12, before_seconds: 90 }),
            grace_seconds: Some(7),
            force: true,
            class: Some("big".into()),
            machine: Some("box".into()),
            driver: true,
        },
        priority: -3,
        retries: 2,
        retry_on: vec![RetryOn::Timeout],
        after: vec!["abc".into()],
        after_any: vec!["abd".into()],
        unique: true,
        hold: true,
        notify: true,
        tty: Some(!first),
        window: Some((81, 25)),
        out: first.then(|| path("out")),
        out_dir: (!first).then(|| path("outs")),
        rerun_of: Some("abe".into()),
        checkpoint_of: Some("abf".into()),
        by_rule: Some("--llm x".into()),
        session: Some(if first { Session::Screen } else { Session::Builtin }),
        one_terminal: true,
        conda: first.then(|| "torch".into()),
        venv: (!first).then(|| ".venv".into()),
        gpu_arg: Some("--cuda".into()),
        results: Some(path("results")),
        extract: vec![Extract { name: "loss".into(), pattern: "loss: ([0-9.]+)".into() }],
        sweep: Some("lr-grid".into()),
        params: [("lr".to_string(), "0.1".to_string())].into(),
        variables: vec!["X".into()],
        export_env: true,
        code: Some(Code { content: CONTENT.into(), of: "/proj".into() }),
    }
}

/// A field that is as usual in both would be compared with itself.
#[test]
fn no_field_is_as_usual() {
    let specs = [full(true, "/d".as_ref()), full(false, "/d".as_ref())];
    let written = specs.clone().map(|spec| serde_json::to_value(spec).unwrap());
    let usual = serde_json::to_value(JobSpec::new(Command::Argv(vec![]), "/".into())).unwrap();
    let schema = <JobSpec as utoipa::PartialSchema>::schema();
    let (fields, request) = (serde_json::to_value(schema).unwrap(), <JobRequest as utoipa::PartialSchema>::schema());
    let fields = fields["properties"].as_object().unwrap();
    assert!(fields.len() >= 34, "the schema has all fields");
    for field in fields.keys() {
        assert!(written.iter().any(|spec| spec.get(field) != usual.get(field)), "{field} is as usual");
    }
    let usual = serde_json::to_value(JobRequest::default()).unwrap();
    for field in serde_json::to_value(request).unwrap()["properties"].as_object().unwrap().keys() {
        assert!(written[0]["request"].get(field) != usual.get(field), "request.{field} is as usual");
    }
}

/// The spec in the store of a home, and its line in an export of that home.
fn stored_and_exported(spec: &JobSpec, dir: &Path) -> Value {
    let database = dir.join("nexus.db");
    let mut store = Store::open(&database, false).unwrap();
    let id: JobId = ID.parse().unwrap();
    let bare = JobSpec { env: Env::new(), ..spec.clone() };
    let env = Arc::new(JobEnv::of(spec.env.clone()));
    let row = NewRow { identity: identity(&bare), spec: NewSpec::of(bare, None), env, sweep: None };
    let new = NewJob { id, needs: Arc::default(), sweep: None, priority: spec.priority, held: spec.hold, at: Time(0) };
    let batch = Batch { events: vec![Event::Submitted(new)], new: [(id, row)].into(), ..Batch::default() };
    store.commit(&batch).unwrap();
    let nothing = BTreeMap::new();
    let around = view::Surroundings { log_dir: Path::new("/logs"), now: clock::now(), waiting: &nothing };
    let line = Readers::new(&database)
        .read(|reader| {
            let row = reader.job(ID)?.unwrap();
            let (env, secret_names) = super::given(reader, &row, &mut Envs::default())?;
            Ok(exported(row, vec![], env, secret_names, &around))
        })
        .unwrap();
    serde_json::to_value(line).unwrap()
}

fn home(dir: &Path) -> Home {
    let around = Surroundings { nexus_home: Some(dir.into()), ..Surroundings::default() };
    Home::find(&around, |_| false).unwrap()
}

fn with_code(dir: &Path) -> Home {
    let home = home(dir);
    for folder in [home.snapshots(), home.code()] {
        std::fs::create_dir_all(folder.join(CONTENT)).unwrap();
    }
    home
}

/// What an import makes of a line: the spec, its environment, notes, what is said of the line.
type Imported = (JobSpec, Arc<JobEnv>, Vec<Note>, Option<String>);

fn imported(line: &Value, usual: &JobSpec, home: &Home) -> Result<Imported, String> {
    let read = job_file::read(line.to_string().as_bytes(), Some(Format::Jsonl)).unwrap();
    assert_eq!((read.refused.as_slice(), read.past.as_slice()), (&[][..], &[][..]));
    // As a client sends it.
    let sent = serde_json::to_string(&read.entries[0]).unwrap();
    let entry: Entry = serde_json::from_str(&sent).unwrap();
    let (env, rules) = (Arc::new(JobEnv::of(usual.env.clone())), Rules::default());
    let mut reader = Reader::new(usual, env, "/folder".as_ref(), &rules, None, None, home);
    let line = reader.line(entry)?;
    let doubt = read.doubtful.first().map(|doubt| doubt.error.clone());
    Ok((line.spec.whole(), line.env, reader.notes(), doubt))
}

#[test]
fn a_waiting_job_comes_back_whole_but_for_what_is_said() {
    for first in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let spec = full(first, dir.path());
        let line = stored_and_exported(&spec, dir.path());
        assert!(!line.to_string().contains("xyzzy"), "{line}");
        let mut usual = JobSpec::new(Command::Argv(vec![]), "/elsewhere".into());
        usual.env = env(&[("OF_THE_SHELL", "here"), ("MY_TOKEN", "mine")]);
        let (mut back, env, notes, doubt) = imported(&line, &usual, &with_code(dir.path())).unwrap();
        back.env_given.sort();
        let expected = JobSpec {
            // It lies beside the spec, and is compared below.
            env: Env::new(),
            // A link to a job of the other home.
            rerun_of: None,
            // Said.
            checkpoint_of: None,
            sweep: None,
            // What the rule said stands in the request.
            by_rule: None,
            ..spec
        };
        assert_eq!(back, expected);
        assert_eq!(env.open, self::env(&[("OF_THE_SHELL", "here"), ("SEED", "3")]));
        assert_eq!((env.secrets.clone(), notes), (self::env(&[("MY_TOKEN", "mine")]), vec![]));
        let doubt = doubt.unwrap();
        for said in ["zaa starts from the beginning, since the checkpoints of abf", "without the sweep"] {
            assert!(doubt.contains(said), "{said}: {doubt}");
        }
    }
}

#[test]
fn what_is_not_here_is_said_with_the_job_and_the_name() {
    let dir = tempfile::tempdir().unwrap();
    let line = stored_and_exported(&full(true, dir.path()), dir.path());
    let usual = JobSpec::new(Command::Argv(vec![]), "/elsewhere".into());
    let (spec, _, notes, _) = imported(&line, &usual, &with_code(dir.path())).unwrap();
    let jobs = Few { first: vec![ID.into()], more: 0 };
    assert_eq!(notes, [Note::SecretsNotExported { names: vec!["MY_TOKEN".into()], jobs }]);
    assert!(notes[0].to_string().starts_with("job zaa of the file without MY_TOKEN: "), "{}", notes[0]);
    assert_eq!(spec.env_given, ["SEED"], "a value that nobody has goes nowhere");
    let gone = dir.path().join("code").join(CONTENT);
    std::fs::remove_dir(&gone).unwrap();
    let refused = imported(&line, &usual, &home(dir.path())).unwrap_err();
    assert!(
        refused.starts_with("the code of zaa is not here: ") && refused.contains(&gone.display().to_string()),
        "{refused}"
    );
    // A line of somebody else's making leads to no other folder.
    let mut leads_away = line.clone();
    leads_away["code"]["content"] = json!("../../../etc");
    let refused = imported(&leads_away, &usual, &home(dir.path())).unwrap_err();
    assert!(refused.contains("is no name of a copy"), "{refused}");
}

#[test]
fn an_ended_job_comes_back_whole_as_history() {
    for first in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let spec = full(first, dir.path());
        let mut line = stored_and_exported(&spec, dir.path());
        for (field, value) in [("state", "completed"), ("ended_at", "2026-01-31T12:00:00Z")] {
            line[field] = json!(value);
        }
        let past = past::read(line.to_string().as_bytes(), "/logs".as_ref()).unwrap();
        let database = dir.path().join("other.db");
        Store::open(&database, false).unwrap().take_over(&[past], |_| false).unwrap();
        let row = Readers::new(&database).read(|reader| reader.job(ID)).unwrap().unwrap();
        let mut back = row.spec;
        back.env_given.sort();
        // Whether it was held before it ran is not known.
        assert_eq!(back, JobSpec { env: Env::new(), hold: false, ..spec });
        assert_eq!((row.tags, row.secret_names), (vec!["s".into(), "t".into()], vec!["MY_TOKEN".to_string()]));
    }
}
