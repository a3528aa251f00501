//! Faults of sweeps: attempts without end, variables that shrink them, jobs that start in the place of killed ones.

use nexus_testkit::Nexus;

use crate::NEXUS;

fn ids(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}

fn states(nexus: &Nexus, name: &str) -> serde_json::Value {
    nexus.json(&["sweep", "show", name, "--json"])["states"].clone()
}

#[test]
fn r11_a_failing_job_of_a_sweep_is_tried_once() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let command = "echo {a} >> tried; exit 1";
    let all = ids(&nexus.ok(&["sweep", command, "a=1..4", "--stop-after", "0", "--name", "m"]));
    for id in &all {
        assert_eq!(nexus.ended(id)["attempt"], 1);
    }
    let tried = std::fs::read_to_string(nexus.work().join("tried")).unwrap();
    assert_eq!(tried.lines().count(), 4, "{tried}");
    assert_eq!(states(&nexus, "m")["failed"], 4);
}

#[test]
fn r12_a_variable_of_the_same_name_changes_nothing_of_a_sweep() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.set_variable("a", "secret-value");
    nexus.set_variable("TOKEN", "hush-hush");
    let all = ids(&nexus.ok(&["sweep", "echo {a}-{b}-{TOKEN}", "a=1,2,3", "b=x,y", "--name", "m"]));
    assert_eq!(all.len(), 6);
    let said: Vec<String> = all
        .iter()
        .map(|id| {
            assert_eq!(nexus.ended(id)["state"], "completed");
            nexus.ok(&["logs", id]).trim_end().to_string()
        })
        .collect();
    assert_eq!(said, ["1-x", "1-y", "2-x", "2-y", "3-x", "3-y"].map(|point| format!("{point}-hush-hush")));
    assert!(nexus.ok(&["history"]).contains("echo 3-y-{TOKEN}"));
}

#[test]
fn r34_killing_a_sweep_lets_nothing_of_it_start_instead() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let all = ids(&nexus.ok(&["sweep", "touch began-{a}; sleep 1000", "a=1..4", "--name", "m"]));
    nexus.in_state(&all[0], "running");
    let said = nexus.run(&["kill", "-y", "sweep:m"]).expect_code(0).stderr;
    assert!(said.contains("3 jobs of it waited and are held: nexus release sweep:m"), "{said}");
    // Another job has the GPU; were one of the sweep to start, it would have been first.
    let other = nexus.add("true");
    assert_eq!(nexus.ended(&other)["state"], "completed");
    assert_eq!(
        states(&nexus, "m"),
        serde_json::json!({
            "held": 3, "queued": 0, "running": 0, "copying": 0, "completed": 0, "failed": 0, "killed": 1
        })
    );
    assert!(!nexus.work().join("began-2").exists());
    nexus.ok(&["cancel", "-y", "sweep:m"]);
    assert_eq!(states(&nexus, "m")["killed"], 4);
}

#[test]
fn r34_cancelling_a_sweep_is_one_step() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let all = ids(&nexus.ok(&["sweep", "touch began-{a}; sleep 1000", "a=1..6", "--name", "m"]));
    nexus.in_state(&all[1], "running");
    nexus.ok(&["cancel", "-y", "sweep:m"]);
    let other = nexus.add("true");
    assert_eq!(nexus.ended(&other)["state"], "completed");
    for number in 3..=6 {
        assert!(!nexus.work().join(format!("began-{number}")).exists(), "{number} began");
    }
    assert_eq!(states(&nexus, "m")["killed"], 6);
}
