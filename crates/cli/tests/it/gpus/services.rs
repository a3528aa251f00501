//! Two services on one machine, of one user or of two, never give a GPU to two jobs.

use std::os::unix::fs::PermissionsExt;

use nexus_node::gpu::locks::{Hold, Locks};
use nexus_testkit::{FakeGpu, FakeGpus, Nexus};
use serde_json::json;

use super::{LONG, clear, ended, obstructed, service, told_once, waits};
use crate::NEXUS;
use crate::bad_days::is_root;

/// A job of `first` holds the only GPU; one of `second` waits for it and says for whom.
#[track_caller]
fn one_after_the_other(first: &Nexus, second: &Nexus, user: &str) {
    let runs = first.add(LONG);
    first.in_state(&runs, "running");
    let seen = obstructed(second, 0, "locked");
    assert_eq!(seen["obstacle"]["user"], user, "{seen}");
    assert_eq!(seen["obstacle"]["pid"], json!(first.shim(&runs)), "{seen}");
    let status = second.ok(&["status"]);
    let line = format!("\nGPU 0 (RTX 3090, 24GB): in use outside nexus (nexus of {user})");
    assert!(status.ends_with(&line), "{status}");
    assert!(second.ok(&["gpus"]).contains(&format!("in use outside nexus (nexus of {user})")));
    let next = second.add(LONG);
    waits(second, &next, "needs 1 GPU: 1 in use outside nexus");
    assert!(!first.ok(&["status"]).contains("outside nexus"), "its own lock is none of others");
    first.ok(&["kill", &runs]);
    assert_eq!(second.in_state(&next, "running")["gpus"], json!([0]));
    told_once(second, &[&format!("] GPU 0 in use outside nexus (nexus of {user})\n"), "] GPU 0 is free again\n"]);
    second.ok(&["kill", &next]);
}

#[test]
fn the_second_waits_for_the_first() {
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let (first, second) = (service(&fake), service(&fake));
    let user = super::Outsider::new().user.clone();
    one_after_the_other(&first, &second, &user);
}

#[test]
fn a_gpu_taken_since_the_last_reading_is_no_ones_failure() {
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let (first, second) = (service(&fake), service(&fake));
    // At the same moment, before either can have read what the other did.
    let command = "mkdir only && sleep 0.2 && rmdir only";
    let work = first.work();
    let place = work.to_str().expect("a name of letters");
    let ids: Vec<(&Nexus, String)> =
        [&first, &second, &first, &second].map(|nexus| (nexus, nexus.add_with(&["--cwd", place], command))).into();
    for (nexus, id) in ids {
        let ended = ended(nexus, &id);
        assert_eq!(ended["state"], "completed", "{ended}");
        assert_eq!(ended["retries"], 0, "{ended}");
    }
    clear(&first, 0);
}

/// Nothing is polled: the service must notice by itself that the lock is free.
#[test]
fn a_lock_that_another_holds_is_no_attempt_and_its_release_starts_the_job() {
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    let nexus = Nexus::fresh(NEXUS).fake_gpus(&fake);
    nexus.config("[gpus]\npoll = \"1h\"\n[jobs]\nstart_attempts = 1\n");
    nexus.ok(&["start"]);
    clear(&nexus, 0);
    // After the reading: the service learns of it when its run does not get the lock.
    let held = Locks::at(fake.locks()).hold(&[FakeGpu::uuid_of('a')], Hold::Alone).expect("nobody else has it");
    let id = nexus.add("echo this is attempt $NEXUS_ATTEMPT after ${NEXUS_LAST_FAILURE-none}");
    let seen = obstructed(&nexus, 0, "locked");
    assert_eq!(seen["obstacle"]["pid"], json!(std::process::id()), "{seen}");
    waits(&nexus, &id, "needs 1 GPU: 1 in use outside nexus");
    drop(held);
    let job = ended(&nexus, &id);
    assert_eq!((&job["state"], &job["retries"]), (&json!("completed"), &json!(0)), "{job}");
    assert_eq!(nexus.ok(&["logs", &id]), "this is attempt 1 after none");
    let (user, pid) = (super::Outsider::new().user.clone(), std::process::id());
    let held = format!("GPU GPU-aaaaaaaa… is held by {user}'s nexus (pid {pid})");
    told_once(&nexus, &[&format!("] Job {id} did not start on GPU 0: {held}; it keeps its place in the queue\n")]);
}

/// Without turns the one whose job ends has the next one on the GPU before anybody else knows that it is free.
#[test]
fn a_user_with_a_queue_starves_nobody() {
    if !is_root() {
        return;
    }
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    std::fs::create_dir(fake.locks()).unwrap();
    std::fs::set_permissions(fake.locks(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let root = service(&fake);
    let nobody = Nexus::fresh(NEXUS).of_user(65534).fake_gpus(&fake);
    nobody.ok(&["start"]);
    root.ok(&["add", "-x", "40", "sleep 0.3"]);
    let ids: Vec<String> = (0..3).map(|_| nobody.add("sleep 0.3")).collect();
    for id in ids {
        let job = ended(&nobody, &id);
        assert_eq!((&job["state"], &job["retries"]), (&json!("completed"), &json!(0)), "{job}");
    }
    let status: serde_json::Value = serde_json::from_str(&root.ok(&["status", "--json"])).expect("JSON");
    assert!(status["pending"].as_u64().is_some_and(|pending| pending > 20), "{status}");
    assert_eq!(status["failed"], json!(0), "{status}");
}

#[test]
fn a_trap_at_a_locks_name_is_told() {
    let fake = FakeGpus::new(&[FakeGpu::new('a'), FakeGpu::new('b')]);
    Locks::at(fake.locks()).check().expect("a folder of our own");
    let trap = fake.locks().join(FakeGpu::uuid_of('a'));
    std::fs::create_dir(&trap).unwrap();
    let nexus = service(&fake);
    let id = nexus.add("true");
    assert_eq!(ended(&nexus, &id)["state"], "completed");
    let user = super::Outsider::new().user.clone();
    let error = format!("the GPU is not locked: {} is a folder of user {user}, not a file", trap.display());
    let others = "services of other users may start jobs on it at the same time";
    told_once(&nexus, &[&format!("] GPU 0: {error}; {others}\n"), &format!("] Job {id} starts on GPU 0: {error}\n")]);
    assert!(nexus.ok(&["gpus"]).contains("(not locked: nexus doctor)"));
    let found = nexus.run_limited(&["doctor"]);
    assert!(found.code != 0 && found.stdout.contains(&format!("GPU 0: {error}")), "{found}");
    std::fs::remove_dir(&trap).unwrap();
    let again = "] GPU 0 can be locked again\n";
    nexus_testkit::until("it is told", || nexus.service_log().contains(again).then_some(()));
}

#[test]
fn services_of_two_users_keep_off_each_others_gpus() {
    if !is_root() {
        return;
    }
    let fake = FakeGpus::new(&[FakeGpu::new('a')]);
    std::fs::create_dir(fake.locks()).unwrap();
    std::fs::set_permissions(fake.locks(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    let root = service(&fake);
    let nobody = Nexus::fresh(NEXUS).of_user(65534).fake_gpus(&fake);
    nobody.ok(&["start"]);
    one_after_the_other(&nobody, &root, "nobody");
    clear(&nobody, 0);
    one_after_the_other(&root, &nobody, "root");
}
