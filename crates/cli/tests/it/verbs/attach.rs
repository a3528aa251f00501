//! `nexus attach`: one user at one job's terminal.

use nexus_testkit::{Nexus, kill, signal, until};

use super::SCREEN;
use crate::NEXUS;

#[test]
fn what_is_typed_reaches_the_job_and_what_it_says_is_shown() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("echo before; read -r name; echo \"hello $name\" >&2; read -r last; exit 3");
    let mut ann = nexus.at_terminal(SCREEN, &["attach", "0"]);
    ann.sees(&format!("[attached to {id}; Ctrl+A D detaches]\r\n")).sees("before\r\n");
    ann.types("ann\r").sees("hello ann\r\n");
    ann.types("\x01d").sees(&format!("[detached from {id}; it goes on]\r\n"));
    ann.ends().expect_code(0);
    assert!(ann.is_cooked());
    nexus.in_state(&id, "running");

    // Who comes later sees what was there before.
    let mut ben = nexus.at_terminal(SCREEN, &["attach", &id]);
    ben.sees("before\r\n").sees("hello ann\r\n").types("\r");
    ben.sees("[failed (exit 3)").sees(&id);
    ben.ends().expect_code(0);
    assert!(ben.is_cooked());
    // Logs hold the bytes as written, and what was echoed.
    assert_eq!(nexus.stdout_of(&id), "before\nann\n\n");
}

#[test]
fn keys_that_mean_something_to_terminals_reach_the_job() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add(
        "trap 'echo interrupted' INT; stty -echo; echo ready; read -r one; read -r two; echo \"=$one=$two=\" | cat -v",
    );
    let mut ann = nexus.at_terminal(SCREEN, &["attach", &id]);
    ann.sees("ready").types("\x03").sees("interrupted");
    ann.types("x\x01ay\r").types("\x01bz\r").sees("=x^Ay=^Abz=");
    ann.ends().expect_code(0);
    let raw = nexus.add("stty raw; echo ready; head -c 1 | od -An -tx1");
    let mut ann = nexus.at_terminal(SCREEN, &["attach", &raw]);
    ann.sees("ready").types("\x03").sees(" 03").sees("[completed");
}

#[test]
fn other_ways_to_detach_and_signals_leave_the_terminal_as_it_was() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("echo -n begun; sleep 1000");
    for keys in ["\x01D", "\x01\x04"] {
        let mut ann = nexus.at_terminal(SCREEN, &["attach", &id]);
        ann.sees("begun").types(keys).sees("\r\n").sees("[detached");
        ann.ends().expect_code(0);
        assert!(ann.is_cooked());
    }
    for number in [signal::SIGTERM, 1] {
        let mut ann = nexus.at_terminal(SCREEN, &["attach", &id]);
        ann.sees("begun");
        assert!(!ann.is_cooked());
        kill(ann.pid(), number);
        ann.ends().expect_code(0);
        assert!(ann.is_cooked());
    }
    nexus.in_state(&id, "running");
}

#[test]
fn the_window_is_passed_on() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    // Looks by itself: bash forgets a WINCH that comes while it is at the one before.
    let id = nexus.add("while sleep 0.02; do now=$(stty size); [ \"$now\" = \"$last\" ] || echo $now; last=$now; done");
    until("it has looked", || nexus.stdout_so_far(&id).contains("40 120").then_some(()));
    let mut ann = nexus.at_terminal((100, 30), &["attach", &id]);
    ann.sees("40 120").sees("30 100").resizes((90, 20)).sees("20 90");
    ann.types("\x01d").sees("[detached");
    // The size of before holds again when nobody looks.
    until("the usual size is back", || (nexus.stdout_so_far(&id).matches("40 120").count() == 2).then_some(()));
    let mut ben = nexus.at_terminal((77, 33), &["attach", &id]);
    ben.sees("20 90").sees("40 120").sees("33 77").types("\x03");
}

#[test]
fn a_job_killed_while_attached_says_so() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("echo begun; sleep 1000");
    let mut ann = nexus.at_terminal(SCREEN, &["attach", "last"]);
    ann.sees("begun");
    nexus.ok(&["kill", &id]);
    ann.sees("[killed ").sees(&id);
    ann.ends().expect_code(0);
}

#[test]
fn a_restart_of_the_service_is_lived_through() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("for i in $(seq 1000000); do read -r line; echo \"<$i $line>\"; done");
    let mut ann = nexus.at_terminal(SCREEN, &["attach", &id]);
    ann.sees("[attached").types("a\r").sees("<1 a>");
    nexus.ok(&["stop", "--keep-jobs"]);
    ann.sees(&format!("[the service is away; {id} goes on]"));
    ann.types("b\r");
    nexus.ok(&["start"]);
    ann.sees("[connected again]").sees("<2 b>").types("c\r").sees("<3 c>");
    nexus.kill_service();
    ann.sees("[the service is away");
    nexus.ok(&["start"]);
    ann.sees("[connected again]").types("d\r").sees("<4 d>");
    assert_eq!(ann.shown().matches("<1 a>").count(), 1, "shown twice: {}", ann.shown());
    ann.types("\x01d").sees("[detached");
    ann.ends().expect_code(0);
}

#[test]
fn full_screen_programs_are_shown_as_they_draw() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("printf '\\033[?1049hA\\nB'; read -r x; printf '\\033[?1049lC\\nD\\n'; read -r x");
    let mut ann = nexus.at_terminal(SCREEN, &["attach", &id]);
    ann.sees("\x1b[?1049hA\nB").types("\x01d");
    // Detached amid it: the terminal does not stay in the alternate screen.
    ann.sees("\x1b[?1049l").sees("[detached");
    let mut ben = nexus.at_terminal(SCREEN, &["attach", &id]);
    ben.sees("A\nB").types("\r").sees("\x1b[?1049lC\r\nD\r\n");
}

#[test]
fn only_looking() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("read -r line; echo \"<$line>\"");
    let mut ann = nexus.at_terminal(SCREEN, &["attach", "--read-only", &id]);
    ann.sees("[attached").types("ann\r");
    let mut ben = nexus.at_terminal(SCREEN, &["attach", &id]);
    ben.sees("[attached").types("ben\r").sees("<ben>");
    ann.sees("<ben>").sees("[completed");
}

#[test]
fn the_service_log_as_it_grows() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let mut ann = nexus.at_terminal(SCREEN, &["attach", "service"]);
    ann.sees("Service started\r\n");
    nexus.ok(&["pause"]);
    ann.sees("Queue paused by user\r\n").types("x\x03").sees("[the service goes on]");
    ann.ends().expect_code(0);
    let mut ben = nexus.at_terminal(SCREEN, &["attach", "service"]);
    ben.sees("Queue paused by user\r\n").types("\x01d").sees("[the service goes on]");
    let mut eve = nexus.at_terminal(SCREEN, &["attach", "service"]);
    eve.sees("Queue paused by user\r\n");
    nexus.ok(&["stop", "-y"]);
    eve.sees("[the service has ended]");
    eve.ends().expect_code(0);
    assert!(eve.is_cooked());
}
