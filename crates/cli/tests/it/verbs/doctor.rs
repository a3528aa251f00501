//! `doctor`: is all well.

use nexus_testkit::Nexus;

use crate::NEXUS;

#[test]
fn with_a_service() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let told = nexus.json(&["doctor", "--json"]);
    assert_eq!(told["service"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(told["service"]["pid"].as_u64(), nexus.service_process().map(u64::from));
    let seen = nexus.ok(&["doctor"]);
    assert!(seen.starts_with("ok    service "), "{seen}");
    assert!(seen.contains("2 GPUs, 2 simulated"), "{seen}");
    let enforced = told["service"]["memory_limits"].as_bool().expect("a service knows it");
    assert_eq!(seen.contains("a job that exceeds its own limit is ended"), enforced, "{seen}");
    assert!(seen.contains("nexus start --simulate-gpus 0 ends the simulation"), "{seen}");
}

#[test]
fn without_a_service_it_still_looks_and_makes_nothing() {
    let nexus = Nexus::fresh(NEXUS);
    let told = nexus.json(&["doctor", "--json"]);
    assert!(told["service"].is_null());
    let names: Vec<&str> =
        told["checks"].as_array().unwrap().iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in ["service", "home", "disk", "database", "containment", "memory", "bash", "screen", "ssh", "gpus"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let seen = nexus.ok(&["doctor"]);
    assert!(seen.starts_with("warn  service      none runs in this home\n                   nexus start\n"), "{seen}");
    assert!(!nexus.home().exists());
}

#[test]
fn something_bad_is_exit_1() {
    let nexus = Nexus::fresh(NEXUS);
    let file = nexus.file("file", "");
    let nexus = nexus.env("NEXUS_HOME", file.join("home").to_str().unwrap());
    let seen = nexus.run(&["doctor"]).expect_code(1).stdout;
    assert!(
        seen.contains(&format!("bad   home         {} is not a folder\n", file.display()))
            && seen.contains("set NEXUS_HOME to another folder"),
        "{seen}"
    );
}
