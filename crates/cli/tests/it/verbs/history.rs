//! `history`: what ended, newest last.

use nexus_testkit::Nexus;
use serde_json::Value;

use crate::NEXUS;

fn ids(jobs: &Value) -> Vec<String> {
    jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_string()).collect()
}

#[test]
fn ended_jobs_newest_last() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let done = nexus.done("true")["id"].as_str().unwrap().to_string();
    let failed = nexus.done("exit 3")["id"].as_str().unwrap().to_string();
    let removed = nexus.add_with(&["--hold"], "echo removed");
    nexus.ok(&["remove", &removed]);
    let seen = nexus.ok(&["history"]);
    let lines: Vec<Vec<&str>> =
        seen.lines().map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect();
    assert_eq!(lines[0][..3], [&done, "completed", "GPU 0 (simulated)"], "{seen}");
    assert_eq!(lines[1][..2], [&failed, "failed (exit 3)"], "{seen}");
    assert_eq!(lines[2][..4], [&removed, "killed (removed)", "-", "-"], "{seen}");
    assert!(lines[2].last().unwrap().ends_with("echo removed"));
    assert_eq!(ids(&nexus.json(&["history", "--json"])), [done, failed, removed]);
}

#[test]
fn how_many_and_which() {
    let nexus = Nexus::with_gpus(NEXUS, 4);
    let some = nexus.ok(&["add", "--gpus", "0", "-x", "27", "true"]);
    nexus.ok(&["wait", "--all"]);
    let failed = nexus.done("exit 1")["id"].as_str().unwrap().to_string();
    let killed = nexus.add_with(&["--hold"], "true");
    nexus.ok(&["remove", &killed]);
    let count = |args: &[&str]| nexus.json(&[&["history", "--json"], args].concat()).as_array().unwrap().len();
    assert_eq!((count(&[]), count(&["-n", "2"]), count(&["--all"])), (25, 2, 29));
    assert_eq!((count(&["--all", "--since", "1d"]), count(&["--since", "2000-01-01", "--all"])), (29, 29));
    assert_eq!(count(&["--since", "2999-01-01"]), 0);
    let of = |words: &[&str]| ids(&nexus.json(&[&["history", "--json", "--all"], words].concat()));
    for (word, expected) in [("failed", &failed), ("killed", &killed), ("canceled", &killed), ("cancelled", &killed)] {
        assert_eq!(of(&["--state", word]), [expected.as_str()], "{word}");
    }
    for word in ["completed", "done", "succeeded"] {
        assert_eq!(of(&["--state", word]).len(), some.lines().count(), "{word}");
    }
    assert_eq!(of(&["--state", "failed,killed"]), [failed.as_str(), &killed]);
    assert_eq!(of(&["--state", "failed", "--state", "killed"]), [failed, killed]);
}

#[test]
fn wrong_filters_are_told() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let said = nexus.fails(2, &["history", "--state", "running"]);
    assert!(said.starts_with("error: --state running is no way to end\n"), "{said}");
    assert!(said.ends_with("hint: --state completed, failed or killed; nexus ls shows what is alive\n"), "{said}");
    assert!(nexus.fails(2, &["history", "--since", "2"]).ends_with("hint: 2s, 2m, 2h or 2d\n"));
    assert!(nexus.fails(2, &["history", "-n", "x"]).contains("a whole number is wanted"));
    let said = nexus.fails(2, &["history", "-n", "-1"]);
    assert!(said.starts_with("error: --number cannot be -1\na whole number is wanted\n"), "{said}");
    let none = nexus.run(&["history"]).expect_code(0);
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "no job has ended yet\n"));
}
