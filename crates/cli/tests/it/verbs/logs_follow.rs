//! `logs -f`: of a job that waits, that runs, that has ended.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};

use nexus_testkit::Nexus;

use crate::NEXUS;

struct Follower {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    fn of(nexus: &Nexus, args: &[&str]) -> Follower {
        let mut child = nexus.command(&[&["logs", "-f"], args].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Follower { child, lines }
    }

    fn line(&mut self) -> Option<String> {
        self.lines.next().map(|line| line.unwrap())
    }

    fn ends_well(mut self) {
        assert_eq!(self.line(), None);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn from_before_its_start_to_its_end() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "echo one; until [ -e go ]; do sleep 0.02; done; echo two; exit 3");
    let mut follower = Follower::of(&nexus, &[&id]);
    nexus.ok(&["release", &id]);
    assert_eq!(follower.line().as_deref(), Some("one"));
    let mut late = Follower::of(&nexus, &[&id]);
    assert_eq!(late.line().as_deref(), Some("one"));
    nexus.file("go", "");
    assert_eq!(follower.line().as_deref(), Some("two"));
    assert_eq!(late.line().as_deref(), Some("two"));
    follower.ends_well();
    late.ends_well();
    let mut after = Follower::of(&nexus, &["-n", "1", &id]);
    assert_eq!(after.line().as_deref(), Some("two"));
    after.ends_well();
}

#[test]
fn a_job_removed_before_its_start_ends_its_follower() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add_with(&["--hold"], "true");
    let follower = Follower::of(&nexus, &[&id]);
    nexus.ok(&["remove", &id]);
    // Whether it was connected before or after the removal: it does not wait for ever.
    let mut follower = follower;
    assert_eq!(follower.line(), None);
    follower.child.wait().unwrap();
}
