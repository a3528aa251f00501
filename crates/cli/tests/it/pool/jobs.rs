//! Jobs on other machines, as if they were here.

use std::fs;
use std::path::{Path, PathBuf};

use nexus_testkit::{Nexus, SshHosts, until};

use super::machines::{in_state, pool};

/// Where the node of the only service has its folders on a host.
fn node_of(ssh: &SshHosts, number: usize) -> PathBuf {
    let mut nodes = fs::read_dir(ssh.home(number).join("nodes")).expect("it was called").flatten();
    nodes.next().expect("a node").path()
}

/// Files and folders that are called by a job.
fn named_after(folder: &Path, id: &str) -> Vec<PathBuf> {
    let names = [id.to_string(), format!("job_{id}")];
    let is_own = |path: &PathBuf| path.file_name().is_some_and(|name| names.iter().any(|own| name == own.as_str()));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (own, others): (Vec<_>, Vec<_>) = entries.partition(is_own);
    own.into_iter().chain(others.iter().flat_map(|other| named_after(other, id))).collect()
}

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
    until("it is here", || (nexus.stdout_so_far(&long).lines().count() == 1000).then_some(()));
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
    let told = "the folder /no/such/folder does not exist on host1: --sync sends it, or make it there";
    assert_eq!(job["detail"], told);
    let why = nexus.ok(&["why", &id]);
    assert!(why.contains(told) && !why.contains("mkdir"), "{why}");
    assert!(nexus.ok(&["show", &id]).contains(told));
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
        let nodes = fs::read_dir(&there).ok()?.flatten();
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
    let kept = |name: &str| fs::read_to_string(to.join(&id).join(name)).expect(name);
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
    assert_eq!(fs::read_to_string(format!("{to}/{id}/late")).unwrap(), "late\n");
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

#[test]
fn what_a_run_printed_is_cleared_there_once_it_is_here() {
    let (ssh, nexus) = pool(1, 1);
    let command = "echo $NEXUS_ATTEMPT; echo err >&2; touch $NEXUS_CHECKPOINT_DIR/step $NEXUS_RESULTS_DIR/model; \
                   test $NEXUS_ATTEMPT = 2";
    let id = nexus.add_with(&["--retries", "1"], command);
    assert_eq!(nexus.ended(&id)["state"], "completed");
    let logs = node_of(&ssh, 1).join("logs");
    until("its runs are cleared there", || named_after(&logs, &id).is_empty().then_some(()));
    assert_eq!(printed(&nexus, &id), "2\nerr\n");
    assert_eq!(nexus.run_limited(&["logs", &id, "--attempt", "1"]).expect_code(0).stdout, "1\nerr\n");
    // A service that did not hear of that asks again, and loses nothing.
    nexus.kill_service();
    nexus.ok(&["start"]);
    in_state(&nexus, "host1", "ready");
    assert_eq!(printed(&nexus, &id), "2\nerr\n");
    // What somebody may want stays until the job is forgotten.
    let left = |kind: &str| named_after(&node_of(&ssh, 1).join(kind), &id).len();
    assert_eq!((left("checkpoints"), left("results")), (1, 1));
    nexus.ok(&["forget", "-y", &id]);
    until("all of it is gone", || named_after(&ssh.home(1).join("nodes"), &id).is_empty().then_some(()));
    assert!(named_after(&nexus.home(), &id).is_empty());
    assert!(!nexus.service_log().contains("not brought"), "{}", nexus.service_log());
}

#[test]
fn what_a_forgotten_job_left_goes_when_its_machine_is_back() {
    let (ssh, nexus) = pool(1, 1);
    let command = "echo out; touch $NEXUS_CHECKPOINT_DIR/step $NEXUS_RESULTS_DIR/model $NEXUS_RUN_DIR/own";
    let (id, other) = (nexus.add(command), nexus.add(command));
    nexus.ended(&id);
    assert_eq!(nexus.ended(&other)["state"], "completed");
    assert_eq!(printed(&nexus, &id), "out\n");
    ssh.end_sshd(1);
    in_state(&nexus, "host1", "unreachable");
    nexus.ok(&["forget", "-y", &id]);
    assert!(named_after(&nexus.home(), &id).is_empty(), "here it goes at once");
    let nodes = ssh.home(1).join("nodes");
    assert_eq!(named_after(&nodes, &id).len(), 3, "logs, checkpoints and results");
    nexus.kill_service();
    nexus.ok(&["start"]);
    ssh.power_on(1);
    nexus.ok(&["machine", "resume", "host1"]);
    until("all of it is gone", || named_after(&nodes, &id).is_empty().then_some(()));
    assert_eq!(named_after(&nodes, &other).len(), 3, "of another job nothing goes");
}

#[test]
fn a_job_of_a_project_is_linked_here_wherever_it_ran() {
    let (_ssh, nexus) = pool(1, 1);
    let id = nexus.add_with(&["--project", "p", "--name", "n"], "echo linked");
    nexus.ended(&id);
    let link = nexus.home().join(format!("logs/by-project/p/n/{id}"));
    let log = until("the link", || fs::read_to_string(link.join("stdout.log")).ok());
    assert_eq!(log, "linked\n");
    nexus.ok(&["forget", "-y", &id]);
    assert!(fs::symlink_metadata(&link).is_err());
}

#[test]
fn a_job_that_began_since_a_backup_is_not_started_a_second_time() {
    let (_ssh, nexus) = pool(1, 1);
    let ledger = nexus.work().join("ledger");
    let id =
        nexus.add_with(&["--hold", "--retries", "2"], &format!("echo began >> {}; exec sleep 1000", ledger.display()));
    nexus.ok(&["backup"]);
    nexus.ok(&["release", &id]);
    nexus.in_state(&id, "running");
    let lines = || fs::read_to_string(&ledger).unwrap_or_default();
    until("it has begun", || (!lines().is_empty()).then_some(()));
    nexus.ok(&["stop", "--keep-jobs"]);
    nexus.ok(&["backup", "restore"]);
    nexus.ok(&["start"]);
    in_state(&nexus, "host1", "ready");
    assert_eq!(nexus.ended(&id)["reason"], "lost", "nobody knows where it is");
    assert_eq!(lines(), "began\n");
}
