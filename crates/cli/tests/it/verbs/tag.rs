//! `nexus tag`, rightly and wrongly.

use nexus_testkit::{Nexus, until};

use crate::NEXUS;

#[test]
fn jobs_are_tagged_whatever_their_state() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    assert!(nexus.run(&["tag"]).expect_code(0).stderr.contains("no job has a tag"));
    let ended = nexus.add_with(&["--tag", "first"], "exit 3");
    let before = nexus.ended(&ended);
    let held = nexus.add_with(&["--hold"], "true");
    let file = nexus.home().join("jobs.txt");
    until("jobs.txt has the job", || std::fs::read_to_string(&file).ok()?.contains(&held).then_some(()));
    let told = nexus.ok(&["tag", "night", &ended, &held]);
    assert_eq!(told, format!("tagged night {ended}: exit 3\ntagged night {held}: true"));
    assert_eq!(nexus.ok(&["tag"]), "TAG    LIVE  ENDED\nfirst  0     1\nnight  1     1");
    let mut after = nexus.job(&ended);
    assert_eq!(after["tags"], serde_json::json!(["first", "night"]));
    after["tags"] = before["tags"].clone();
    assert_eq!(after, before, "nothing else of an ended job changes");
    until("jobs.txt has it", || std::fs::read_to_string(&file).ok()?.contains("tags=night").then_some(()));
    // Tags go on with a repeated job, and with one that is edited.
    let again = nexus.ok(&["rerun", &ended]);
    assert_eq!(nexus.job(&again)["tags"], after_rerun());
    nexus.ok(&["edit", &held, "--priority", "3"]);
    assert_eq!(nexus.job(&held)["tags"], serde_json::json!(["night"]));

    nexus.ended(&again);
    nexus.kill_service();
    nexus.ok(&["start"]);
    assert_eq!(nexus.json(&["tag", "--json"])[1]["ended"], 2);
    nexus.ok(&["tag", "-d", "night", "tag:night"]);
    assert_eq!(nexus.ok(&["tag"]), "TAG    LIVE  ENDED\nfirst  0     2");
    let log = nexus.service_log();
    assert!(log.contains(&format!("Tag night given to {ended}, {held} by user\n")), "{log}");
}

fn after_rerun() -> serde_json::Value {
    serde_json::json!(["first", "night"])
}

#[test]
fn all_of_the_jobs_or_none() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let held = nexus.add_with(&["--hold"], "true");
    assert!(nexus.fails(1, &["tag", "night", &held, "zzzzzz"]).contains("there is no job zzzzzz"));
    assert!(nexus.fails(1, &["tag", &"x".repeat(201), &held]).contains("printable characters"));
    assert!(nexus.fails(1, &["tag", "-d", "night", &held]).contains("none of these jobs has the tag night"));
    assert!(nexus.fails(2, &["tag", "night"]).contains("nexus ls tag:night"));
    assert!(nexus.fails(2, &["tag", "-d"]).contains("-d needs a tag"));
    assert_eq!(nexus.json(&["tag", "--json"]), serde_json::json!([]));
    assert!(nexus.fails(1, &["tag", "night", "tag:nosuch"]).contains("nothing matches"));
}
