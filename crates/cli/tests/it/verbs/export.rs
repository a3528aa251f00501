//! `export`: queue and history, as lines and as a table.

use nexus_testkit::{Nexus, Output};
use serde_json::{Value, json};

use super::LONG;
use crate::NEXUS;

const SECRET: &str = "xyzzy-plugh";

/// The jobs of an export.
fn jobs(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn ids(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().map(|job| job["id"].as_str().unwrap()).collect()
}

#[test]
fn a_job_a_line_in_the_order_of_submission() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"1s\"\n");
    nexus.start(1);
    let options = ["--name", "n", "--tag", "t", "--env", "SEED=3", "--env", "MY_TOKEN=xyzzy-plugh", "--retries", "1"];
    let with_secret = nexus.command(&[&["add"], &options[..], &["exit 3"]].concat()).env("HF_TOKEN", SECRET).output();
    let failed = Output::new("add".into(), with_secret.unwrap()).expect_code(0).stdout.trim_end().to_string();
    nexus.ended(&failed);
    let runs = nexus.add(LONG);
    let first = nexus.add_with(&["--priority", "-5", "--after", &runs, "--unique", "--no-tty", "--out", "o"], "true");
    let held = nexus
        .add_with(&["--hold", "--gpus", "0", "--env", "MY_TOKEN=xyzzy-plugh", "--env", "B=2"], "echo 'a\tb'\necho c");
    nexus.in_state(&runs, "running");

    let text = nexus.ok(&["export"]);
    assert!(!text.contains(SECRET), "{text}");
    let told = jobs(&text);
    assert_eq!(ids(&told), [&failed, &runs, &first, &held], "priority does not count");
    for (line, job) in text.lines().zip(&told) {
        assert!(line.starts_with("{\"format\":1,\"id\":"), "{line}");
        let shown = nexus.job(job["id"].as_str().unwrap());
        // Those that are of the moment, and those that are not exported.
        let moving = ["runtime_seconds", "waiting", "position", "expected", "env", "env_names", "checkpoint_dir"];
        for (field, value) in shown.as_object().unwrap().iter().filter(|(field, _)| !moving.contains(&field.as_str())) {
            let nothing = json!([]) == *value || json!(false) == *value || value.is_null();
            assert!(job[field] == *value || nothing && job.get(field).is_none(), "{field}: {value} is {}", job[field]);
        }
        assert_eq!((&job["waiting"], &job["position"]), (&Value::Null, &Value::Null));
    }
    assert_eq!((&told[0]["env"], &told[0]["secret_names"]), (&json!({"SEED": "3"}), &json!(["MY_TOKEN"])));
    assert_eq!(told[0]["runs"].as_array().unwrap().len(), 2);
    assert_eq!((told[1].get("env"), &told[1]["runs"][0]["outcome"]), (None, &Value::Null));
    let set = |field: &str| told[2][field].clone();
    let out = nexus.work().join("o");
    assert_eq!((set("after"), set("unique"), set("tty")), (json!([runs]), json!(true), json!(false)));
    assert_eq!(set("out"), json!(out));
    assert_eq!((&told[3]["hold"], told[2].get("hold")), (&json!(true), None));
    assert_eq!((&told[3]["env"], &told[3]["secret_names"]), (&json!({"B": "2"}), &json!(["MY_TOKEN"])));
    assert_eq!(told[3]["command"], "echo 'a\tb'\necho c");
}

#[test]
fn of_some_states_and_times() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let done = nexus.done("true")["id"].as_str().unwrap().to_string();
    let failed = nexus.done("false")["id"].as_str().unwrap().to_string();
    let held = nexus.add_with(&["--hold"], "true");
    let of = |args: &[&str]| {
        let text = nexus.ok(&[&["export"], args].concat());
        ids(&jobs(&text)).join(" ")
    };
    let all = format!("{done} {failed} {held}");
    assert_eq!((of(&[]), of(&["--since", "2d"]), of(&["--since", "2999-01-01"])), (all.clone(), all, "".into()));
    assert_eq!(of(&["--state", "failed,pending"]), format!("{failed} {held}"));
    assert_eq!(of(&["--state", "ended", "--state", "held"]), format!("{done} {failed} {held}"));
    assert_eq!((of(&["--state", "done"]), of(&["--state", "alive"])), (done, held));
}

