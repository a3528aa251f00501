//! `first`: to the head of the queue.

use nexus_testkit::Nexus;

use crate::NEXUS;

#[test]
fn several_go_first_in_their_order() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let ids: Vec<String> = (0..4).map(|number| nexus.add(&format!("true {number}"))).collect();
    assert_eq!(nexus.ok(&["first", &ids[3]]), format!("put first {}: true 3", ids[3]));
    let order = || -> Vec<String> {
        let jobs = nexus.json(&["queue", "--json"]);
        jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(order(), [&ids[3], &ids[0], &ids[1], &ids[2]].map(String::clone));
    nexus.ok(&["first", &ids[1], &ids[2]]);
    assert_eq!(order(), [&ids[1], &ids[2], &ids[3], &ids[0]].map(String::clone));
}

#[test]
fn it_passes_every_priority() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.add_with(&["--priority", "-100"], "true");
    let id = nexus.add_with(&["--priority", "100"], "true");
    nexus.ok(&["first", &id]);
    assert_eq!(nexus.job(&id)["position"], 1);
}
