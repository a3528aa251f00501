//! `start`: the service and its simulated GPUs.

use nexus_testkit::Nexus;

use crate::NEXUS;

fn gpus(nexus: &Nexus) -> usize {
    nexus.json(&["status", "--json"])["machines"][0]["gpus"].as_array().unwrap().len()
}

#[test]
fn a_service_that_runs_is_a_success() {
    let nexus = Nexus::fresh(NEXUS);
    let said = nexus.run(&["start", "--simulate-gpus", "1"]).expect_code(0).stderr;
    let pid = nexus.service_pid();
    let home = nexus.home();
    assert_eq!(said, format!("service started (pid {pid}) in {}\n", home.display()));
    let said = nexus.run(&["start"]).expect_code(0).stderr;
    assert_eq!(said, format!("service runs already (pid {pid}) in {}\n", home.display()));
    let mode = |path: &std::path::Path| {
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777
    };
    assert_eq!(mode(&home), 0o700);
    assert_eq!(mode(&home.join("nexus.sock")), 0o600);
    assert!(home.join("config.toml").exists());
}

#[test]
fn simulated_gpus_are_remembered_until_there_are_none() {
    let nexus = Nexus::with_gpus(NEXUS, 3);
    assert_eq!(gpus(&nexus), 3);
    nexus.ok(&["restart"]);
    assert_eq!(gpus(&nexus), 3, "through a restart");
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(gpus(&nexus), 3, "through a crash");
    nexus.ok(&["stop"]);
    nexus.add_with(&["--hold"], "true");
    assert_eq!(gpus(&nexus), 3, "through an automatic start");
    nexus.ok(&["start", "--simulate-gpus", "5"]);
    assert_eq!(gpus(&nexus), 5, "while it runs");
    nexus.ok(&["start", "--simulate-gpus", "0"]);
    // What doctor thinks of the GPUs depends on whether the driver, or the lack of one, has been looked at by now.
    let simulated = || {
        let told: serde_json::Value = serde_json::from_str(&nexus.run(&["doctor", "--json"]).stdout).unwrap();
        told["service"]["simulated_gpus"].clone()
    };
    assert_eq!(simulated(), 0);
    nexus.ok(&["restart"]);
    assert_eq!(simulated(), 0);
}

#[test]
fn fewer_gpus_leave_a_running_job_alone() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let id = nexus.add_with(&["--on", "1"], "until [ -e go ]; do sleep 0.02; done");
    nexus.in_state(&id, "running");
    nexus.ok(&["start", "--simulate-gpus", "1"]);
    assert_eq!(nexus.job(&id)["state"], "running");
    nexus.file("go", "");
    assert_eq!(nexus.ended(&id)["state"], "completed");
}

#[test]
fn two_starts_at_once_make_one_service() {
    let nexus = Nexus::fresh(NEXUS);
    let children: Vec<_> = (0..6).map(|_| nexus.command(&["start"]).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(nexus.service_log().matches("Service started").count(), 1);
}

#[test]
fn too_many_gpus_are_a_usage_error() {
    let nexus = Nexus::fresh(NEXUS);
    let said = nexus.fails(2, &["start", "--simulate-gpus", "129"]);
    assert!(said.starts_with("error: --simulate-gpus cannot be 129\nit can be 0 to 128\n"), "{said}");
}
