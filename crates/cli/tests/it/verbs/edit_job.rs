//! `edit ID`: one job.

use nexus_testkit::{Nexus, until};
use serde_json::json;

use super::LONG;
use crate::NEXUS;

#[test]
fn options_are_changed_and_told() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.ok(&["pause"]);
    let id = nexus.add_with(&["--tag", "old", "--time", "1h", "--env", "KEEP=1"], "true");
    let other = nexus.add("true other");
    assert_eq!(nexus.ok(&["edit", &id, "--priority", "2"]), format!("{id}: priority 0 -> 2"));
    assert_eq!(nexus.job(&other)["position"], 1, "its place is that of its priority");
    let told = nexus.ok(&[
        "edit",
        &id,
        "--gpus",
        "2",
        "--on",
        "0-1",
        "--tag",
        "a",
        "--tag",
        "b",
        "--time",
        "",
        "--retries",
        "3",
        "--name",
        "x y",
        "--cwd",
        "/",
        "--hold",
        "--grace",
        "5s",
        "--no-tty",
        "--out",
        "o.log",
    ]);
    for line in [
        "gpus 1 -> 2",
        "on any GPU -> 0-1",
        "tags old -> a,b",
        "time 1h -> no limit",
        "name none -> x y",
        "hold no -> yes",
    ] {
        assert!(told.contains(&format!("{id}: {line}")), "{line}: {told}");
    }
    let job = nexus.job(&id);
    assert_eq!((&job["state"], &job["tags"], &job["cwd"]), (&"held".into(), &json!(["a", "b"]), &"/".into()));
    assert_eq!((&job["request"]["gpus"], &job["request"]["time_seconds"]), (&2.into(), &json!(null)));
    assert_eq!(nexus.ok(&["edit", &id, "--priority", "2"]), format!("{id}: nothing changed"));
    // It is there after a restart, and found by its new tags.
    nexus.kill_service();
    nexus.ok(&["release", "tag:a"]);
    assert_eq!(nexus.job(&id)["state"], "queued");
    nexus.fails(1, &["release", "tag:old"]);
}

#[test]
fn the_command_and_the_environment_are_replaced() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold", "--env", "A=old", "--env", "B=kept", "--env", "MY_TOKEN=first"], "true");
    assert_eq!(
        nexus.ok(&["edit", &id, "--", "sh", "-c", "echo $A $B $MY_TOKEN"]),
        format!("{id}: argv no -> yes\n{id}: command true -> sh -c 'echo $A $B $MY_TOKEN'")
    );
    assert_eq!(
        nexus.ok(&["edit", &id, "--env", "A=new", "--env", "MY_TOKEN=second"]),
        format!("{id}: env A set\n{id}: env MY_TOKEN set")
    );
    nexus.ok(&["release", &id]);
    nexus.ended(&id);
    assert_eq!(nexus.stdout_of(&id).trim(), "new kept second");
    let shell = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["edit", &shell, "echo $((1+1))"]);
    nexus.ok(&["release", &shell]);
    assert_eq!((nexus.ended(&shell)["argv"].clone(), nexus.stdout_of(&shell).trim()), (json!(null), "2"));
}

#[test]
fn of_a_running_job_only_records_change() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--tag", "old"], LONG);
    nexus.in_state(&id, "running");
    assert_eq!(
        nexus.ok(&["edit", &id, "--priority", "-3", "--tag", "new"]),
        format!("{id}: priority 0 -> -3\n{id}: tags old -> new")
    );
    assert_eq!((&nexus.job(&id)["priority"], &nexus.job(&id)["tags"]), (&json!(-3), &json!(["new"])));
    for (args, what) in [
        (&["--gpus", "0"][..], "--gpus"),
        (&["--time", "4h", "--retries", "2"], "--retries"),
        (&["--env", "A=b"], "--env"),
        (&["--", "true"], "the command"),
    ] {
        let said = nexus.fails(1, &[&["edit", &id], args].concat());
        let expected = format!(
            "error: {what} of job {id} cannot be changed\nit is running on GPU 0\nhint: once it has started, nexus edit {id} takes --time, --priority and --tag alone\n"
        );
        assert_eq!(said, expected);
    }
    assert_eq!(nexus.job(&id)["request"]["time_seconds"], json!(null), "all or nothing");
    let said = nexus.fails(1, &["edit", &id]);
    assert!(said.starts_with(&format!("error: job {id} cannot be changed\nit is running on GPU 0\n")), "{said}");
    nexus.ok(&["kill", &id]);
    let said = nexus.fails(1, &["edit", &id, "--tag", "x"]);
    assert!(said.starts_with(&format!("error: job {id} cannot be changed\nit has ended: killed\n")), "{said}");
}

