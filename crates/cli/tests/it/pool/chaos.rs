//! Three machines and everything that can go wrong between them and the service: no job lost, none run twice, every
//! exit code right, every log whole.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nexus_testkit::{Chance, Nexus, SshHosts};

use super::machines::{in_state, pool};

/// Of jobs in `./test`; `NEXUS_TEST_LONG` has more.
const JOBS: usize = 60;
const JOBS_LONG: usize = 300;

/// What is done to a machine or to the service.
fn harm(ssh: &SshHosts, nexus: &Nexus, chance: &mut Chance) {
    let host = 1 + chance.below(3) as usize;
    match chance.below(5) {
        // The line is cut without a word, and found dead later or alive again.
        0 => {
            ssh.freeze(host);
            std::thread::sleep(Duration::from_millis(200 + chance.below(1500)));
            ssh.thaw(host);
        }
        1 => {
            ssh.end_sshd(host);
            std::thread::sleep(Duration::from_millis(chance.below(800)));
            ssh.power_on(host);
        }
        2 => ssh.kill_node(host),
        3 => {
            nexus.kill_service();
            std::thread::sleep(Duration::from_millis(chance.below(500)));
            nexus.ok(&["start"]);
        }
        _ => drop(nexus.ok(&["machine", "resume", "host1", "host2", "host3"])),
    }
}

#[test]
fn nothing_is_lost_or_doubled_while_lines_break() {
    let count = if std::env::var_os("NEXUS_TEST_LONG").is_some() { JOBS_LONG } else { JOBS };
    let (ssh, nexus) = pool(3, 2);
    let ledger = nexus.file("ledger", "");
    let mut jobs: BTreeMap<String, usize> = BTreeMap::new();
    for number in 0..count {
        // One write of a short line is whole.
        let command = format!(
            "echo \"$NEXUS_JOB_ID $NEXUS_ATTEMPT\" >> {}; sleep 0.{}; echo out-{number}; exit {}",
            ledger.display(),
            number % 10,
            number % 4
        );
        jobs.insert(nexus.add(&command), number);
    }
    let mut chance = Chance::from_seed(9);
    let ended = || nexus.json(&["history", "--all", "--json"]).as_array().map_or(0, Vec::len);
    while ended() < count {
        harm(&ssh, &nexus, &mut chance);
        std::thread::sleep(Duration::from_millis(chance.below(1500)));
    }
    for host in ["host1", "host2", "host3"] {
        nexus.ok(&["machine", "resume", host]);
        in_state(&nexus, host, "ready");
    }
    let mut started: BTreeMap<String, usize> = BTreeMap::new();
    for line in fs::read_to_string(&ledger).expect("the ledger").lines() {
        *started.entry(line.to_string()).or_default() += 1;
    }
    assert_eq!(started.len(), count, "each ran");
    assert!(started.values().all(|times| *times == 1), "{started:?}");
    for (id, number) in &jobs {
        let job = nexus.job(id);
        assert_eq!(job["exit_code"], number % 4, "{job}");
        assert_eq!(job["state"], if number % 4 == 0 { "completed" } else { "failed" }, "{job}");
        let log = nexus.run_limited(&["logs", id]).expect_code(0).stdout;
        assert_eq!(log, format!("out-{number}\n"), "{job}");
    }
}

#[test]
fn a_host_that_was_switched_off_loses_its_jobs_and_no_others() {
    let (ssh, nexus) = pool(2, 1);
    let lost = nexus.add_with(&["--machine", "host1"], "sleep 600");
    let again =
        nexus.add_with(&["--machine", "host1", "--retries", "1"], "test $NEXUS_ATTEMPT = 2 && exit 5; sleep 600");
    let other = nexus.add_with(&["--machine", "host2"], "sleep 3; exit 6");
    nexus.in_state(&lost, "running");
    nexus.in_state(&other, "running");
    ssh.power_off(1);
    in_state(&nexus, "host1", "unreachable");
    assert_eq!(nexus.job(&lost)["state"], "running", "nobody knows yet");
    ssh.power_on(1);
    nexus.ok(&["machine", "resume", "host1"]);
    assert_eq!(nexus.ended(&lost)["reason"], "lost");
    nexus.in_state(&again, "running");
    ssh.power_off(1);
    in_state(&nexus, "host1", "unreachable");
    ssh.power_on(1);
    nexus.ok(&["machine", "resume", "host1"]);
    assert_eq!(nexus.ended(&again)["exit_code"], 5, "tried again");
    assert_eq!(nexus.ended(&other)["exit_code"], 6);
}
