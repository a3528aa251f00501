//! Sharing by what is read: memory that jobs have taken, memory that others have, the peak of each run.

use nexus_testkit::{FakeGpu, FakeGpus, Nexus, until};
use serde_json::json;

use super::{LONG, Outsider, ended, gpus, service, waits};

const MEMORY: u64 = 24_576;

/// The process of a job that runs.
fn pid(nexus: &Nexus, id: &str) -> u32 {
    nexus.in_state(id, "running")["pid"].as_u64().expect("a pid") as u32
}

/// Waits until a reading shows so much memory in use.
#[track_caller]
fn read(nexus: &Nexus, index: usize, used_mib: u64) {
    until(&format!("{used_mib} MiB of GPU {index} are in use"), || {
        (gpus(nexus)[index]["used_mib"] == used_mib).then_some(())
    });
}

#[test]
fn what_was_promised_and_is_not_taken_yet_is_held_back() {
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let nexus = service(&fake);
    let first = nexus.add_with(&["--vram", "10G"], LONG);
    let process = pid(&nexus, &first);
    // Nobody has taken anything, and yet there is room for one more of that size alone.
    let second = nexus.add_with(&["--vram", "10G"], LONG);
    nexus.in_state(&second, "running");
    let third = nexus.add_with(&["--vram", "10G"], LONG);
    waits(&nexus, &third, "needs 10G of 1 GPU: 1 full (3.9G left)");
    nexus.ok(&["kill", &second]);
    nexus.in_state(&third, "running");
    nexus.ok(&["kill", &third]);

    // One that takes more than it said leaves less than the books have.
    fake.set(&[FakeGpu::new('a').computes(process, 20_000)]);
    read(&nexus, 0, 20_001);
    let fourth = nexus.add_with(&["--vram", "10G"], LONG);
    waits(&nexus, &fourth, "needs 10G of 1 GPU: 1 short of memory (4.4G left)");
    assert_eq!(nexus.job(&fourth)["waiting"]["low_memory"], 1);
    // Who does not say how much it needs keeps off a GPU that is nearly full.
    let half = nexus.add_with(&["--gpus", "0.5"], LONG);
    waits(&nexus, &half, "needs 0.5 GPU: 1 short of memory (4.4G left)");
    assert!(nexus.ok(&["why", &half]).contains("nexus config set gpus.mem_threshold 1"));
    nexus.ok(&["config", "set", "gpus.mem_threshold", "0.9"]);
    nexus.in_state(&half, "running");
}

#[test]
fn others_on_a_gpu_keep_whole_jobs_off_it_and_shares_go_by_what_is_left() {
    let somebody = Outsider::new();
    let other = |load: u64| FakeGpu::new('a').computes(somebody.pid(), 14_000).with("load", load);
    let fake = FakeGpus::new(&[other(10)]);
    let nexus = service(&fake);
    let whole = nexus.add(LONG);
    waits(&nexus, &whole, "needs 1 GPU: 1 in use outside nexus");
    let fits = nexus.add_with(&["--vram", "8G"], LONG);
    nexus.in_state(&fits, "running");
    let more = nexus.add_with(&["--vram", "8G"], LONG);
    waits(&nexus, &more, "needs 8G of 1 GPU: 1 short of memory (2.3G left)");
    nexus.ok(&["kill", &fits]);
    nexus.in_state(&more, "running");

    fake.set(&[other(95)]);
    until("its load is read", || (gpus(&nexus)[0]["load_percent"] == 95).then_some(()));
    let small = nexus.add_with(&["--vram", "1G"], LONG);
    waits(&nexus, &small, "needs 1G of 1 GPU: 1 too busy to share");
    assert!(nexus.ok(&["why", &small]).contains("gpus.load_threshold"), "{}", nexus.ok(&["why", &small]));
    nexus.ok(&["config", "set", "gpus.load_threshold", "1"]);
    nexus.in_state(&small, "running");
}

#[test]
fn the_peak_of_a_run_is_kept_and_learned_from() {
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let nexus = service(&fake);
    let train = |seed: u32| format!("exec sleep 100{seed}");
    let first = nexus.add_with(&["--vram", "auto"], &train(1));
    let process = pid(&nexus, &first);
    // Nothing is known of it: it has the GPU alone.
    let second = nexus.add_with(&["--vram", "auto"], &train(2));
    waits(&nexus, &second, "needs 1 GPU: 1 held by jobs");
    for (mib, most) in [(3_000, 3_008), (6_000, 6_016), (2_000, 6_016)] {
        fake.set(&[FakeGpu::new('a').computes(process, mib)]);
        until(&format!("{most} MiB are its peak"), || {
            let seen = nexus.json(&["show", &first, "--json"])["runs"][0]["peak_vram_mib"] == most;
            (seen && gpus(&nexus)[0]["used_mib"] == mib + 1).then_some(())
        });
    }
    assert!(nexus.ok(&["show", &first]).contains("at most 5.9G on a GPU"), "{}", nexus.ok(&["show", &first]));
    nexus.ok(&["restart"]);
    fake.set(&[FakeGpu::new('a')]);
    nexus.ok(&["kill", &first]);
    // From now on each asks for the peak and a tenth.
    let third = nexus.add_with(&["--vram", "auto"], &train(3));
    for id in [&second, &third] {
        nexus.in_state(id, "running");
        assert_eq!(nexus.json(&["show", id, "--json"])["runs"][0]["vram_mib"], 6618, "{id}");
    }
    nexus.ok(&["restart"]);
    let fourth = nexus.add_with(&["--vram", "auto"], &train(4));
    nexus.in_state(&fourth, "running");
    let fifth = nexus.add_with(&["--vram", "auto"], &train(5));
    // The card itself has a little, and that is counted in steps of 64 MiB.
    let left = MEMORY - 64 - 3 * 6618;
    assert_eq!(nexus.job(&fifth)["waiting"]["most_free_mib"], json!(left));
    let another = nexus.add_with(&["--vram", "auto"], "true");
    waits(&nexus, &another, "needs 1 GPU: 1 shared by jobs");
    nexus.ok(&["cancel", &second, &third, &fourth, &fifth, "-y"]);
    assert_eq!(ended(&nexus, &another)["state"], "completed");
}
