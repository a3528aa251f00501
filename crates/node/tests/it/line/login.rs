//! The login environment of a machine, as runs have it.

use nexus_api::run_dir::RunSpec;
use nexus_node::Report;
use nexus_node::processes;

use super::connection::{Connection, Machine, text};
use crate::stage::{id, wait_until};

fn with_login_env(spec: RunSpec, env: &[(&str, &str)]) -> RunSpec {
    let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    RunSpec { login_env: true, env, ..spec }
}

const PRINTS: &str = "echo; echo \"$FROM_RC|$OVER|$SSH_CONNECTION|$HOME|$NODE_ONLY\" > seen; exit 0";

#[test]
fn what_the_login_shell_exports_is_under_what_the_job_says() {
    let machine = Machine::new();
    let profile = "echo 'Welcome to the machine'; printf 'A=1\\0nexus\\n'; echo bad >&2
        export FROM_RC='two
words' OVER=rc; sleep 600 &";
    std::fs::write(machine.path(".profile"), profile).unwrap();
    let mut command = machine.command();
    command.env("SSH_CONNECTION", "1.2.3.4").env("NODE_ONLY", "kept");
    let connection = Connection::open(command);
    connection.run(with_login_env(machine.shell("aaa.1", PRINTS), &[("OVER", "job")]));
    let home = machine.dir.path().display();
    assert_eq!(text(&machine.path("seen")), format!("two\nwords|job||{home}|kept\n"));
    // A run that does not want it has none of it.
    connection.run(machine.shell("bbb.1", PRINTS));
    assert_eq!(text(&machine.path("seen")), "||||\n");
}

#[test]
fn a_login_shell_that_hangs_is_ended_and_runs_start_without_it() {
    let machine = Machine::new();
    let mut command = machine.command();
    command.env("NODE_ONLY", "kept").env("TEST_LOGIN_LIMIT", "2000");
    std::fs::write(
        machine.path(".profile"),
        format!("export FROM_RC=rc; sh -c 'echo $$ > {}; sleep 600'", machine.path("hung").display()),
    )
    .unwrap();
    let connection = Connection::open(command);
    connection.start(with_login_env(machine.shell("aaa.1", PRINTS), &[]));
    assert_eq!(connection.wait_for_login().as_deref(), Some("/bin/sh did not answer in time"));
    connection.end_of("aaa.1");
    assert_eq!(text(&machine.path("seen")), format!("|||{}|kept\n", machine.dir.path().display()));
    let hung: u32 = text(&machine.path("hung")).trim().parse().unwrap();
    wait_until("the shell's child to end", || processes::stat(hung).is_none_or(|stat| stat.zombie));
}

#[test]
fn a_shell_that_cannot_be_asked_is_told_of_and_sh_stands_in() {
    let machine = Machine::new();
    std::fs::write(machine.path(".profile"), "export FROM_RC=rc").unwrap();
    let connection = machine.connect_for(10_000, "/bin/false");
    assert_eq!(connection.wait_for_login(), None);
    connection.run(with_login_env(machine.shell("aaa.1", PRINTS), &[]));
    assert!(text(&machine.path("seen")).starts_with("rc|"), "{}", text(&machine.path("seen")));
}

#[test]
fn a_run_that_waits_for_it_is_on_its_way_and_can_be_stopped() {
    let machine = Machine::new();
    let hang = format!("while ! [ -e {} ]; do sleep 0.01; done", machine.path("logged-in").display());
    std::fs::write(machine.path(".profile"), hang).unwrap();
    let connection = machine.connect();
    for run in ["aaa.1", "bbb.1"] {
        connection
            .start(with_login_env(machine.shell(run, &format!("echo {run} >> ran")), &[("PATH", "/usr/bin:/bin")]));
        connection.observe(machine.place(run));
    }
    connection.stop(machine.place("aaa.1"));
    connection.report("claim", |report| match report {
        Report::Claimed { run } => (*run == id("aaa.1")).then_some(()),
        other => panic!("{other:?}"),
    });
    std::fs::write(machine.path("logged-in"), "").unwrap();
    connection.end_of("bbb.1");
    connection.ping(1);
    assert_eq!(text(&machine.path("ran")), "bbb.1\n");
}
