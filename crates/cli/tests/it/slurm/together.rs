//! All at once: many jobs, all kinds of ends, and everything around them goes and comes back.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use nexus_testkit::{Cluster, until};
use serde_json::Value;

use super::{Execution, Hpc};

/// What is to become of a job, and the GPUs that it asks for.
#[derive(Clone, Copy, Debug)]
struct Plan {
    end: End,
    gpus: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Completes,
    Fails(i64),
    KilledRunning,
    KilledWaiting,
    TimesOut,
}

type Plans = BTreeMap<String, Plan>;

#[test]
fn every_job_ends_as_it_should_and_exactly_once() {
    let count = if std::env::var_os("NEXUS_TEST_LONG").is_some() { 500 } else { 60 };
    let Some(hpc) = Hpc::start(Cluster::default(), &[]) else { return };
    let mut plans = Plans::new();
    let held = hold_all_gpus(&hpc, &mut plans);
    queue_the_others(&hpc, &mut plans, count);
    assert_eq!(plans.len(), count);
    kill_some(&hpc, &plans, &held);
    stir(&hpc);
    for (id, plan) in &plans {
        check_end(&hpc, id, *plan);
    }
    check_gpus(&hpc, &plans);
    let history = hpc.nexus.json(&["history", "--all", "--json"]);
    let history: Vec<&str> = history.as_array().expect("a list").iter().filter_map(|job| job["id"].as_str()).collect();
    assert_eq!(history.len(), count);
    assert_eq!(history.iter().collect::<BTreeSet<_>>().len(), count, "each is there once");
    // Slurm keeps no memory of tasks that were cancelled before they began.
    let waiting = plans.values().filter(|plan| plan.end == End::KilledWaiting).count();
    let numbers = hpc.numbers();
    assert!((count - waiting..=count).contains(&numbers.len()), "{} of {count}: {numbers:?}", numbers.len());
}

/// Three jobs that have all GPUs of all nodes, and one that has no time.
fn hold_all_gpus(hpc: &Hpc, plans: &mut Plans) -> Vec<String> {
    let held = hpc.add_many(3, &["--gpus", "2"], "hold", 0);
    for (id, end) in held.iter().zip([End::KilledRunning, End::KilledRunning, End::Completes]) {
        plans.insert(id.clone(), Plan { end, gpus: 2 });
    }
    let id = hpc.add(&["--gpus", "0", "--time", "3s"], "never", 0);
    plans.insert(id, Plan { end: End::TimesOut, gpus: 0 });
    for id in &held {
        hpc.begun(id, 1);
    }
    held
}

fn queue_the_others(hpc: &Hpc, plans: &mut Plans, count: usize) {
    let mut add = |number: usize, options: &[&str], code: i32, plan: Plan| {
        let ids = hpc.add_many(number, options, "-", code);
        plans.extend(ids.into_iter().map(|id| (id, plan)));
    };
    let plan = |gpus: usize, end: End| Plan { end, gpus };
    add(3, &["--gpus", "2", "--name", "victim"], 0, plan(2, End::KilledWaiting));
    add(1, &["--gpus", "2", "--cpus", "2", "--name", "victim"], 0, plan(2, End::KilledWaiting));
    let rest = count - 8;
    let (fails, alone, wide) = (rest / 8, rest / 8, rest / 10);
    add(fails, &[], 4, plan(1, End::Fails(4)));
    add(fails, &["--gpus", "0"], 200, plan(0, End::Fails(200)));
    add(wide, &["--gpus", "2"], 0, plan(2, End::Completes));
    for number in 0..alone {
        // Nobody else asks for as much: it goes out alone.
        let memory = format!("{}M", 100 + number);
        add(1, &["--ram", &memory], 0, plan(1, End::Completes));
    }
    let many = rest - 2 * fails - alone - wide;
    add(many / 2, &[], 0, plan(1, End::Completes));
    add(many - many / 2, &["--gpus", "0"], 0, plan(0, End::Completes));
}

