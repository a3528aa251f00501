//! `[gpus]` of the configuration, on GPUs that are read.

use nexus_testkit::{FakeGpu, FakeGpus, Nexus};
use serde_json::json;

use super::{LONG, Outsider, clear, ended, gpus, obstructed, takes_a_job, told_once, two, waits};
use crate::NEXUS;

/// A home whose service has these GPUs and settings.
fn service_with(fake: &FakeGpus, settings: &str) -> Nexus {
    let nexus = Nexus::fresh(NEXUS).fake_gpus(fake);
    nexus.config(&format!("[gpus]\n{settings}\n"));
    nexus.ok(&["start"]);
    nexus
}

#[test]
fn r25_programs_and_users_that_are_ignored_block_no_gpu() {
    let outsider = Outsider::new();
    let used = [FakeGpu::new('a').computes(outsider.pid(), 642)];
    for word in ["sleep", &outsider.user] {
        let fake = FakeGpus::new(&used);
        let nexus = service_with(&fake, &format!("ignore = [\"alice\", \"{word}\"]"));
        takes_a_job(&nexus, 0);
        let told = gpus(&nexus)[0].clone();
        assert!(told["obstacle"].is_null() && told["processes"][0]["foreign"] == false, "{told}");
        // For good, through restarts.
        nexus.ok(&["restart"]);
        takes_a_job(&nexus, 0);
    }
    let fake = FakeGpus::new(&used);
    let nexus = service_with(&fake, "ignore = [\"slee\", \"alice\"]");
    obstructed(&nexus, 0, "in-use");
    let id = nexus.add("true");
    waits(&nexus, &id, "needs 1 GPU: 1 in use outside nexus");
    nexus.ok(&["config", "set", "gpus.ignore", "sleep"]);
    assert_eq!(ended(&nexus, &id)["state"], "completed", "from the change on");
}

#[test]
fn how_small_is_too_small_to_count_is_a_setting() {
    let outsider = Outsider::new();
    let fake = FakeGpus::new(&[FakeGpu::new('a').computes(outsider.pid(), 150)]);
    let nexus = service_with(&fake, "ignore_below = \"100MB\"");
    obstructed(&nexus, 0, "in-use");
    nexus.ok(&["config", "set", "gpus.ignore_below", "151MB"]);
    clear(&nexus, 0);
    takes_a_job(&nexus, 0);
}

#[test]
fn only_the_gpus_that_are_to_be_used_are() {
    let fake = FakeGpus::new(&[FakeGpu::new('a'), FakeGpu::new('b'), FakeGpu::new('c')]);
    let nexus = service_with(&fake, "use = \"0-1\"\npoll = \"1s\"");
    assert!(nexus.ok(&["status"]).ends_with("\nGPU 2 (RTX 3090, 24GB): left out by gpus.use: takes no job"));
    let runs = nexus.add_with(&["--gpus", "2"], LONG);
    assert_eq!(nexus.in_state(&runs, "running")["gpus"], json!([0, 1]));
    let next = nexus.add(LONG);
    waits(&nexus, &next, "needs 1 GPU: 2 held by jobs; GPU 2 is left out by gpus.use");
    nexus.ok(&["config", "set", "gpus.use", "0,2"]);
    assert_eq!(nexus.in_state(&next, "running")["gpus"], json!([2]));
    nexus.in_state(&runs, "running");
    nexus.ok(&["kill", &runs]);
    takes_a_job(&nexus, 0);
    let on_it = nexus.add_with(&["--on", "1"], "true");
    waits(&nexus, &on_it, "needs 1 GPU of 1, there are none; GPU 1 is left out by gpus.use");
    told_once(&nexus, &["] GPU 2 is left out by gpus.use; it takes no job\n", "] GPU 2 is used again\n"]);
}

#[test]
fn preferred_gpus_are_taken_first() {
    let fake = FakeGpus::new(&[FakeGpu::new('a'), FakeGpu::new('b').with("used_mib", 9000), FakeGpu::new('c')]);
    let nexus = service_with(&fake, "prefer = [1]");
    let taken: Vec<_> = (0..3)
        .map(|_| {
            let id = nexus.add(LONG);
            nexus.in_state(&id, "running")["gpus"].clone()
        })
        .collect();
    assert_eq!(taken, [json!([1]), json!([0]), json!([2])]);
}

#[test]
fn jobs_can_see_their_gpus_by_uuid() {
    let fake = FakeGpus::new(&two());
    let nexus = service_with(&fake, "visible = \"uuid\"");
    let id = nexus.add_with(&["--gpus", "2"], "echo $CUDA_VISIBLE_DEVICES $NEXUS_GPU_ID");
    ended(&nexus, &id);
    let expected = format!("{},{} 0,1\n", FakeGpu::uuid_of('a'), FakeGpu::uuid_of('b'));
    assert_eq!(nexus.stdout_of(&id), expected);
}

#[test]
fn a_gpu_is_looked_at_as_often_as_is_said_and_when_a_start_failed() {
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let (first, second) = (service_with(&fake, "poll = \"1s\""), service_with(&fake, "poll = \"1h\""));
    let runs = first.add(LONG);
    first.in_state(&runs, "running");
    // Its reading is from before. It must not try in vain until it gives up.
    let next = second.add(LONG);
    obstructed(&second, 0, "locked");
    first.ok(&["kill", &runs]);
    second.ok(&["config", "set", "gpus.poll", "1s"]);
    assert_eq!(second.in_state(&next, "running")["gpus"], json!([0]));
}
