//! A cluster whose login node is another host.

use nexus_testkit::{Nexus, Slurm, SshHosts, until};

use super::{Hpc, small};
use crate::NEXUS;

/// The host's logins have Slurm's programs and know the cluster.
fn log_in_to(ssh: &SshHosts, slurm: &Slurm) {
    let programs = slurm.path_with_counting().into_string().expect("a path of text");
    ssh.set_env(1, &format!("SLURM_CONF={} PATH={programs}", slurm.conf().display()));
}

fn over_ssh() -> Option<(SshHosts, Hpc)> {
    // The service's own host knows nothing of Slurm.
    let hpc = Hpc::of(Nexus::fresh(NEXUS), Slurm::start(small(1, 2))?);
    let ssh = SshHosts::start(1);
    log_in_to(&ssh, &hpc.slurm);
    hpc.nexus.start(0);
    ssh.known_to(&hpc.nexus);
    hpc.join(&["--ssh", "host1", "--home", &ssh.home(1).display().to_string(), "--class", "hpc"]);
    Some((ssh, hpc))
}

#[test]
fn jobs_run_are_killed_and_leave_their_logs() {
    let Some((ssh, hpc)) = over_ssh() else { return };
    let told = hpc.nexus.ok(&["machine", "show", "hpc"]);
    assert!(told.contains("host1") && told.contains("2 x fake"), "{told}");
    let ids = hpc.add_many(3, &[], "go", 5);
    let here = format!("{}", ssh.home(1).display());
    let says = hpc.nexus.add_with(&["--class", "hpc", "--gpus", "0"], "echo $NEXUS_RUN_DIR; echo err >&2; exit 3");
    assert_eq!(hpc.ends(&says, "failed")["exit_code"], 3);
    let log = hpc.nexus.run_limited(&["logs", &says]).expect_code(0).stdout;
    assert!(log.starts_with(&here) && log.ends_with("err\n"), "{log}");
    let running = until("two of them run", || {
        let running: Vec<&String> = ids.iter().filter(|id| !hpc.ran(id).is_empty()).collect();
        (running.len() == 2).then_some(running)
    });
    let waits = ids.iter().find(|id| !running.contains(id)).expect("a third");
    hpc.pending(waits);
    hpc.nexus.run_limited(&["kill", "-y", waits, running[0]]).expect_code(0);
    for id in [waits, running[0]] {
        assert_eq!(hpc.ends(id, "killed")["reason"], "user", "{}", hpc.about(id));
    }
    hpc.open("go");
    assert_eq!(hpc.ends(running[1], "failed")["exit_code"], 5);
    hpc.assert_ran(waits, 0);
    for id in running {
        hpc.assert_ran(id, 1);
    }
    assert_eq!(hpc.submissions().len(), 2);
}

#[test]
fn a_lost_line_to_the_login_node_ends_nothing() {
    let Some((ssh, hpc)) = over_ssh() else { return };
    let (ends, waits) = (hpc.add(&["--gpus", "2"], "go", 4), hpc.add(&["--gpus", "2"], "-", 0));
    hpc.begun(&ends, 1);
    hpc.pending(&waits);
    ssh.end_sshd(1);
    until("it is unreachable", || {
        let told = hpc.nexus.json(&["machine", "show", "hpc", "--json"]);
        (told["pool"]["state"] == "unreachable").then_some(())
    });
    // Slurm goes on with both.
    hpc.open("go");
    until("both are through", || hpc.ran(&waits).first().and_then(|execution| execution.end_ms));
    ssh.power_on(1);
    assert_eq!(hpc.ends(&ends, "failed")["exit_code"], 4);
    hpc.ends(&waits, "completed");
    for id in [&ends, &waits] {
        hpc.assert_ran(id, 1);
    }
}
