//! `ls`: everything alive, in squeue's columns.

use nexus_testkit::Nexus;

use super::LONG;
use crate::NEXUS;

#[test]
fn everything_alive_in_squeues_columns() {
    let nexus = Nexus::with_gpus(NEXUS, 2).env("USER", "ann");
    let empty = nexus.ok(&["ls"]);
    assert_eq!(empty, "JOBID  NAME  USER  ST  TIME  GPUS  NODELIST(REASON)");
    let runs = nexus.add_with(&["--name", "train", "--tag", "t"], LONG);
    nexus.in_state(&runs, "running");
    let held = nexus.add_with(&["--hold", "--gpus", "2"], "echo a very long command that is cut somewhere");
    nexus.done("true");
    let seen = nexus.ok(&["ls"]);
    let words: Vec<Vec<&str>> = seen.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["JOBID", "NAME", "USER", "ST", "TIME", "GPUS", "NODELIST(REASON)"]);
    assert_eq!(words[1][..4], [&runs, "train", "ann", "R"]);
    assert_eq!(words[1][5..], ["1", "local:0", "(simulated)"]);
    assert!(
        seen.contains(&format!(
            "{held}    echo a very long comman…  ann   PD  0:00  2     (held: nexus release {held})"
        )),
        "{seen}"
    );
    assert_eq!(words.len(), 3);
    let tagged = nexus.json(&["ls", "tag:t", "--json"]);
    assert_eq!((tagged.as_array().unwrap().len(), &tagged[0]["id"]), (1, &runs.into()));
}
