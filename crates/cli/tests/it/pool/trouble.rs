//! Machines that cannot be had: each says why and what to do, and the others do not notice.

use std::fs;

use nexus_testkit::{Nexus, SshHosts};

use super::machines::{in_state, machine};
use crate::NEXUS;

/// The first of two hosts is well.
fn one_of_two() -> (SshHosts, Nexus) {
    let (ssh, nexus) = (SshHosts::start(2), Nexus::with_gpus(NEXUS, 0));
    ssh.known_to(&nexus);
    ssh.add_to(&nexus, 1, 1);
    (ssh, nexus)
}

/// Nothing stays of a machine that could not be added, and the others go on.
fn refused(ssh: &SshHosts, nexus: &Nexus, more: &[&str]) -> String {
    let told = ssh.try_add(nexus, 2, more).expect_code(1).stderr;
    assert!(told.contains("host2 was not added") && told.contains("hint:"), "{told}");
    assert_eq!(nexus.json(&["machine", "ls", "--json"]).as_array().unwrap().len(), 2, "{told}");
    assert_eq!(nexus.done("true")["machine"], "host1");
    told
}

#[test]
fn a_host_key_that_is_not_known() {
    let (ssh, nexus) = one_of_two();
    fs::write(ssh.known_hosts(), fs::read_to_string(ssh.known_hosts()).unwrap().lines().next().unwrap()).unwrap();
    let told = refused(&ssh, &nexus, &[]);
    assert!(told.contains("its host key is not known here") && told.contains("ssh host2 once by hand"), "{told}");
}

#[test]
fn a_user_that_is_not_let_in() {
    let (ssh, nexus) = one_of_two();
    let told = nexus.run_limited(&["machine", "add", "nobody-here@host2", "--name", "two"]).expect_code(1).stderr;
    assert!(told.contains("it does not let this user in") && told.contains("ssh-copy-id nobody-here@host2"), "{told}");
    assert_eq!(nexus.json(&["machine", "ls", "--json"]).as_array().unwrap().len(), 2);
    drop(ssh);
}

#[test]
fn a_home_that_cannot_be_written() {
    let (ssh, nexus) = one_of_two();
    let told = nexus.run_limited(&["machine", "add", "host2", "--home", "/proc/nexus"]).expect_code(1).stderr;
    assert!(told.contains("the folder for nexus cannot be made there") && told.contains("--home DIR"), "{told}");
    drop(ssh);
}

#[test]
fn a_host_that_is_off_is_not_stormed() {
    let (ssh, nexus) = one_of_two();
    ssh.end_sshd(2);
    let told = refused(&ssh, &nexus, &[]);
    assert!(told.contains("nothing answers there"), "{told}");
    ssh.try_add(&nexus, 2, &["--no-wait"]).expect_code(0);
    let off = in_state(&nexus, "host2", "unreachable");
    assert!(off["pool"]["again_at"].is_string() && off["pool"]["hint"].is_string(), "{off}");
    let told = nexus.service_log().matches("Machine host2 unreachable").count();
    assert!(told <= 2, "told once, not at every call");
    // Jobs that name it wait, and say why.
    let id = nexus.add_with(&["--machine", "host2"], "true");
    assert_eq!(nexus.job(&id)["waiting"]["unreachable"], 1);
    ssh.power_on(2);
    nexus.ok(&["machine", "resume", "host2"]);
    in_state(&nexus, "host2", "ready");
}

#[test]
fn an_rc_file_that_prints_is_passed_over() {
    let (ssh, nexus) = one_of_two();
    let folder = ssh.folder(2);
    let config = fs::read_to_string(folder.join("sshd_config")).unwrap();
    let forced = "ForceCommand printf 'Welcome!\\nno newline'; eval \"$SSH_ORIGINAL_COMMAND\"\n";
    fs::write(folder.join("sshd_config"), config + forced).unwrap();
    ssh.end_sshd(2);
    ssh.power_on(2);
    ssh.add_to(&nexus, 2, 1);
    assert_eq!(nexus.ended(&nexus.add_with(&["--machine", "host2"], "true"))["state"], "completed");
}

#[test]
fn addresses_that_are_none_are_refused() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for address in ["-oProxyCommand=touch x", "a b", "box;id", "$(id)", "", "@box", "box:x", "-J", "box\nid"] {
        let told = nexus.run_limited(&["machine", "add", "--", address]).expect_code(1).stderr;
        assert!(told.contains("address cannot be") && told.contains("[user@]host[:port]"), "{address:?}: {told}");
    }
    assert!(!nexus.work().join("x").exists());
    assert!(nexus.fails(1, &["machine", "add", "box", "--name", "1"]).contains("name cannot be"));
    assert_eq!(machine(&nexus, "local")["pool"]["state"], "ready");
}
