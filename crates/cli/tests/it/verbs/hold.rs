//! `hold` and `release`.

use nexus_testkit::Nexus;

use super::LONG;
use crate::NEXUS;

#[test]
fn a_held_job_waits_until_it_is_released() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let blocker = nexus.add(LONG);
    let id = nexus.add("true");
    assert_eq!(nexus.ok(&["hold", &id]), format!("held {id}: true"));
    nexus.ok(&["hold", &id]);
    nexus.ok(&["kill", &blocker]);
    assert_eq!(nexus.done("true")["state"], "completed", "others pass it");
    assert_eq!(nexus.job(&id)["waiting"]["kind"], "held");
    assert_eq!(nexus.ok(&["release", &id]), format!("released {id}: true"));
    assert_eq!(nexus.ended(&id)["state"], "completed");
    for verb in ["hold", "release"] {
        let said = nexus.fails(1, &[verb, &id]);
        assert!(
            said.ends_with(&format!("\nit has ended: completed\nhint: nexus rerun {id} runs it again\n")),
            "{said}"
        );
    }
}

#[test]
fn a_group_is_held_and_released_without_a_question() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    nexus.ok(&["add", "--tag", "t", "-x", "3", "true"]);
    assert_eq!(nexus.ok(&["hold", "tag:t"]).lines().count(), 3);
    assert_eq!(nexus.json(&["status", "--json"])["held"], 3);
    assert_eq!(nexus.ok(&["release", "tag:t"]).lines().count(), 3);
    assert_eq!(nexus.json(&["status", "--json"])["held"], 0);
}
