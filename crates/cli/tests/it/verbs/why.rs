//! `why`: one answer, waiting or failed.

use nexus_testkit::{Nexus, kill, signal, until};
use serde_json::json;

use super::LONG;
use crate::NEXUS;

#[track_caller]
fn says(nexus: &Nexus, id: &str, parts: &[&str]) {
    let told = nexus.ok(&["why", id]);
    for part in parts {
        assert!(told.contains(part), "{part}\nis not in\n{told}");
    }
}

#[test]
fn who_holds_what_it_waits_for() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let long = nexus.add_with(&["--time", "4h"], LONG);
    nexus.in_state(&long, "running");
    let wide = nexus.add_with(&["--gpus", "2"], "true");
    let narrow = nexus.add_with(&["--on", "0"], "true");
    let first = format!("{wide}: needs 2 GPUs: 1 free, 1 held by jobs\n");
    says(&nexus, &wide, &[&first, "Position: 1 of 2\n", "Needs:    2 GPUs\n", "There is: 2 GPUs (1 with jobs), "]);
    says(&nexus, &wide, &[&format!("Held by:  {long} on GPU 0 for "), ", at most 4h: sleep 1000\n"]);
    says(&nexus, &wide, &[&format!("nexus kill {long}")]);
    says(&nexus, &narrow, &["needs 1 GPU of 0: 1 held by jobs\n", &format!("nexus first {narrow}")]);
    // The very value of the listings, and the facts behind the sentences.
    let told = nexus.json(&["why", &narrow, "--json"]);
    assert_eq!(told["waiting"], nexus.job(&narrow)["waiting"]);
    assert_eq!(told["waiting"], nexus.json(&["queue", "--json"])[1]["waiting"]);
    assert_eq!((&told["holders"][0]["id"], &told["position"], &told["pending"]), (&json!(long), &json!(2), &json!(2)));
    assert_eq!(told["machines"][0]["gpus"][0]["jobs"], json!([long]));
}

#[test]
fn each_way_to_wait_says_what_to_type() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let held = nexus.add_with(&["--hold"], "true");
    says(
        &nexus,
        &held,
        &[&format!("{held}: held: nexus release {held}\n"), &format!("nexus release {held}  to let it start")],
    );
    let wide = nexus.add_with(&["--gpus", "8"], "python train.py");
    let again = &format!("nexus edit {wide} --gpus 1");
    says(&nexus, &wide, &["needs 8 GPUs, there is 1\n", "as it is it never starts here", again]);
    let elsewhere = nexus.add_with(&["--on", "5"], "true");
    says(&nexus, &elsewhere, &["needs 1 GPU of 5, there are none\n", &format!("nexus remove {elsewhere}")]);
    nexus.ok(&["pause"]);
    let paused = nexus.add("true");
    says(&nexus, &paused, &["queue paused: nexus resume\n", "nexus resume  to let the queue go on"]);
}

#[test]
fn what_runs_or_completed_does_not_wait() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(LONG);
    let pid = nexus.in_state(&id, "running")["pid"].to_string();
    says(&nexus, &id, &[": does not wait: it runs on GPU 0 since ", &format!(", pid {pid}\n"), "nexus logs -f"]);
    nexus.ok(&["kill", &id]);
    says(&nexus, &id, &[": killed (user) on GPU 0 at ", "nexus kill", &format!("nexus rerun {id}")]);
    let done = nexus.done("true")["id"].as_str().unwrap().to_string();
    says(&nexus, &done, &[": completed on GPU 0 at ", &format!("nexus logs {done}")]);
    let removed = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["remove", &removed]);
    says(&nexus, &removed, &[": killed (removed) at ", "took it out of the queue: nexus remove"]);
    let stopped = nexus.add(LONG);
    nexus.in_state(&stopped, "running");
    nexus.ok(&["stop", "-y"]);
    nexus.ok(&["start"]);
    says(&nexus, &stopped, &[": killed (stopped) on GPU 0", "together with the service: nexus stop"]);
}

#[test]
fn a_failure_says_what_it_means_and_what_it_printed() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let failed = |options: &[&str], command: &str| {
        let id = nexus.add_with(options, command);
        assert_eq!(nexus.ended(&id)["state"], "failed", "{command}");
        id
    };
    let traceback = "echo epoch 1; echo \"ModuleNotFoundError: No module named 'foo'\" >&2; exit 1";
    let id = failed(&["--retries", "0"], traceback);
    says(&nexus, &id, &[": failed (exit 1) on GPU 0 at ", "  Printed:  epoch 1\n            ModuleNotFoundError: "]);
    says(&nexus, &id, &[&format!("nexus logs {id}"), &format!("nexus rerun {id}")]);
    assert_eq!(nexus.json(&["why", &id, "--json"])["last_lines"][0], "epoch 1");
    says(&nexus, &failed(&[], "kill -9 $$"), &[": failed (signal 9 (KILL)) ", "when memory runs out"]);
    says(&nexus, &failed(&[], "exit 137"), &["137 = 128 + 9: a program in it was ended by signal 9 (KILL)"]);
    says(&nexus, &failed(&[], "exit 139"), &["139 = 128 + 11: ", "(SEGV)", "memory that is not its own"]);
    let id = failed(&["--time", "1s", "--grace", "0s"], LONG);
    says(&nexus, &id, &[": failed (timeout) ", "longer than its --time 1s\n", "nexus edit $(nexus rerun"]);
    let id = failed(&[], "nosuchprogram");
    says(
        &nexus,
        &id,
        &[": failed (start-error) ", "127: the shell found no such program", "nosuchprogram: command not found"],
    );
}

#[test]
fn what_could_not_start_or_was_lost() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.ok(&["add", "--", "nosuchprogram"]);
    nexus.ended(&id);
    says(&nexus, &id, &["cannot run nosuchprogram: No such file or directory\n", &format!("nexus show --env {id}")]);
    nexus.ok(&["pause"]);
    let gone = nexus.work().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let id = nexus.add_with(&["--cwd", "gone"], "true");
    std::fs::remove_dir(&gone).unwrap();
    nexus.ok(&["resume"]);
    nexus.ended(&id);
    let missing = format!("its folder {} is not there\n", gone.display());
    says(&nexus, &id, &["cannot enter ", &missing, &format!("mkdir -p {}", gone.display())]);
    let id = nexus.add(LONG);
    nexus.in_state(&id, "running");
    kill(nexus.shim(&id), signal::SIGKILL);
    nexus.ended(&id);
    says(&nexus, &id, &[": failed (lost) ", "nobody saw its end", &format!("nexus rerun {id}")]);
}

#[test]
fn a_retry_says_when_and_what_went_wrong_before() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\nretry_wait = \"1h\"\n");
    nexus.start(1);
    let id = nexus.add_with(&["--retries", "2"], "echo trouble; exit 3");
    until("it waits for its retry", || (nexus.job(&id)["waiting"]["kind"] == "retry").then_some(()));
    says(&nexus, &id, &[": tried again at ", "Before:   attempt 1 failed: exit 3\n", "Printed:  trouble\n"]);
}