#[test]
fn a_table_with_quotes_where_they_must_be() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let odd = "echo \"a,b\"\nexit 3";
    let id = nexus.add_with(&["--gpus", "2", "--tag", "x", "--tag", "y", "--name", "it's"], odd);
    let job = nexus.ended(&id);
    let plain = nexus.add_with(&["--hold", "--priority", "-2"], "echo a\necho b");
    let path = nexus.work().join("t.csv");
    let said = nexus.run(&["export", "--format", "csv", "-o", "t.csv"]).expect_code(0);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", "wrote 2 jobs to t.csv\n"));
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(text.trim_end(), nexus.ok(&["export", "--format", "csv"]));
    let at = |field: &str| job[field].as_str().unwrap();
    let (runtime, cwd) = (&job["runtime_seconds"], at("cwd"));
    let expected = format!(
        "id,state,reason,exit_code,signal,name,project,priority,command,gpus,machine,attempts,submitted_at,started_at,\
         ended_at,runtime_seconds,cwd,tags\n\
         {id},failed,exit,3,,it's,,0,\"echo \"\"a,b\"\"\nexit 3\",\"0,1\",local,1,{},{},{},{runtime},{cwd},\"x,y\"\n\
         {plain},held,,,,,,-2,\"echo a\necho b\",,,0,{},,,,{cwd},\n",
        at("submitted_at"),
        at("started_at"),
        at("ended_at"),
        nexus.job(&plain)["submitted_at"].as_str().unwrap(),
    );
    assert_eq!(text, expected);
}

#[test]
fn to_a_file_or_to_whatever_is_there() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let empty = nexus.run(&["export", "-o", "none.jsonl"]).expect_code(0);
    assert_eq!(empty.stderr, "wrote 0 jobs to none.jsonl\n");
    assert_eq!(std::fs::read(nexus.work().join("none.jsonl")).unwrap(), b"");
    nexus.done("true");
    let all = nexus.ok(&["export"]) + "\n";
    let file = nexus.file("old.jsonl", "old");
    let said = nexus.run(&["export", "-o", "old.jsonl"]).expect_code(0);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), ("", "wrote 1 job to old.jsonl\n"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), all);
    assert_eq!(nexus.run(&["export", "-o", "-"]).expect_code(0).stdout, all);
    assert_eq!(nexus.run(&["export", "-o", "/dev/stdout"]).expect_code(0).stdout, all);
    let left: Vec<_> = std::fs::read_dir(nexus.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    let seen = nexus.on_terminal(super::SCREEN, "", &["export", "-o", "old.jsonl"]).expect_code(0).stdout;
    assert!(seen.contains("wrote 1 job to old.jsonl"), "{seen}");
}

#[test]
fn what_is_wrong_is_told() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let said = nexus.fails(2, &["export", "--state", "lost"]);
    assert!(said.starts_with("error: --state lost is no state\nusage: nexus export"), "{said}");
    assert!(nexus.fails(2, &["export", "--since", "2"]).ends_with("hint: 2s, 2m, 2h or 2d\n"));
    assert!(nexus.fails(2, &["export", "--format", "xml"]).contains("it can be jsonl, csv"));
    let hint = "hint: -o FILE names another place\n";
    assert_eq!(
        nexus.fails(1, &["export", "-o", "no/such/x"]),
        format!("error: no/such/x was not written\nNo such file or directory\n{hint}")
    );
    assert_eq!(nexus.fails(1, &["export", "-o", "."]), format!("error: . was not written\nit is a folder\n{hint}"));
    let (status, answer) = nexus_testkit::request(&nexus.home().join("nexus.sock"), "GET", "/v1/export?format=xml", "");
    assert_eq!((status, answer.contains("jsonl or csv")), (400, true), "{answer}");
    nexus.ok(&["stop"]);
    assert!(nexus.fails(3, &["export", "-o", "x"]).ends_with("hint: nexus start\n"));
    assert!(!nexus.work().join("x").exists());
}
