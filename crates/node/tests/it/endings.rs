//! How runs end by themselves, and what is recorded of it.

use nexus_api::run_dir::{Cause, EXIT, ExitRecord, ExitStatus, RunSpec, Warning};
use std::time::{Duration, Instant};

use crate::stage::{Stage, exited, lives};

#[test]
fn codes_and_signals_are_recorded() {
    let stage = Stage::new();
    let table = [
        ("aaa.1", "exit 0", exited(0)),
        ("bbb.1", "exit 1", exited(1)),
        ("ccc.1", "kill -9 $$", ExitStatus::Signaled { signal: 9 }),
        ("ddd.1", "exit 255", exited(255)),
    ];
    for (run, text, status) in table {
        let record = stage.run(stage.shell(run, text));
        assert_eq!((&record.status, record.cause), (&status, Cause::Own), "{text}");
        assert!(record.pid.is_some() && record.started_at_ms.unwrap() <= record.ended_at_ms);
        assert_eq!(record.lost_output_bytes, 0);
        let path = stage.dir(run).join(EXIT);
        crate::stage::wait_until("record", || path.exists());
        let written: ExitRecord = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(written, record);
    }
}

#[test]
fn what_cannot_be_started_says_why() {
    let stage = Stage::new();
    std::fs::write(stage.home.path().join("plain"), "text").unwrap();
    let long = "x".repeat(200_000);
    let missing_cwd = RunSpec { cwd: "/no/such/place".into(), ..stage.spec("bbb.1", &["true"]) };
    let bad_copy = RunSpec { out: Some("no/such/folder/file".into()), ..stage.spec("fff.1", &["true"]) };
    let table = [
        (stage.spec("aaa.1", &["nosuch"]), "cannot run nosuch: No such file or directory".to_owned()),
        (missing_cwd, "cannot enter /no/such/place: No such file or directory".into()),
        (stage.spec("ccc.1", &["./plain"]), "cannot run ./plain: Permission denied".into()),
        (stage.spec("ddd.1", &["true", &long]), "cannot run true: Argument list too long".into()),
        (stage.spec("eee.1", &[]), "there is no command to run".into()),
        (
            bad_copy,
            format!(
                "cannot write to {}: No such file or directory",
                stage.home.path().join("no/such/folder/file").display()
            ),
        ),
    ];
    for (spec, error) in table {
        let record = stage.run(spec);
        assert_eq!(record.status, ExitStatus::StartError { error, code: None });
    }
}

#[test]
fn a_shell_that_finds_no_program_is_a_start_error() {
    let stage = Stage::new();
    let record = stage.run(stage.shell("aaa.1", "nosuch-program"));
    let error = "the shell could not run it (exit 127)".to_owned();
    assert_eq!(record.status, ExitStatus::StartError { error, code: Some(127) });
    let record = stage.run(stage.spec("bbb.1", &["sh", "-c", "exit 127"]));
    assert_eq!(record.status, exited(127), "not a shell command of the user's");
}

#[test]
fn a_script_without_a_shell_named_is_run_by_sh() {
    use std::os::unix::fs::PermissionsExt;
    let stage = Stage::new();
    let script = stage.home.path().join("script");
    std::fs::write(&script, "exit $1\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(stage.run(stage.spec("aaa.1", &["./script", "7"])).status, exited(7));
}

#[test]
fn children_left_behind_are_ended_before_the_end_is_told() {
    for cgroups in [true, false] {
        let stage = Stage::with_cgroups(cgroups);
        let text = "(trap 'echo bye > last; exit' TERM; sh -c 'echo $PPID' > left; while :; do sleep 0.01; done) &
            while ! [ -s left ]; do sleep 0.01; done; echo ready > ready; while ! [ -e go ]; do sleep 0.01; done; exit 5";
        stage.start(RunSpec { tty: false, ..stage.shell("aaa.1", text) });
        stage.wait_for_file("ready");
        let left = stage.process_in("left");
        std::fs::write(stage.home.path().join("go"), "").unwrap();
        let record = stage.end_of("aaa.1");
        assert_eq!((record.status, record.cause), (exited(5), Cause::Own));
        assert!(!lives(left));
        assert_eq!(stage.wait_for_file("last"), "bye\n", "it was asked, not killed");
    }
}

#[test]
fn a_time_limit_warns_then_ends() {
    let stage = Stage::new();
    // The outer shell does not handle USR1 and must live on; the inner one does.
    let text = "trap '' HUP; sh -c 'trap \"echo warned >> said\" USR1; trap \"echo ended >> said; exit 3\" TERM
            while :; do sleep 0.01; done'; echo outer-went-on >> said; exit 4";
    let spec = RunSpec {
        time_limit_ms: Some(1500),
        warning: Some(Warning { signal: libc::SIGUSR1, before_ms: 900 }),
        ..stage.shell("aaa.1", text)
    };
    let begin = Instant::now();
    let record = stage.run(spec);
    assert!(begin.elapsed() >= Duration::from_millis(1500));
    assert_eq!(record.cause, Cause::Timeout);
    assert_eq!(record.status, ExitStatus::Signaled { signal: libc::SIGTERM });
    let said = stage.wait_for_file("said");
    assert_eq!(said, "warned\nended\n");
}

#[test]
fn a_warning_that_nobody_handles_goes_to_all() {
    let stage = Stage::new();
    let spec = RunSpec {
        time_limit_ms: Some(60_000),
        // Earlier than the start: it comes at once.
        warning: Some(Warning { signal: libc::SIGUSR2, before_ms: 100_000 }),
        ..stage.spec("aaa.1", &["sleep", "60"])
    };
    let record = stage.run(spec);
    assert_eq!((record.status, record.cause), (ExitStatus::Signaled { signal: libc::SIGUSR2 }, Cause::Own));
}

#[test]
fn a_job_that_ignores_its_limit_is_killed() {
    let stage = Stage::new();
    let spec = RunSpec {
        time_limit_ms: Some(200),
        grace_ms: 200,
        ..stage.shell("aaa.1", "trap '' TERM; while :; do sleep 0.05; done")
    };
    let record = stage.run(spec);
    assert_eq!((record.status, record.cause), (ExitStatus::Signaled { signal: 9 }, Cause::Timeout));
}

#[test]
fn a_full_disk_costs_output_and_not_the_job() {
    let stage = Stage::new();
    let disk = stage.home.path().join("logs");
    std::fs::create_dir(&disk).unwrap();
    let mount = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(&disk).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: only root can make a small disk");
        return;
    }
    let text = "head -c 3000000 /dev/zero; echo error >&2; rm logs/filler; exit 3";
    std::fs::write(disk.join("filler"), vec![0; 100_000]).unwrap();
    let record = stage.run(stage.shell("aaa.1", text));
    let path = stage.dir("aaa.1").join(EXIT);
    crate::stage::wait_until("record", || path.exists());
    let kept = std::fs::metadata(stage.dir("aaa.1").join("stdout.log")).unwrap().len();
    std::process::Command::new("umount").arg(&disk).status().unwrap();
    assert_eq!(record.status, exited(3));
    assert!(kept > 500_000 && record.lost_output_bytes >= 3_000_000 - kept, "{kept} {record:?}");
}
