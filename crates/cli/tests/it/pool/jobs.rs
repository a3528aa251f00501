//! Jobs on other machines, as if they were here.

use nexus_testkit::{Nexus, until};

use super::machines::{in_state, pool};

fn printed(nexus: &Nexus, id: &str) -> String {
    nexus.run_limited(&["logs", id]).expect_code(0).stdout
}

#[test]
fn output_and_exit_codes_are_as_if_local() {
    let (_ssh, nexus) = pool(1, 1);
    let ran = nexus.run_limited(&["run", "echo on $NEXUS_TEST_HOST; echo err >&2; exit 7"]).expect_code(7);
    assert_eq!((ran.stdout.as_str(), ran.stderr.contains("err")), ("on host1\n", true));

    let id = nexus.add("for i in 1 2 3; do echo line $i; echo side $i >&2; sleep 0.2; done");
    let followed = nexus.run_limited(&["logs", "-f", &id]).expect_code(0);
    let both = "line 1\nside 1\nline 2\nside 2\nline 3\nside 3\n";
    assert_eq!(followed.stdout, both);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    assert_eq!(printed(&nexus, &id), both);
    assert_eq!(nexus.ok(&["logs", "--stderr", &id]), "side 1\nside 2\nside 3");

    // A part of a log that is still being written, and one that was.
    let long = nexus.add("seq 1000; sleep 60");
    until("the end of it", || printed(&nexus, &long).ends_with("999\n1000\n").then_some(()));
    assert_eq!(nexus.run_limited(&["logs", "-n", "2", &long]).stdout, "999\n1000\n");
    nexus.ok(&["kill", &long]);
    assert_eq!(nexus.job(&long)["reason"], "user");
    // Kept here when the job ends.
    until("it is here", || (nexus.stdout_of(&long).lines().count() == 1000).then_some(()));
}

#[test]
fn a_terminal_over_the_line() {
    let (_ssh, nexus) = pool(1, 1);
    let id = nexus.add("read -p 'name? ' name; echo hello $name");
    nexus.in_state(&id, "running");
    let mut typist = nexus.at_terminal((80, 24), &["attach", &id]);
    typist.sees("name? ").types("ann\r").sees("hello ann");
    assert_eq!(nexus.ended(&id)["state"], "completed");
}

#[test]
fn the_environment_is_the_machines_own_and_what_was_given() {
    let (_ssh, nexus) = pool(1, 1);
    let nexus = nexus.env("MINE", "secretly").env("PASSED", "along");
    nexus.ok(&["config", "set", "jobs.pass_env", "[\"PASSED\"]"]);
    let show = "echo \"$MINE/$PASSED/$GIVEN/$NEXUS_TEST_HOST/$CUDA_VISIBLE_DEVICES/$NEXUS_JOB_ID\"";
    let id = nexus.add_with(&["--env", "GIVEN=x"], show);
    nexus.ended(&id);
    assert_eq!(printed(&nexus, &id), format!("/along/x/host1/0/{id}\n"));
    let id = nexus.add_with(&["--export-env"], show);
    nexus.ended(&id);
    assert_eq!(printed(&nexus, &id), format!("secretly/along//host1/0/{id}\n"));
    // A folder that is not there is the job's own fault, and said.
    let id = nexus.add_with(&["--machine", "host1", "--cwd", "/no/such/folder"], "true");
    let job = nexus.ended(&id);
    assert_eq!(job["reason"], "start-error");
    assert!(job["detail"].as_str().unwrap().contains("/no/such/folder"), "{job}");
}

#[test]
fn a_lost_line_ends_nothing_and_says_so() {
    let (ssh, nexus) = pool(1, 1);
    let id = nexus.add("sleep 3; echo survived; exit 9");
    nexus.in_state(&id, "running");
    ssh.end_sshd(1);
    let lost = in_state(&nexus, "host1", "unreachable");
    assert_eq!(lost["pool"]["jobs"][0], id.as_str());
    assert_eq!(nexus.job(&id)["state"], "running");
    let waits = nexus.add("true");
    let waiting = nexus.job(&waits)["waiting"].clone();
    assert_eq!((&waiting["kind"], &waiting["unreachable"]), (&"machines".into(), &1.into()));
    // It ends while nobody is there to hear it.
    let there = ssh.home(1).join("nodes");
    until("it has ended there", || {
        let nodes = std::fs::read_dir(&there).ok()?.flatten();
        nodes.map(|node| node.path().join(format!("logs/job_{id}/exit.json"))).find(|record| record.exists())
    });
    ssh.power_on(1);
    assert_eq!(nexus.ended(&id)["exit_code"], 9);
    assert_eq!(printed(&nexus, &id), "survived\n");
    assert_eq!(nexus.ended(&waits)["state"], "completed");
}

