//! 6, 23: each run has a log of its own, whole, which can be followed and read from its end.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::process::Child;
use std::time::{Duration, Instant};

use nexus_testkit::{Nexus, until};

use super::{lines_of, open_gate, wait_for};
use crate::NEXUS;

#[test]
fn r06_jobs_of_one_second_have_logs_of_their_own() {
    let nexus = Nexus::with_gpus(NEXUS, 20);
    let command =
        format!("echo out $NEXUS_JOB_ID; {}; echo end $NEXUS_JOB_ID; echo err $NEXUS_JOB_ID >&2", wait_for("go"));
    let ids = nexus.ok(&["add", "-x", "20", &command]);
    let ids: Vec<&str> = ids.lines().collect();
    let seconds: Vec<String> =
        ids.iter().map(|id| nexus.in_state(id, "running")["started_at"].as_str().unwrap()[..19].to_string()).collect();
    assert!((1..20).any(|i| seconds[i] == seconds[i - 1]), "{seconds:?}");
    open_gate(&nexus, "go");
    let mut paths = Vec::new();
    for id in &ids {
        let job = nexus.ended(id);
        assert_eq!(job["state"], "completed");
        for (stream, expected) in [("stdout", format!("out {id}\nend {id}\n")), ("stderr", format!("err {id}\n"))] {
            let path = job[format!("{stream}_path")].as_str().unwrap().to_string();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected, "{path}");
            paths.push(path);
        }
        assert_eq!(nexus.ok(&["logs", id]), format!("out {id}\nend {id}\nerr {id}"));
    }
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), 40);
}

/// `logs -f` with its output in a file of the test's own.
struct Follower(Child);

impl Follower {
    fn start(nexus: &Nexus, id: &str, file: &str) -> Follower {
        let out = File::create(nexus.work().join(file)).unwrap();
        Follower(nexus.command(&["logs", "-f", id]).stdout(out).spawn().expect("the binary runs"))
    }

    /// Waits until it listens: a connection that stays is not one of its questions before.
    #[track_caller]
    fn listens(&self) {
        let (mut seen, mut since) = (None, Instant::now());
        until("the follower listens", || {
            let now = nexus_testkit::proc::connection(self.0.id());
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            (seen.is_some() && since.elapsed() > Duration::from_millis(200)).then_some(())
        });
    }

    #[track_caller]
    fn ends_well(&mut self) {
        let status = until("the follower ends with the job", || self.0.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }

    #[track_caller]
    fn goes_on(&mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "the follower ended before the job");
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn r23_following_a_log_shows_it_and_ends_with_the_job() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(&format!("echo one; {}; printf 'two\\nno newline'; exit 3", wait_for("more")));
    nexus.in_state(&id, "running");
    // Behind it in the queue: followed before it starts, one that will and one that never will.
    let waits = nexus.add("echo late; echo words >&2");
    let removed = nexus.add("echo never");
    let mut followers =
        [(&id, "a"), (&waits, "b"), (&removed, "c")].map(|(id, file)| Follower::start(&nexus, id, file));

    until("what was printed is shown", || (lines_of(&nexus, "a") == ["one"]).then_some(()));
    followers.iter().for_each(Follower::listens);
    followers.iter_mut().for_each(Follower::goes_on);
    nexus.ok(&["remove", &removed]);
    followers[2].ends_well();
    followers[..2].iter_mut().for_each(Follower::goes_on);
    open_gate(&nexus, "more");
    followers[0].ends_well();
    followers[1].ends_well();
    let shown = |file: &str| std::fs::read_to_string(nexus.work().join(file)).unwrap();
    assert_eq!(shown("a"), "one\ntwo\nno newline");
    assert!(matches!(shown("b").as_str(), "late\nwords\n" | "words\nlate\n"), "{}", shown("b"));
    assert_eq!(shown("c"), "");
    // Of a job that has ended there is nothing to wait for.
    assert_eq!(nexus.ok(&["logs", "-f", &id]), "one\ntwo\nno newline");
}

#[test]
fn r23_the_end_of_a_huge_log_is_read_from_its_end() {
    const HUGE: u64 = 3 << 30;
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("echo first");
    let path = nexus.ended(&id)["stdout_path"].as_str().unwrap().to_string();
    let mut log = File::options().write(true).open(&path).unwrap();
    // A hole costs no disk, but whoever reads it reads it all.
    log.seek(SeekFrom::Start(HUGE)).unwrap();
    let lines: String = (0..9).map(|number| format!("\nline {number}")).collect();
    log.write_all(lines.as_bytes()).unwrap();

    let service = nexus.service_pid();
    let before = nexus_testkit::proc::bytes_read(service);
    assert_eq!(nexus.ok(&["logs", &id, "-n", "5"]), "line 4\nline 5\nline 6\nline 7\nline 8");
    assert_eq!(nexus.ok(&["logs", &id, "--stdout", "-f", "-n", "2"]), "line 7\nline 8");
    let read = nexus_testkit::proc::bytes_read(service) - before;
    assert!(read < 16 << 20, "{read} bytes were read for seven lines");
}
