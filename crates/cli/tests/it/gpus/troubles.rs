//! REGRESSIONS 2: cards that fail take no job until they return. All else goes on, and the service answers.

use nexus_testkit::{FakeGpu, FakeGpus, Nexus};
use serde_json::json;

use super::{LONG, ended, gpus, obstructed, service, takes_a_job, told_once, two, waits};

#[track_caller]
fn names_the_error(nexus: &Nexus, index: usize, words: &str) {
    let error = gpus(nexus)[index]["obstacle"]["error"].to_string();
    assert!(error.contains(words), "{error}");
    let status = nexus.run_limited(&["status"]).expect_code(0).stdout;
    let line = format!("GPU {index} (RTX 3090, 24GB): cannot be read: ");
    assert!(status.lines().any(|one| one.starts_with(&line) && one.ends_with("; takes no job")), "{status}");
}

#[test]
fn r02_a_card_that_hangs_takes_no_job_and_the_other_does() {
    let fake = FakeGpus::new(&two());
    let nexus = service(&fake);
    fake.set(&[FakeGpu::new('a').fault("hang"), FakeGpu::new('b')]);
    obstructed(&nexus, 0, "unreadable");
    names_the_error(&nexus, 0, "has not answered for");
    let on_it = nexus.add_with(&["--on", "0"], "true");
    for _ in 0..3 {
        takes_a_job(&nexus, 1);
    }
    let told = waits(&nexus, &on_it, "needs 1 GPU of 0: 1 unreadable");
    assert_eq!((&told["unreadable"], &told["free"]), (&json!(1), &json!(0)));
    assert!(nexus.ok(&["why", &on_it]).contains("nexus doctor"));
    fake.set(&two());
    assert_eq!(ended(&nexus, &on_it)["state"], "completed");
    let begins = "] GPU 0 cannot be read: the driver has not answered for ";
    told_once(&nexus, &["] Found 2 GPUs\n", begins, "] GPU 0 is back\n"]);
}

#[test]
fn r02_a_card_that_hangs_from_the_start_is_waited_for() {
    let fake = FakeGpus::new(&[FakeGpu::new('a').fault("hang"), FakeGpu::new('b')]);
    let nexus = service(&fake);
    let (any, on_it) = (nexus.add("true"), nexus.add_with(&["--on", "0"], "true"));
    assert_eq!(ended(&nexus, &any)["gpus"], json!([1]));
    waits(&nexus, &on_it, "needs 1 GPU of 0: 1 unreadable");
    fake.set(&two());
    assert_eq!(ended(&nexus, &on_it)["state"], "completed");
    let log = nexus.service_log();
    assert!(log.contains("] GPU 0 is back\n"), "{log}");
    assert!(!log.contains("gone") && !log.contains("appeared"), "it was there all the time\n{log}");
}

#[test]
fn a_job_on_a_card_that_is_lost_runs_to_its_end() {
    let fake = FakeGpus::new(&two());
    let nexus = service(&fake);
    let runs = nexus.add("until [ -e gate ]; do sleep 0.02; done; exit 3");
    assert_eq!(nexus.in_state(&runs, "running")["gpus"], json!([0]));
    fake.set(&[FakeGpu::new('a').fault("lost"), FakeGpu::new('b')]);
    obstructed(&nexus, 0, "unreadable");
    let status = nexus.ok(&["status"]);
    assert!(status.contains(&format!("\n  Job ID: {runs}\n")), "{status}");
    assert!(status.contains("\n  cannot be read: it fell off the bus"), "{status}");
    takes_a_job(&nexus, 1);
    let next = nexus.add_with(&["--on", "0"], LONG);
    waits(&nexus, &next, "needs 1 GPU of 0: 1 held by jobs");

    // Neither does the job of a service that finds the card so.
    nexus.ok(&["restart"]);
    obstructed(&nexus, 0, "unreadable");
    nexus.in_state(&runs, "running");
    nexus.file("gate", "");
    let ended = ended(&nexus, &runs);
    assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("failed"), &json!(3)), "{ended}");
    waits(&nexus, &next, "needs 1 GPU of 0: 1 unreadable");
    fake.set(&two());
    assert_eq!(nexus.in_state(&next, "running")["gpus"], json!([0]));
}

#[test]
fn a_card_that_is_lost_returns() {
    let fake = FakeGpus::new(&two());
    let nexus = service(&fake);
    for (fault, words) in [("lost", "fell off the bus"), ("unknown", "unknown error")] {
        fake.set(&[FakeGpu::new('a'), FakeGpu::new('b').fault(fault)]);
        obstructed(&nexus, 1, "unreadable");
        names_the_error(&nexus, 1, words);
        takes_a_job(&nexus, 0);
        let wide = nexus.add_with(&["--gpus", "2"], "true");
        waits(&nexus, &wide, "needs 2 GPUs: 1 free, 1 unreadable");
        fake.set(&two());
        assert_eq!(ended(&nexus, &wide)["state"], "completed");
    }
    assert_eq!(nexus.service_log().matches("] GPU 1 is back\n").count(), 2, "{}", nexus.service_log());
}