#[test]
fn a_kill_over_a_lost_line_is_done_when_it_is_back() {
    let (ssh, nexus) = pool(1, 1);
    let id = nexus.add("sleep 600");
    nexus.in_state(&id, "running");
    ssh.end_sshd(1);
    in_state(&nexus, "host1", "unreachable");
    nexus.ok(&["kill", "--no-wait", &id]);
    ssh.power_on(1);
    assert_eq!(nexus.ended(&id)["reason"], "user");
}

#[test]
fn results_come_back_from_the_machine() {
    let (ssh, nexus) = pool(1, 1);
    let to = nexus.work().join("kept");
    let command =
        "echo model > $NEXUS_RESULTS_DIR/model.bin; mkdir -p out; echo 1 > out/a; ln -s a out/b; echo 'RESULTS: out'";
    let id = nexus.add_with(&["--results", &to.display().to_string()], command);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["results_state"]), (&"completed".into(), &"copied".into()), "{job}");
    let kept = |name: &str| std::fs::read_to_string(to.join(&id).join(name)).expect(name);
    assert_eq!((kept("model.bin").as_str(), kept("out/a").as_str(), kept("out/b").as_str()), ("model\n", "1\n", "1\n"));
    // A copy that a lost line keeps from being made is made by hand later, and fails nothing else.
    let id = nexus.add("echo late > $NEXUS_RESULTS_DIR/late");
    assert_eq!(nexus.ended(&id)["state"], "completed");
    ssh.end_sshd(1);
    in_state(&nexus, "host1", "unreachable");
    let to = nexus.work().join("again").display().to_string();
    nexus.run_limited(&["results", &id, "--to", &to]).expect_code(1);
    ssh.power_on(1);
    nexus.ok(&["machine", "resume", "host1"]);
    in_state(&nexus, "host1", "ready");
    nexus.run_limited(&["results", &id, "--to", &to]).expect_code(0);
    assert_eq!(std::fs::read_to_string(format!("{to}/{id}/late")).unwrap(), "late\n");
}

#[test]
fn a_kill_says_when_it_cannot_be_done_yet() {
    let (ssh, nexus) = pool(1, 1);
    let id = nexus.add("sleep 600");
    nexus.in_state(&id, "running");
    ssh.end_sshd(1);
    in_state(&nexus, "host1", "unreachable");
    let told = nexus.run_limited(&["kill", &id]).expect_code(0).stderr;
    assert!(told.contains("host1, which cannot be reached"), "{told}");
    ssh.power_on(1);
    assert_eq!(nexus.ended(&id)["reason"], "user");
}

#[test]
fn a_driver_job_runs_here_and_holds_the_machine() {
    let (_ssh, nexus) = pool(1, 2);
    let id =
        nexus.add_with(&["--driver", "--machine", "host1"], "echo for {MACHINE} on ${NEXUS_TEST_HOST:-here}; sleep 2");
    nexus.in_state(&id, "running");
    let waits = nexus.add_with(&["--machine", "host1"], "true");
    assert_eq!(nexus.job(&waits)["state"], "queued");
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["machine"]), (&"completed".into(), &"host1".into()));
    assert_eq!(printed(&nexus, &id), "for host1 on here\n");
    assert_eq!(nexus.ended(&waits)["state"], "completed");
}

#[test]
fn a_stop_does_not_wait_for_a_machine_that_is_lost() {
    let (ssh, nexus) = pool(1, 1);
    let id = nexus.add("sleep 600");
    nexus.in_state(&id, "running");
    ssh.end_sshd(1);
    in_state(&nexus, "host1", "unreachable");
    nexus.run_limited(&["stop", "-y"]).expect_code(0);
    ssh.power_on(1);
    nexus.ok(&["start"]);
    // What was asked for is done when there is a line.
    assert_eq!(nexus.ended(&id)["reason"], "stopped");
}

#[test]
fn a_dry_run_names_the_machine() {
    let (_ssh, nexus) = pool(1, 1);
    let would = nexus.json(&["add", "--dry-run", "--json", "true"]);
    assert_eq!((&would["jobs"][0]["machine"], &would["jobs"][0]["gpus"][0]), (&"host1".into(), &0.into()), "{would}");
}
