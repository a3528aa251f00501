//! Jobs on machines over ssh end while the service is away: the next service must see each end.
//!
//! The GPUs of these machines are read, not simulated: a machine whose first reading came before the line was known to be up
//! counted as reached, what was asked of it was lost, and its jobs stayed `running` without end.

use std::fs;
use std::thread;
use std::time::Duration;

use nexus_testkit::{Nexus, SshHosts, until};

use super::machines::in_state;
use crate::NEXUS;

/// With `NEXUS_TEST_LONG`: so many services at once, on a machine each, and so many absences of each.
const HOMES: usize = 20;
const ABSENCES: usize = 10;

/// Waits until it may end, then fails with 9.
fn job(nexus: &Nexus, host: usize, name: &str) -> (String, std::path::PathBuf) {
    let may_end = nexus.work().join(name);
    let command = format!("while ! [ -e {} ]; do sleep 0.05; done; exit 9", may_end.display());
    let id = nexus.add_with(&["--machine", &format!("host{host}"), "--gpus", "0"], &command);
    nexus.in_state(&id, "running");
    (id, may_end)
}

fn ends_there(ssh: &SshHosts, host: usize, id: &str) {
    let nodes = ssh.home(host).join("nodes");
    until("it has ended there", || {
        let nodes = fs::read_dir(&nodes).ok()?.flatten();
        nodes.map(|node| node.path().join(format!("logs/job_{id}/exit.json"))).find(|record| record.exists())
    });
}

fn with_host(ssh: &SshHosts, host: usize) -> Nexus {
    let nexus = Nexus::with_gpus(NEXUS, 0);
    ssh.known_to(&nexus);
    ssh.try_add(&nexus, host, &[]).expect_code(0);
    nexus
}

#[test]
fn an_end_in_an_absence_is_seen_though_gpus_are_read_before_the_line_is_up() {
    let ssh = SshHosts::start(1);
    // What the service says to the node takes half a second: the node's first reading is there long before its answer.
    ssh.configure(1, "ForceCommand (sleep 0.5; cat) | eval \"$SSH_ORIGINAL_COMMAND\"\n");
    let nexus = with_host(&ssh, 1);
    let (ends_away, may_end) = job(&nexus, 1, "first");
    let (is_killed, _) = job(&nexus, 1, "second");
    nexus.kill_service();
    fs::write(may_end, "").expect("a file of the test");
    ends_there(&ssh, 1, &ends_away);
    nexus.ok(&["start"]);
    assert_eq!(nexus.ended(&ends_away)["exit_code"], 9);
    nexus.ok(&["kill", &is_killed]);
    assert_eq!(nexus.ended(&is_killed)["reason"], "user");
}

#[test]
fn no_end_is_lost_in_200_absences() {
    if std::env::var_os("NEXUS_TEST_LONG").is_none() {
        return eprintln!("skipped: only with NEXUS_TEST_LONG");
    }
    let ssh = SshHosts::start(HOMES);
    thread::scope(|scope| {
        for host in 1..=HOMES {
            let ssh = &ssh;
            scope.spawn(move || {
                let nexus = with_host(ssh, host);
                for absence in 0..ABSENCES {
                    be_away(ssh, &nexus, host, absence);
                }
            });
        }
    });
}

fn be_away(ssh: &SshHosts, nexus: &Nexus, host: usize, absence: usize) {
    let (id, may_end) = job(nexus, host, &absence.to_string());
    match absence % 2 {
        0 => nexus.kill_service(),
        _ => drop(nexus.ok(&["stop", "--keep-jobs"])),
    }
    fs::write(may_end, "").expect("a file of the test");
    // Before, while and after the next service begins.
    match absence % 3 {
        0 => ends_there(ssh, host, &id),
        1 => thread::sleep(Duration::from_millis(100)),
        _ => {}
    }
    nexus.ok(&["start"]);
    let ended = nexus.ended(&id);
    assert_eq!(ended["exit_code"], 9, "absence {absence} of host{host}: {ended:#}\n{}", nexus.service_log());
    in_state(nexus, &format!("host{host}"), "ready");
}