#[test]
fn the_time_limit_of_a_running_job_is_shortened_lengthened_and_taken_away() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    let shortened = nexus.add_with(&["--time", "4h"], LONG);
    let unlimited = nexus.add_with(&["--time", "8s"], "until [ -e go ]; do sleep 0.05; done");
    let lengthened = nexus.add_with(&["--time", "8s"], "until [ -e go ]; do sleep 0.05; done");
    // Without waiting for them: a job on its way can be changed too.
    assert_eq!(nexus.ok(&["edit", &unlimited, "--time", ""]), format!("{unlimited}: time 8s -> no limit"));
    assert_eq!(nexus.ok(&["edit", &lengthened, "--time", "2h"]), format!("{lengthened}: time 8s -> 2h"));
    nexus.in_state(&shortened, "running");
    until("the first second is over", || nexus.job(&shortened)["runtime_seconds"].as_f64().filter(|ran| *ran > 1.0));
    assert_eq!(nexus.ok(&["edit", &shortened, "--time", "1s"]), format!("{shortened}: time 4h -> 1s"));
    let job = nexus.ended(&shortened);
    assert_eq!((&job["state"], &job["reason"]), (&"failed".into(), &"timeout".into()));
    assert_eq!(job["detail"], "it ran longer than its limit of 1s");
    until("their first limit is over", || nexus.job(&lengthened)["runtime_seconds"].as_f64().filter(|ran| *ran > 9.0));
    // What the shims agreed to is on disk, and theirs still after a crash of the service.
    nexus.kill_service();
    nexus.ok(&["start"]);
    for (id, seconds) in [(&unlimited, json!(null)), (&lengthened, json!(7200))] {
        let job = nexus.job(id);
        assert_eq!((&job["state"], &job["request"]["time_seconds"]), (&"running".into(), &seconds));
    }
    nexus.file("go", "");
    assert_eq!(
        (&nexus.ended(&unlimited)["state"], &nexus.ended(&lengthened)["state"]),
        (&"completed".into(), &"completed".into())
    );
    assert!(nexus.service_log().contains(&format!("Job {lengthened} changed by user: time 8s -> 2h")));
}

#[test]
fn the_signal_before_the_limit_moves_with_it() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let warned = "trap 'echo warned' USR1; echo ready; while :; do sleep 0.05; done";
    let id = nexus.add_with(&["--time", "10h", "--signal", "USR1@1h"], warned);
    nexus.in_state(&id, "running");
    until("its trap is set", || nexus.stdout_so_far(&id).contains("ready").then_some(()));
    nexus.ok(&["edit", &id, "--time", "30m"]);
    until("the signal", || (nexus.stdout_so_far(&id).matches("warned").count() == 1).then_some(()));
    nexus.ok(&["edit", &id, "--time", "40m"]);
    until("the signal again", || (nexus.stdout_so_far(&id).matches("warned").count() == 2).then_some(()));
    assert_eq!(nexus.job(&id)["state"], "running");
}

#[test]
fn alone_it_opens_in_the_editor() {
    let nexus = Nexus::with_gpus(NEXUS, 1).env("VISUAL", "sh ed.sh").env("EDITOR", "false");
    nexus.ok(&["pause"]);
    let id = nexus.add("true");
    nexus.add("true other");
    nexus.file("ed.sh", "cp \"$1\" before; sed -i 's/^true/false/; s/^#@ [a-z]*/& retries=2/' \"$1\"");
    assert_eq!(nexus.ok(&["edit", &id]), format!("{id}: retries 0 -> 2\n{id}: command true -> false"));
    let before = std::fs::read_to_string(nexus.work().join("before")).unwrap();
    assert!(before.contains(&id) && !before.contains("other"), "{before}");
    assert_eq!(nexus.json(&["queue", "--json"]).as_array().unwrap().len(), 2);
}

#[test]
fn wrong_values_are_told_and_change_nothing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "true");
    for (args, error) in [
        (&["--retries", "many"][..], "retries cannot be many\nmany is no number that fits here"),
        (&["--cwd", "/no/such"], "the working folder /no/such cannot be used"),
        (&["--gpus", "2", "--on", "0"], "on cannot be 0"),
        (&["--priority", "99999999999"], "priority cannot be 99999999999"),
        (&["--signal", "USR1@10s"], "signal cannot be USR1@10s\nit comes before a time limit, and there is none"),
        (&["--signal", "USR1@2h", "--time", "1h"], "signal cannot be USR1@2h\nit would come before the job starts"),
    ] {
        let said = nexus.fails(1, &[&["edit", &id], args].concat());
        assert!(said.starts_with(&format!("error: {error}")), "{said}");
    }
    for (args, error) in [
        (&["--gpus", "0,1"][..], "--gpus 0,1 is a list"),
        (&["--time", "4"], "--time 4 has no unit"),
        (&["--", "a b"], "after -- stand a program and its arguments"),
    ] {
        let said = nexus.fails(2, &[&["edit", &id], args].concat());
        assert!(said.starts_with(&format!("error: {error}")), "{said}");
    }
    assert!(nexus.fails(2, &["edit", "--priority", "2"]).starts_with("error: these options are for one job"));
    assert!(nexus.fails(1, &["edit", "xyz", "--priority", "2"]).starts_with("error: there is no job xyz"));
    let warned = nexus.add_with(&["--hold", "--time", "2h", "--signal", "USR1@1h"], "true");
    for time in ["", "1h", "30m"] {
        assert!(nexus.fails(1, &["edit", &warned, "--time", time]).starts_with("error: signal cannot be USR1@1h\n"));
    }
    nexus.ok(&["edit", &warned, "--time", "3h", "--signal", "USR1@2h"]);
    let job = nexus.job(&id);
    assert_eq!((&job["request"]["gpus"], &job["priority"]), (&json!(1), &json!(0)));
}
