//! `service.log`, line by line.

use nexus_testkit::Nexus;

use super::LONG;
use crate::NEXUS;

/// The lines without their stamps, whose form is checked.
fn lines(nexus: &Nexus) -> Vec<String> {
    let log = nexus.service_log();
    let unstamped = |line: &str| {
        let (stamp, rest) = line.split_at(22);
        let form: String = stamp.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(form, "[0000-00-00 00:00:00] ", "{line}");
        rest.to_string()
    };
    log.lines().map(unstamped).collect()
}

#[test]
fn every_operation_has_its_line() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let good = nexus.done("true\n# two lines")["id"].as_str().unwrap().to_string();
    let bad = nexus.add_with(&["--on", "1"], "exit 3");
    nexus.ended(&bad);
    let killed = nexus.add_with(&["--gpus", "2"], LONG);
    nexus.in_state(&killed, "running");
    nexus.ok(&["kill", &killed]);
    let on_cpu = nexus.add_with(&["--gpus", "0"], "true");
    nexus.ended(&on_cpu);
    nexus.ok(&["pause"]);
    let moved = nexus.add("true");
    for verb in ["hold", "release", "first", "remove"] {
        nexus.ok(&[verb, &moved]);
    }
    nexus.ok(&["resume"]);
    nexus.ok(&["forget", "-y", &good]);
    nexus.ok(&["stop"]);
    let expected = format!(
        "\
Service started
Found 2 GPUs (simulated)
Added job {good}: true\\n# two lines
Started job {good} on GPU 0: true\\n# two lines
Job {good} completed successfully on GPU 0
Added job {bad}: exit 3
Started job {bad} on GPU 1: exit 3
Job {bad} failed on GPU 1: exit 3
Added job {killed}: {LONG}
Started job {killed} on GPUs 0,1: {LONG}
Stopping job {killed} on GPUs 0,1
Job {killed} killed on GPUs 0,1 by user
Added job {on_cpu}: true
Started job {on_cpu} on the CPU: true
Job {on_cpu} completed successfully on the CPU
Queue paused by user
Added job {moved}: true
Job {moved} held by user
Job {moved} released by user
Job {moved} put first by user
Job {moved} removed from the queue by user
Queue resumed by user
Job {good} forgotten by user
Service stopping
Service stopped"
    );
    assert_eq!(lines(&nexus).join("\n"), expected);
}

#[test]
fn many_jobs_that_come_at_once_have_one_line() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let import = |numbers: std::ops::Range<u32>| {
        let text: String = numbers.map(|number| format!("echo {number}\n")).collect();
        let file = nexus.file("commands.txt", &text);
        nexus.ok(&["import", "-q", &file.display().to_string()])
    };
    let few = import(0..100);
    let many = import(100..201);
    let added: Vec<String> = lines(&nexus).into_iter().filter(|line| line.starts_with("Added")).collect();
    let each = few.lines().enumerate().map(|(number, id)| format!("Added job {id}: echo {number}"));
    let (first, last) = (many.lines().next().unwrap(), many.lines().last().unwrap());
    let all = format!("Added 101 jobs, the first {first}, the last {last}");
    assert_eq!(added, each.chain([all]).collect::<Vec<_>>());
}

#[test]
fn its_level_says_what_is_written() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let written = |level: &str| {
        nexus.ok(&["config", "set", "log.level", level]);
        let before = lines(&nexus).len();
        nexus.done("true");
        let failed = nexus.add("exit 3");
        nexus.ended(&failed);
        let new = lines(&nexus).split_off(before);
        (new, format!("Job {failed} failed on GPU 0: exit 3"))
    };
    assert_eq!(written("error").0, [""; 0]);
    let (lines, failed) = written("warn");
    assert_eq!(lines, [failed]);
    let (lines, failed) = written("info");
    let words: Vec<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((words, lines.last()), (vec!["Added", "Started", "Job", "Added", "Started", "Job"], Some(&failed)));
    let (lines, _) = written("debug");
    assert!(lines.iter().any(|line| line.starts_with("Events in one go: ")), "{lines:?}");
    let refused = nexus.fails(2, &["config", "set", "log.level", "loud"]);
    assert!(["error", "warn", "info", "debug"].iter().all(|word| refused.contains(word)), "{refused}");
}
