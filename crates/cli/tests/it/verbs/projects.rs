//! `--project`: links to jobs, and filters of every listing.

use std::path::PathBuf;

use nexus_testkit::Nexus;
use serde_json::Value;

use crate::NEXUS;

fn ids(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_string()).collect()
}

#[test]
fn jobs_of_a_project_are_linked_by_their_names() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let link = |path: &str| nexus.home().join("logs/by-project").join(path);
    let named = nexus.add_with(&["--project", "paper", "--name", "train"], "true");
    let unnamed = nexus.add_with(&["--project", "../x/..", "--retries", "1"], "exit 1");
    let plain = nexus.add_with(&["--name", "train"], "true");
    for id in [&named, &unnamed, &plain] {
        nexus.ended(id);
    }
    let folder = |id: &str| nexus.home().join(format!("logs/job_{id}")).canonicalize().unwrap();
    let named_link = link(&format!("paper/train/{named}"));
    assert_eq!(named_link.canonicalize().unwrap(), folder(&named));
    assert_eq!(std::fs::read_link(&named_link).unwrap(), PathBuf::from(format!("../../../job_{named}")));
    assert_eq!(link(&format!("_._x_../unnamed/{unnamed}")).canonicalize().unwrap(), folder(&unnamed));
    let projects = || std::fs::read_dir(link("")).map_or(0, |entries| entries.count());
    assert_eq!(projects(), 2, "no project, no link");

    nexus.ok(&["forget", "-y", &named]);
    assert!(!link("paper").exists(), "the folders of a last link go with it");
    assert_eq!(projects(), 1);
    nexus.ok(&["forget", "-y", &unnamed]);
    assert!(!link("").exists());
}

#[test]
fn listings_are_narrowed_by_project_tag_and_name() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let ended = |options: &[&str]| {
        let id = nexus.add_with(options, "true");
        nexus.ended(&id);
        id
    };
    let one = ended(&["--project", "p", "--name", "n", "--tag", "t"]);
    let two = ended(&["--project", "p", "--tag", "it's"]);
    let three = ended(&["--name", "n"]);
    let held = nexus.add_with(&["--hold", "--project", "p", "--name", "n"], "true");
    let other = nexus.add_with(&["--hold", "--tag", "t"], "true");
    for (options, expected) in [
        (&["--project", "p"][..], vec![&one, &two]),
        (&["--name", "n"], vec![&one, &three]),
        (&["--tag", "it's"], vec![&two]),
        (&["--project", "p", "--name", "n", "--tag", "t"], vec![&one]),
        (&["--project", "' OR 1 --"], vec![]),
        (&["--sweep", "nosuch"], vec![]),
    ] {
        let found = nexus.json(&[&["history", "--json"], options].concat());
        assert_eq!(ids(&found).iter().collect::<Vec<_>>(), expected, "{options:?}");
        let csv = nexus.ok(&[&["export", "--format", "csv", "--state", "ended"], options].concat());
        let first: Vec<&str> = csv.lines().skip(1).map(|line| &line[..line.find(',').unwrap()]).collect();
        assert_eq!(first, expected, "{options:?}");
    }
    for verb in ["queue", "ls"] {
        assert_eq!(ids(&nexus.json(&[verb, "--json", "--project", "p"])), [held.as_str()]);
        assert_eq!(ids(&nexus.json(&[verb, "--json", "--tag", "t"])), [other.as_str()]);
        assert_eq!(ids(&nexus.json(&[verb, "--json", "--tag", "t", "--name", "n"])), Vec::<String>::new());
    }
    assert_eq!(ids(&nexus.json(&["ls", "--json", "/true/", "--project", "p"])), [held.as_str()]);
    // The newest of those that fit, not those that fit of the newest.
    assert_eq!(ids(&nexus.json(&["history", "--json", "-n", "1", "--tag", "t"])), [one]);
    // Places in the queue are those of the whole.
    assert_eq!(nexus.json(&["queue", "--json", "--tag", "t"])[0]["position"], 2);
    assert!(nexus.run(&["queue", "--project", "x"]).expect_code(0).stderr.contains("no such jobs pending"));
    assert!(nexus.run(&["history", "--project", "x"]).expect_code(0).stderr.contains("no such job has ended"));
}
