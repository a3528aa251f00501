//! What the configuration does to jobs, from the moment it is changed.

use nexus_testkit::{Nexus, until};

use crate::NEXUS;

/// Waits until the service has taken a file that was written by hand.
fn write(nexus: &Nexus, text: &str, line: &str) {
    nexus.config(text);
    until(line, || nexus.service_log().contains(line).then_some(()));
}

#[test]
fn a_file_written_by_hand_counts_at_once() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    write(&nexus, "[jobs]\nshell = \"sh\"\n", "Config changed: jobs.shell bash -> sh\n");
    let by_sh = nexus.done("echo \"[${BASH_VERSION-}]$0\"");
    let seen = nexus.stdout_of(by_sh["id"].as_str().unwrap());
    assert!(seen.ends_with("/sh\n"), "{seen}");
    // As editors do it: another file in its place.
    std::fs::write(nexus.home().join("new"), "[jobs]\nprelude = \"greeting=hello\"\ngrace = \"7s\"\n").unwrap();
    std::fs::rename(nexus.home().join("new"), nexus.home().join("config.toml")).unwrap();
    until("both keys are told", || {
        let log = nexus.service_log();
        let told = ["Config changed: jobs.grace 10s -> 7s\n", "Config changed: jobs.shell sh -> bash\n"];
        told.iter().all(|line| log.contains(line)).then_some(())
    });
    let job = nexus.done("echo $greeting; exit 3");
    assert_eq!((&job["exit_code"], nexus.stdout_of(job["id"].as_str().unwrap()).as_str()), (&3.into(), "hello\n"));
    assert_eq!(job["command"], "echo $greeting; exit 3");
}

#[test]
fn a_new_grace_counts_for_the_next_job() {
    let nexus = Nexus::fresh(NEXUS);
    nexus.config("[jobs]\ngrace = \"2m\"\n");
    nexus.start(1);
    nexus.ok(&["config", "set", "jobs.grace", "0s"]);
    let id = nexus.add("trap '' TERM; echo ready; while :; do sleep 1000; done");
    nexus.in_state(&id, "running");
    until("it catches TERM", || nexus.stdout_so_far(&id).contains("ready").then_some(()));
    nexus.run_limited(&["kill", &id]).expect_code(0);
    assert_eq!(nexus.job(&id)["signal"], 9);
}

#[test]
fn a_prelude_leaves_words_as_they_are_and_runs_once() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let count = nexus.work().join("count");
    nexus.ok(&["config", "set", "jobs.prelude", &format!("echo once >> {}\nexport SET='by prelude'", count.display())]);
    let words = ["python3", "-c", "import os, sys; print(sys.argv[1:], os.environ['SET'])"];
    let odd = ["$(echo x)", "a  b", "", "it's", "\"q\"", "ä\nö", "${HOME}", "*", "-n", "\\"];
    let id = nexus.ok(&[&["add", "--"], &words[..], &odd].concat());
    assert_eq!(nexus.ended(&id)["state"], "completed");
    let expected = "['$(echo x)', 'a  b', '', \"it's\", '\"q\"', 'ä\\nö', '${HOME}', '*', '-n', '\\\\'] by prelude\n";
    assert_eq!(nexus.stdout_of(&id), expected);
    assert_eq!(nexus.job(&id)["argv"][0], "python3");
    assert_eq!(std::fs::read_to_string(&count).unwrap(), "once\n");
    let id = nexus.ok(&["add", "--", "no-such-program"]);
    assert_eq!(nexus.ended(&id)["reason"], "start-error");
}

#[test]
fn a_runner_stands_before_every_command() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["config", "set", "jobs.runner", "nice -n 7"]);
    let job = nexus.done("nice; echo '$x'");
    assert_eq!(nexus.stdout_of(job["id"].as_str().unwrap()), "7\n$x\n");
    let id = nexus.ok(&["add", "nice", "-n", "2", "nice"]);
    nexus.ended(&id);
    assert_eq!(nexus.stdout_of(&id), "9\n");
    let id = nexus.ok(&["add", "--", "no-such-program"]);
    assert_eq!(nexus.ended(&id)["reason"], "start-error");
    nexus.ok(&["config", "set", "jobs.runner", "/no/such/runner"]);
    let job = nexus.done("true");
    assert_eq!(job["reason"], "start-error");
    assert!(job["detail"].as_str().unwrap().contains("cannot run /no/such/runner"), "{job}");
}

#[test]
fn limits_are_those_of_the_file() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["config", "set", "jobs.nofile", "321"]);
    nexus.ok(&["config", "set", "jobs.memlock", "4MB"]);
    let job = nexus.done("ulimit -n; ulimit -l");
    assert_eq!(nexus.stdout_of(job["id"].as_str().unwrap()), "321\n4096\n");
    nexus.ok(&["config", "set", "jobs.nofile", "unlimited"]);
    let job = nexus.done("test \"$(ulimit -Sn)\" = \"$(ulimit -Hn)\"");
    assert_eq!(job["state"], "completed");
    // No kernel allows so many, not even to root.
    nexus.ok(&["config", "set", "jobs.nofile", "4000000000"]);
    let job = nexus.done("true");
    assert_eq!((&job["reason"], &job["attempt"]), (&"start-error".into(), &1.into()));
    assert!(job["detail"].as_str().unwrap().contains("cannot set nofile to 4000000000, this machine allows"), "{job}");
}

#[test]
fn an_env_file_lies_between_the_submitter_and_the_job() {
    let nexus = Nexus::fresh(NEXUS).env("CAPTURED", "submitter").env("BOTH", "submitter");
    nexus.start(1);
    let machine = nexus.file("machine.env", "# of this machine\nBOTH=machine\nONE=machine\nTWO='machine'\n");
    let own = nexus.file("own.env", "ONE=own file\nTWO=own file\n");
    nexus.ok(&["config", "set", "jobs.env_file", machine.to_str().unwrap()]);
    let options = ["--env", "TWO=typed", "--env-file", own.to_str().unwrap()];
    let id = nexus.add_with(&options, "echo $CAPTURED, $BOTH, $ONE, $TWO");
    nexus.ended(&id);
    assert_eq!(nexus.stdout_of(&id), "submitter, machine, own file, typed\n");
    // It is read when a job starts.
    std::fs::write(&machine, "export BOTH=later\n").unwrap();
    let again = nexus.ok(&["rerun", &id]);
    nexus.ended(&again);
    assert_eq!(nexus.stdout_of(&again), "submitter, later, own file, typed\n");
}

#[test]
fn an_env_file_that_cannot_be_used_is_named() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let path = nexus.work().join("missing.env");
    nexus.ok(&["config", "set", "jobs.env_file", path.to_str().unwrap()]);
    let job = nexus.done("true");
    assert_eq!((&job["reason"], &job["attempt"]), (&"start-error".into(), &1.into()));
    let why = format!("cannot use the env_file {}: No such file or directory", path.display());
    assert!(job["detail"].as_str().unwrap().contains(&why), "{job}");
    std::fs::write(&path, "A=1\nCUDA_VISIBLE_DEVICES=7\n").unwrap();
    let detail = nexus.done("true")["detail"].to_string();
    assert!(detail.contains("line 2: CUDA_VISIBLE_DEVICES is set by nexus itself"), "{detail}");
}
