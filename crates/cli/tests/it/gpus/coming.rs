//! GPUs that come, go, move and are cut into instances while the service runs or rests.

use nexus_testkit::{FakeGpu, FakeGpus, Nexus, until};
use serde_json::{Value, json};

use super::{LONG, clear, ended, gpus, obstructed, service, takes_a_job, told_once, two, waits};

#[test]
fn a_gpu_that_appears_is_used_and_one_that_vanishes_is_not() {
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let nexus = service(&fake);
    let runs = nexus.add(LONG);
    nexus.in_state(&runs, "running");
    let wide = nexus.add_with(&["--gpus", "2"], "true");
    waits(&nexus, &wide, "needs 2 GPUs, there is 1");
    let next = nexus.add(LONG);
    fake.set(&two());
    assert_eq!(nexus.in_state(&next, "running")["gpus"], json!([1]));
    waits(&nexus, &wide, "needs 2 GPUs: 2 held by jobs");

    fake.set(&[FakeGpu::new('a')]);
    obstructed(&nexus, 1, "unreadable");
    let status = nexus.ok(&["status"]);
    assert!(status.contains(&format!("\n  Job ID: {next}\n")), "its job goes on\n{status}");
    nexus.ok(&["kill", &next]);
    waits(&nexus, &wide, "needs 2 GPUs: 1 held by jobs, 1 unreadable");
    nexus.ok(&["kill", &runs]);
    takes_a_job(&nexus, 0);
    fake.set(&two());
    assert_eq!(ended(&nexus, &wide)["state"], "completed");
    let gone = "] GPU 1 cannot be read: it is no longer there; it takes no job\n";
    told_once(&nexus, &["] Found 1 GPU\n", "] GPU 1 appeared\n", gone, "] GPU 1 is back\n"]);
}

#[test]
fn a_gpu_in_mig_mode_is_shown_and_takes_no_job() {
    let cut = FakeGpu::new('a').with("mig", true);
    let fake = FakeGpus::new(std::slice::from_ref(&cut));
    let nexus = service(&fake);
    assert!(nexus.ok(&["status"]).ends_with("\nGPU 0 (RTX 3090, 24GB): in MIG mode: takes no job"));
    assert_eq!(gpus(&nexus)[0]["obstacle"], json!({ "kind": "mig" }));
    let added = nexus.run(&["add", "true"]).expect_code(0);
    let reason = "needs 1 GPU, there are none; GPU 0 is in MIG mode";
    assert!(added.stderr.contains(&format!("the job cannot start here: it {reason}")), "{added}");
    let first = added.stdout.trim_end().to_string();
    let told = nexus.job(&first)["waiting"].clone();
    assert_eq!((&told["kind"], &told["mig"]), (&json!("no-such-gpus"), &json!([0])), "{told}");

    fake.set(&[cut, FakeGpu::new('b')]);
    assert_eq!(ended(&nexus, &first)["gpus"], json!([1]));
    let on_it = nexus.add_with(&["--on", "0"], "true");
    waits(&nexus, &on_it, "needs 1 GPU of 0, there are none; GPU 0 is in MIG mode");
    fake.set(&two());
    assert_eq!(ended(&nexus, &on_it)["state"], "completed");
    told_once(&nexus, &["] GPU 0 is in MIG mode; it takes no job\n", "] GPU 0 is out of MIG mode\n"]);
}

/// UUIDs in the order of their numbers, and which are paused.
fn paused(nexus: &Nexus) -> Vec<(String, bool)> {
    let told = |gpu: &Value| (gpu["uuid"].as_str().unwrap().to_string(), gpu["paused"] == true);
    gpus(nexus).iter().map(told).collect()
}

#[test]
fn a_pause_goes_with_the_card_when_its_number_changes() {
    let (a, b) = (FakeGpu::uuid_of('a'), FakeGpu::uuid_of('b'));
    let fake = FakeGpus::new(&two());
    let nexus = service(&fake);
    nexus.ok(&["pause", "1"]);
    nexus.ok(&["stop"]);
    fake.set(&[FakeGpu::new('b'), FakeGpu::new('a')]);
    nexus.ok(&["start"]);
    assert_eq!(paused(&nexus), [(b.clone(), true), (a.clone(), false)]);
    takes_a_job(&nexus, 1);
    let on_it = nexus.add_with(&["--on", "0"], "true");
    waits(&nexus, &on_it, "needs 1 GPU of 0: 1 paused");
    // While the service runs too, though nobody knows of a driver that does it.
    fake.set(&[FakeGpu::new('c'), FakeGpu::new('a'), FakeGpu::new('b')]);
    until("the new one is used", || (nexus.job(&on_it)["state"] == "completed").then_some(()));
    assert_eq!(paused(&nexus), [(FakeGpu::uuid_of('c'), false), (a, false), (b, true)]);
    nexus.ok(&["resume", "2"]);
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert!(paused(&nexus).iter().all(|(_, paused)| !paused));
    clear(&nexus, 2);
}

#[test]
fn a_pause_outlives_the_absence_of_its_card() {
    let fake = FakeGpus::new(&two());
    let nexus = service(&fake);
    nexus.ok(&["pause", "1"]);
    fake.set(&[FakeGpu::new('a')]);
    nexus.ok(&["restart"]);
    assert_eq!(paused(&nexus).len(), 1);
    fake.set(&two());
    until("it is there again", || (paused(&nexus).len() == 2).then_some(()));
    assert_eq!(paused(&nexus)[1], (FakeGpu::uuid_of('b'), true));
}
