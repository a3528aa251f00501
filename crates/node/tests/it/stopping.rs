//! That a stop ends the whole tree, with one grace for all.

use std::time::{Duration, Instant};

use nexus_api::run_dir::{Cause, ExitStatus, RunSpec};
use nexus_node::{Containment, Report};

use crate::stage::{Stage, lives};

/// A job with children of every awkward kind, each of which names itself in a file.
const FAMILY: &str = "trap '' TERM
    sh -c 'trap \"\" TERM HUP; echo $$ > one; while :; do sleep 0.05; done' &
    setsid sh -c 'trap \"\" TERM HUP; echo $$ > two; (sh -c \"echo \\$\\$ > three; exec sleep 600\" &) ; while :; do sleep 0.05; done' &
    sh -c 'echo $$ > four; kill -STOP $$' &
    setsid setsid sh -c 'trap \"\" TERM; echo $$ > five; kill -STOP $$; sleep 600' < /dev/null > /dev/null 2>&1 &
    while :; do sleep 0.05; done";

#[test]
fn the_whole_tree_is_ended() {
    for cgroups in [true, false] {
        let stage = Stage::with_cgroups(cgroups);
        if cgroups && stage.node().containment() == Containment::Session {
            eprintln!("skipped: no cgroups here");
            continue;
        }
        stage.start(RunSpec { grace_ms: 300, ..stage.shell("aaa.1", FAMILY) });
        stage.start_of("aaa.1");
        let family = ["one", "two", "three", "four", "five"].map(|name| stage.process_in(name));
        let begin = Instant::now();
        stage.stop("aaa.1");
        stage.stop("aaa.1");
        let record = stage.end_of("aaa.1");
        assert!(begin.elapsed() >= Duration::from_millis(300), "they had their grace");
        assert_eq!((record.status, record.cause), (ExitStatus::Signaled { signal: 9 }, Cause::Asked));
        assert_eq!(family.map(lives), [false; 5], "cgroups {cgroups}");
        if let Containment::Cgroup(base) = stage.node().containment() {
            crate::stage::wait_until("its group to go", || !base.join("aaa.1").exists());
        }
    }
}

#[test]
fn a_job_that_ends_when_asked_keeps_its_code() {
    let stage = Stage::new();
    let text = "trap 'echo saved; exit 7' TERM; echo $$ > one; while :; do sleep 0.01; done";
    stage.start(stage.shell("aaa.1", text));
    stage.process_in("one");
    stage.stop("aaa.1");
    let record = stage.end_of("aaa.1");
    assert_eq!((record.status, record.cause), (ExitStatus::Exited { code: 7 }, Cause::Asked));
    assert_eq!(stage.log("aaa.1", "stdout.log"), "saved\n");
}

#[test]
fn a_stopped_process_hears_that_it_should_end() {
    let stage = Stage::new();
    stage.start(stage.shell("aaa.1", "echo $$ > one; kill -STOP $$; sleep 600"));
    stage.process_in("one");
    stage.stop("aaa.1");
    let record = stage.end_of("aaa.1");
    assert_eq!(record.status, ExitStatus::Signaled { signal: libc::SIGTERM });
}

#[test]
fn five_stops_at_once_take_one_grace() {
    let stage = Stage::new();
    let runs: Vec<String> = (1..=5).map(|number| format!("aaa.{number}")).collect();
    let stubborn = |run: &String| {
        let text = format!("trap '' TERM; echo $$ > {run}; while :; do sleep 0.05; done");
        RunSpec { grace_ms: 1500, ..stage.shell(run, &text) }
    };
    stage.node().start(runs.iter().map(stubborn).collect(), vec![]);
    for run in &runs {
        stage.process_in(run);
    }
    let begin = Instant::now();
    stage.node().stop(runs.iter().map(|run| stage.place(run)).collect());
    let mut left = runs.len();
    stage.wait_for("five ends", |report| {
        left -= usize::from(matches!(report, Report::Ended { .. }));
        (left == 0).then_some(())
    });
    let took = begin.elapsed();
    assert!((1500..5000).contains(&took.as_millis()), "{took:?}");
}

#[test]
fn what_was_not_asked_for_is_not_recorded_as_asked() {
    let stage = Stage::new();
    // It ends by itself and leaves a child that takes its time; the stop comes then.
    let text = "(trap 'sleep 0.3; exit' TERM; echo $$ > ready; while :; do sleep 0.01; done) &
        while ! [ -s ready ]; do sleep 0.01; done; exit 2";
    stage.start(RunSpec { tty: false, ..stage.shell("aaa.1", text) });
    let pid = stage.start_of("aaa.1");
    crate::stage::wait_until("its end", || nexus_node::processes::stat(pid).is_none_or(|stat| stat.zombie));
    stage.stop("aaa.1");
    let record = stage.end_of("aaa.1");
    assert_eq!((record.status, record.cause), (ExitStatus::Exited { code: 2 }, Cause::Own));
}
