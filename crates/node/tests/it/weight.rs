//! What a shim weighs and whether it sleeps.

use nexus_api::run_dir::RunSpec;
use nexus_node::inspect::{Seen, inspect};

use crate::stage::Stage;

const RUNS: u32 = 100;

fn shims(stage: &Stage) -> Vec<u32> {
    let shim = |number| match inspect(&stage.dir(&format!("aaa.{number}"))) {
        Ok(Seen::Alive(started)) => started.shim_pid,
        other => panic!("{other:?}"),
    };
    (1..=RUNS).map(shim).collect()
}

fn number_after(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_hundred_shims_are_small_and_asleep() {
    let stage = Stage::new();
    let spec = |number| {
        let mut spec = stage.spec(&format!("aaa.{number}"), &["sleep", "600"]);
        spec.env.extend((0..100).map(|index| (format!("VARIABLE_{index}"), "x".repeat(200))));
        RunSpec { grace_ms: 1000, ..spec }
    };
    stage.node().start((1..=RUNS).map(spec).collect(), vec![]);
    for number in 1..=RUNS {
        let path = stage.dir(&format!("aaa.{number}"));
        crate::stage::wait_until("all to run", || matches!(inspect(&path), Ok(Seen::Alive(_))));
    }
    let read = |pid: u32, name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let shims = shims(&stage);
    let kilobytes: u64 = shims.iter().map(|pid| number_after(&read(*pid, "smaps_rollup"), "Pss:")).sum();
    let mean = kilobytes / u64::from(RUNS);
    eprintln!("mean PSS of {RUNS} shims: {mean} kB");
    assert!(mean <= 3 << 10, "{mean} kB");
    let title = read(shims[0], "cmdline");
    assert_eq!(title.trim_end_matches('\0'), "nexus: job aaa.1");
    assert_eq!(read(shims[0], "comm"), "nexus-shim\n");
    let wakeups =
        || shims.iter().map(|pid| number_after(&read(*pid, "status"), "voluntary_ctxt_switches:")).sum::<u64>();
    crate::stage::wait_until("them to sleep", || {
        let before = wakeups();
        std::thread::sleep(std::time::Duration::from_millis(300));
        wakeups() == before
    });
    stage.node().stop((1..=RUNS).map(|number| stage.place(&format!("aaa.{number}"))).collect());
    let mut left = RUNS;
    stage.wait_for("all ends", |report| {
        left -= u32::from(matches!(report, nexus_node::Report::Ended { .. }));
        (left == 0).then_some(())
    });
}