/// Those that wait while there is no GPU, then those that have them.
fn kill_some(hpc: &Hpc, plans: &Plans, held: &[String]) {
    let meant = |end: End| plans.iter().filter(move |(_, plan)| plan.end == end).map(|(id, _)| id.as_str());
    for id in meant(End::KilledWaiting) {
        hpc.pending(id);
    }
    let waiting: Vec<&str> = ["kill", "-y"].into_iter().chain(meant(End::KilledWaiting)).collect();
    hpc.nexus.run_limited(&waiting).expect_code(0);
    let running: Vec<&str> = ["kill", "-y"].into_iter().chain(meant(End::KilledRunning)).collect();
    hpc.nexus.run_limited(&running).expect_code(0);
    assert_eq!(hpc.ran(&held[2]).len(), 1);
    hpc.open("hold");
}

/// What jobs run on and who looks after them goes and comes back.
fn stir(hpc: &Hpc) {
    hpc.slurm.restart_controller();
    hpc.slurm.drain("n2", "a test");
    hpc.replace_service();
    // What has begun there ends in peace.
    until("n2 is empty", || (hpc.slurm.node_state("n2") == "drained").then_some(()));
    hpc.slurm.resume("n2");
    hpc.replace_service();
}

fn check_end(hpc: &Hpc, id: &str, plan: Plan) {
    let job = hpc.ended(id);
    let (state, reason, code, times) = match plan.end {
        End::Completes => ("completed", None, Some(0), 1),
        End::Fails(code) => ("failed", Some("exit"), Some(code), 1),
        End::KilledRunning => ("killed", Some("user"), None, 1),
        End::KilledWaiting => ("killed", Some("user"), None, 0),
        End::TimesOut => ("failed", Some("timeout"), None, 1),
    };
    assert_eq!(job["state"], state, "{plan:?} {}", hpc.about(id));
    assert!(reason.is_none_or(|reason| job["reason"] == reason), "{plan:?} {}", hpc.about(id));
    assert!(code.is_none_or(|code| job["exit_code"] == code), "{plan:?} {}", hpc.about(id));
    let runs = job["runs"].as_array().expect("its runs").iter().filter(|run| !is_slurms_own(run)).count();
    assert_eq!(runs, 1, "{}", hpc.about(id));
    hpc.assert_ran(id, times);
}

/// A controller that is restarted may never launch what it had placed, and then takes the node for failed: nothing began,
/// and the job goes out once more.
fn is_slurms_own(run: &Value) -> bool {
    let error = run["outcome"]["error"].as_str().unwrap_or_default();
    run["started_at"].is_null() && error.starts_with("its node failed before it began")
}

/// Each saw what Slurm gave it and nothing else, and nobody had the same at the same time.
fn check_gpus(hpc: &Hpc, plans: &Plans) {
    type Spans = Vec<(u64, u64, String)>;
    let mut had: BTreeMap<(String, String), Spans> = BTreeMap::new();
    for (id, plan) in plans {
        for execution in hpc.ran(id) {
            let Execution { node, visible, given, ordinal, begin_ms, .. } = &execution;
            assert_eq!((visible, visible), (given, ordinal), "{id}: {execution:?}");
            let gpus: Vec<&str> = visible.split(',').filter(|gpu| !gpu.is_empty()).collect();
            assert_eq!(gpus.len(), plan.gpus, "{id}: {execution:?}");
            let end_ms = execution.end_ms.unwrap_or_else(|| ended_ms(hpc, id));
            for gpu in gpus {
                had.entry((node.clone(), gpu.to_string())).or_default().push((*begin_ms, end_ms, id.clone()));
            }
        }
    }
    assert_eq!(had.len(), 6, "all six were used: {:?}", had.keys());
    for (gpu, mut spans) in had {
        spans.sort();
        for pair in spans.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "two at once on {gpu:?}: {pair:?}");
        }
    }
}

/// Of one that was ended before it could write that down.
fn ended_ms(hpc: &Hpc, id: &str) -> u64 {
    let ended: Timestamp = hpc.nexus.job(id)["ended_at"].as_str().expect("a time").parse().expect("a time");
    u64::try_from(ended.as_millisecond()).expect("after 1970")
}
