//! JSON line by line, by hand and as exported.

use super::*;
use crate::jobs::{JobDetail, JobSpec};
use crate::queue_text::{names, said, set};

const GOOD: &str = "{\"command\": \"x\"}";

#[test]
fn keys_are_the_options_of_the_queue() {
    for (line, command, expected) in [
        (r#"{"command": "a | b"}"#, shell("a | b"), &[][..]),
        (r#"{"command": ["a", "b c"]}"#, argv(&["a", "b c"]), &[]),
        (r#"{"command": "ignored", "argv": ["a", "b c"]}"#, argv(&["a", "b c"]), &[]),
        (r#"{"command": "a", "argv": null}"#, shell("a"), &[]),
        (r#"{"command": "a\nb", "format": 1}"#, shell("a\nb"), &[]),
        (
            r#"{"command": "a", "priority": -2, "gpus": 0.5, "vram": "8G", "cpus": 4, "ram": "1.5G"}"#,
            shell("a"),
            &[("priority", "-2"), ("gpus", "0.5"), ("vram", "8G"), ("cpus", "4"), ("ram", "1.5G")],
        ),
        (
            r#"{"command": "a", "on": [0, 1, "3-4"], "tags": ["x", "y"], "after": ["abc", "abd"], "retry-on": "timeout"}"#,
            shell("a"),
            &[("on", "0,1,3-4"), ("tags", "x,y"), ("after", "abc,abd"), ("retry-on", "timeout")],
        ),
        (
            r#"{"command": "a", "on": "0-3", "gpu_model": "A100", "gpu-arg": "--cuda", "after_any": "abc"}"#,
            shell("a"),
            &[("on", "0-3"), ("gpu-model", "A100"), ("gpu-arg", "--cuda"), ("after-any", "abc")],
        ),
        (
            r#"{"command": "a", "hold": true, "no_tty": true, "screen": "yes", "force": false, "unique": null}"#,
            shell("a"),
            &[("hold", "yes"), ("no-tty", "yes"), ("screen", "yes")],
        ),
        (
            r#"{"command": "a", "time": "4h", "signal": "USR1@2m"}"#,
            shell("a"),
            &[("time", "4h"), ("signal", "USR1@2m")],
        ),
        (r#"{"command": "a", "out": "logs/a.log", "name": 7}"#, shell("a"), &[("out", "logs/a.log"), ("name", "7")]),
        (r#"{"command": "a", "tags": [], "on": ""}"#, shell("a"), &[("tags", ""), ("on", "")]),
    ] {
        let entry = one(line, Format::Jsonl);
        assert_eq!((&entry.command, &entry.options), (&command, &options(expected)), "{line}");
        assert!(entry.env.is_empty() && entry.id.is_none());
        assert_eq!(entry.written, 0..line.len());
    }
    let entry = one(r#"{"command": "a", "env": {"SEED": "1", "A-B": ""}, "id": "abc"}"#, Format::Jsonl);
    assert_eq!(entry.env, Env::from([("SEED".into(), "1".into()), ("A-B".into(), "".into())]));
    assert_eq!(entry.id.as_deref(), Some("abc"));
}

#[test]
fn every_option_of_the_queue_is_a_key() {
    for name in names().filter(|name| *name != "argv") {
        let refused = &one_format(format!("{{\"command\": \"x\", \"{name}\": \"\\u0007\"}}"), Format::Jsonl).refused;
        assert!(refused.len() == 1 && refused[0].error.starts_with(&format!("{name}: ")), "{name}: {refused:?}");
    }
}

#[test]
fn what_cannot_be_taken_is_told_by_its_line() {
    let deep = format!("{{\"command\": {}", "[".repeat(100_000));
    let long = format!("{{\"command\": \"{}\"}}", "x".repeat(140_000));
    refuses(
        Format::Jsonl,
        GOOD,
        &[
            ("{}", "it has no command, as in {\"command\": \"python train.py\"}"),
            ("{\"command\": \" \"}", "its command is empty"),
            ("{\"command\": []}", "its command is empty"),
            ("{\"command\": 3}", "command: a text for the shell, or a list of words"),
            ("{\"argv\": true}", "argv: a list of words"),
            ("{\"argv\": [\"a\", 3]}", "argv: 3 is no text; write it in quotes"),
            ("{\"command\": \"a\\u0000b\"}", "it has a NUL byte"),
            ("{\"command\": \"x\", \"prority\": 3}", "there is no key prority; did you mean priority?"),
            ("{\"command\": \"x\", \"gpu_modle\": 3}", "did you mean gpu-model?"),
            ("{\"command\": \"x\", \"elephant\": 3}", "there is no key elephant; there are after, after-any, argv"),
            ("{\"command\": \"x\", \"pid\": 3}", "there is no key pid"),
            ("{\"command\": \"x\", \"priority\": \"high\"}", "priority: high is no number"),
            ("{\"command\": \"x\", \"priority\": 1.5}", "priority: 1.5 is no number"),
            ("{\"command\": \"x\", \"gpus\": [0, 1]}", "gpus: how many, not a list; on says which"),
            ("{\"command\": \"x\", \"gpus\": 1.5}", "gpus: 1.5 is not whole GPUs from one on: 2"),
            ("{\"command\": \"x\", \"on\": \"3-1\"}", "on: 3-1 is no list of GPUs"),
            ("{\"command\": \"x\", \"on\": [128]}", "on: 128 is no list of GPUs"),
            ("{\"command\": \"x\", \"time\": 3600}", "time: 3600 has no unit"),
            ("{\"command\": \"x\", \"name\": true}", "name: true says nothing of it"),
            ("{\"command\": \"x\", \"name\": {}}", "name: a text or a number, not an object"),
            ("{\"command\": \"x\", \"name\": [\"a\"]}", "name: one value, not a list"),
            ("{\"command\": \"x\", \"tags\": [\"a,b\"]}", "tags: \"a,b\" cannot stand in a list"),
            ("{\"command\": \"x\", \"cwd\": \"data\"}", "cwd: data is no absolute path"),
            ("{\"command\": \"x\", \"env\": {\"A\": 1}}", "env: the value of A is no text; write it in quotes"),
            ("{\"command\": \"x\", \"env\": {\"A=B\": \"1\"}}", "env: \"A=B\" cannot be the name"),
            ("{\"command\": \"x\", \"env\": [\"A=1\"]}", "env: an object"),
            ("{\"command\": \"x\", \"env\": {\"NEXUS_JOB_ID\": \"1\"}}", "NEXUS_JOB_ID is set by nexus itself"),
            ("{\"command\": \"x\", \"id\": \"exp1\"}", "id: exp1 is no id of a job; name is for names of your own"),
            ("{\"command\": \"x\", \"command\": \"y\"}", "command is said twice"),
            ("{\"command\": \"x\", \"no-tty\": true, \"no_tty\": true}", "no_tty is said twice"),
            ("{\"command\": \"x\", \"env\": {\"A\": \"1\", \"A\": \"2\"}}", "A is said twice"),
            ("{\"command\": \"x\", \"format\": 2}", "it has format 2, and this nexus reads 1: a newer one wrote it"),
            ("{\"command\": \"x\", \"format\": \"1\"}", "format: \"1\" is no number of a format"),
            ("{\"command\": \"x\"", "it cannot be read as JSON: EOF while parsing an object, at column 15"),
            ("{\"command\": \"x\"} {}", "it cannot be read as JSON: trailing characters"),
            ("{command: \"x\"}", "it cannot be read as JSON: key must be a string, at column 2"),
            ("\"x\"", "it is no JSON object"),
            ("[{\"command\": \"x\"}]", "a list begins here, and each object has a line of its own: jq -c '.[]'"),
            (&deep, "it cannot be read as JSON: recursion limit exceeded"),
            (&long, "140000 bytes in one argument"),
        ],
    );
}

fn detail(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut value: serde_json::Value =
        serde_json::from_str(include_str!("../../../frozen/v1/job_detail_conda.json")).unwrap();
    // With every field of today.
    let detail: JobDetail = serde_json::from_value(value.clone()).unwrap();
    value = serde_json::to_value(detail).unwrap();
    value["format"] = 1.into();
    value["state"] = "queued".into();
    change(&mut value);
    value.to_string()
}

#[test]
fn an_exported_job_that_waits_is_an_entry() {
    let entry = one(&detail(|_| {}), Format::Jsonl);
    assert_eq!(entry.id.as_deref(), Some("abc"));
    assert_eq!(entry.command, argv(&["python", "train.py", "--name", "a b"]));
    let expected = options(&[
        ("gpus", "2"),
        ("cpus", "4"),
        ("on", "0,3"),
        ("time", "4h"),
        ("signal", "USR1@2m"),
        ("grace", "30s"),
        ("priority", "-3"),
        ("retries", "2"),
        ("tags", "night"),
        ("name", "baseline"),
        ("project", "vision"),
        ("cwd", "/home/ann"),
        ("conda", "torch"),
        ("gpu-arg", "--cuda"),
    ]);
    assert_eq!(entry.options, expected);
    assert_eq!(entry.env, Env::from([("PATH".into(), "/usr/bin".into())]));
    let doubtful = one_format(detail(|_| {}), Format::Jsonl).doubtful;
    let doubt = "jobs of the sweep m keep their parameters, and are queued without the sweep";
    assert_eq!((doubtful.len(), doubtful[0].error.as_str()), (1, doubt), "every field of today is known");
    let alone = one_format(detail(|job| job["sweep"] = serde_json::Value::Null), Format::Jsonl);
    assert!(alone.doubtful.is_empty());
    let params = entry.carried.map(|carried| carried.params).unwrap_or_default();
    assert_eq!(params, [("lr", "0.1"), ("seed", "3")].map(|(name, text)| (name.into(), text.into())).into());
    let held = one(&detail(|job| job["state"] = "held".into()), Format::Jsonl);
    assert_eq!(held.options["hold"], "yes");
    let reserved = one(&detail(|job| job["env"]["CUDA_VISIBLE_DEVICES"] = "0".into()), Format::Jsonl);
    assert!(!reserved.env.contains_key("CUDA_VISIBLE_DEVICES"));
    let plain = one(&detail(|job| job["argv"] = serde_json::Value::Null), Format::Jsonl);
    assert_eq!(plain.command, shell("python train.py --name 'a b'"));
}

/// What a spec asks for comes back from the job that was made of it.
#[test]
fn a_request_comes_back() {
    let mut spec = JobSpec::new(Command::Shell("x".into()), "/".into());
    for (name, value) in [
        ("gpus", "0.25"),
        ("vram", "auto"),
        ("cpus", "3"),
        ("ram", "1536M"),
        ("on", "0-2,5"),
        ("gpu-model", "RTX 3090"),
        ("time", "1h30m"),
        ("signal", "USR2@90s"),
        ("grace", "0s"),
        ("force", "yes"),
    ] {
        set(&mut spec, name, value).unwrap();
    }
    let request = serde_json::to_value(&spec.request).unwrap();
    let line = serde_json::json!({"id": "abc", "state": "queued", "command": "x", "request": request, "gpus": []});
    let mut back = JobSpec::new(Command::Shell("x".into()), "/".into());
    for (name, value) in one(&line.to_string(), Format::Jsonl).options {
        set(&mut back, &name, &value).unwrap();
    }
    assert_eq!(said(&back).collect::<Vec<_>>(), said(&spec).collect::<Vec<_>>());
    // One GPU is no default once it was taken: a rule must not change it.
    let line = r#"{"id": "abc", "state": "queued", "command": "x", "request": {"gpus": 1}}"#;
    assert_eq!(one(line, Format::Jsonl).options, options(&[("gpus", "1")]));
}

#[test]
fn exported_jobs_that_do_not_wait_are_past() {
    let states = ["starting", "running", "copying", "completed", "failed", "killed"];
    let text: String = states.iter().map(|state| detail(|job| job["state"] = (*state).into()) + "\r\n").collect();
    let read = one_format(&text, Format::Jsonl);
    assert!(read.entries.is_empty() && read.refused.is_empty());
    let told: Vec<(u64, bool, bool)> = read.past.iter().map(|past| (past.line, past.ended, past.completed)).collect();
    let expected =
        [(1, false, false), (2, false, false), (3, false, false), (4, true, true), (5, true, false), (6, true, false)];
    assert_eq!(told, expected);
    for (past, line) in read.past.iter().zip(text.lines()) {
        assert_eq!((past.id.as_str(), &text[past.written.clone()]), ("abc", line));
    }
}

#[test]
fn what_is_wrong_of_an_export_is_told() {
    for (line, words) in [
        (detail(|job| job["state"] = "waiting".into()), "state: \"waiting\" is none of held, queued, starting"),
        (detail(|job| job["state"] = 3.into()), "state: 3 is none of"),
        (detail(|job| job["id"] = serde_json::Value::Null), "a job with a state was exported, and has an id"),
        (detail(|job| job["id"] = "a1".into()), "id: a1 is no id of a job"),
        (detail(|job| job["format"] = 2.into()), "it has format 2"),
        (detail(|job| job["request"]["on"] = "0".into()), "request: invalid type"),
        (detail(|job| job["request"]["on"] = serde_json::json!([300])), "on: 300 is no list of GPUs"),
        (detail(|job| job["request"]["time_seconds"] = 0.into()), "time: 0s leaves no time at all"),
    ] {
        refuses(Format::Jsonl, GOOD, &[(&line, words)]);
    }
    // A field of a newer nexus is passed over, and told once.
    let newer = detail(|job| job["mood"] = "good".into());
    let read = one_format(format!("{newer}\n{newer}\n"), Format::Jsonl);
    assert_eq!((read.entries.len(), lines_of(&read.doubtful)), (2, vec![1]));
    assert!(read.doubtful[0].error.ends_with("does not know: mood"));
}
