//! Selectors, wherever an id is taken.

use nexus_testkit::Nexus;

use super::LONG;
use crate::NEXUS;

#[test]
fn every_form_finds_its_jobs() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let first = nexus.add_with(&["--name", "n", "--project", "p", "--on", "1"], LONG);
    nexus.in_state(&first, "running");
    let ids: Vec<String> =
        (0..3).map(|number| nexus.add_with(&["--hold", "--tag", "t"], &format!("echo {number}"))).collect();
    let of = |selectors: &[&str]| -> Vec<String> {
        let jobs = nexus.json(&[&["ls", "--json"], selectors].concat());
        jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_string()).collect()
    };
    for one in [first.as_str(), "1", "local:1", "name:n", "project:p", "/^sleep/"] {
        assert_eq!(of(&[one]), [first.as_str()], "{one}");
    }
    assert_eq!(of(&["last"]), [ids[2].as_str()]);
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    for many in ["last:3", "tag:t", "/echo [0-9]/"] {
        assert_eq!(sorted(of(&[many])), sorted(ids.clone()), "{many}");
    }
    assert_eq!(of(&["tag:t", "last", &first]).len(), 4, "each job once");
}

#[test]
fn what_finds_nothing_says_so() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for (selector, error) in [
        ("zzzzzz", "error: there is no job zzzzzz\n"),
        ("0", "error: no job is on GPU 0\n"),
        ("last", "error: there is no job yet\n"),
        ("local:0", "error: nothing matches local:0\n"),
        ("box:0", "error: nothing matches box:0\n"),
        ("tag:x", "error: nothing matches tag:x\n"),
        ("name:x", "error: nothing matches name:x\n"),
        ("project:x", "error: nothing matches project:x\n"),
        ("/x/", "error: nothing matches /x/\n"),
    ] {
        for verb in
            ["kill", "remove", "cancel", "hold", "release", "first", "forget", "rerun", "wait", "show", "logs", "ls"]
        {
            let said = nexus.fails(1, &[verb, selector]);
            assert!(said.starts_with(error), "{verb} {selector}: {said}");
            assert!(said.ends_with("hint: nexus ls, nexus history\n"), "{verb} {selector}: {said}");
        }
    }
}

#[test]
fn what_is_no_selector_is_explained() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    for (selector, why) in [
        ("A", "named by its id (letters, as in abc), a GPU number, last, tag:x, sweep:x, name:x, project:x or /regex/"),
        ("a b", "a job is named by its id"),
        ("tag:", "nothing stands after tag:"),
        ("last:0", "a number stands after last: as in last:3"),
        ("/x", "a regular expression stands between two slashes: /train.*/"),
        ("/(/", "regex parse error"),
        ("999", "999 is no GPU number"),
    ] {
        let said = nexus.fails(1, &["show", selector]);
        assert!(said.contains(why), "{selector}: {said}");
        assert!(said.ends_with("hint: nexus help selectors\n"), "{selector}: {said}");
    }
}
