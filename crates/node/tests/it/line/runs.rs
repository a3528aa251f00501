//! Runs over the line: as those of a node in the service's own process, and through every cut of the line.

use std::io::{Read, Write};

use nexus_api::run_dir::{Cause, EXIT};
use nexus_node::line::{Stream, ToNode};
use nexus_node::{Report, RunPlace};

use super::connection::{Machine, text};
use crate::stage::{exited, id, wait_until};

#[test]
fn runs_are_started_observed_and_stopped() {
    let machine = Machine::new();
    let connection = machine.connect();
    let record = connection.run(machine.shell("aaa.1", "echo out; echo err >&2; exit 3"));
    assert_eq!((record.status, record.cause), (exited(3), Cause::Own));
    assert_eq!(text(&machine.run_dir("aaa.1").join("stdout.log")), "out\n");
    wait_until("its record", || machine.run_dir("aaa.1").join(EXIT).exists());
    connection.observe(machine.place("aaa.1"));
    assert_eq!(connection.end_of("aaa.1").status, exited(3));
    connection.observe(machine.place("bbb.1"));
    connection.report("word of bbb", |report| (*report == Report::NotStarted { run: id("bbb.1") }).then_some(()));
    connection.start(machine.waiting("ccc.1", 0));
    connection.start_of("ccc.1");
    connection.stop(machine.place("ccc.1"));
    assert_eq!(connection.end_of("ccc.1").cause, Cause::Asked);
    connection.line.send(&ToNode::Clear { runs: vec![machine.place("aaa.1")], leftovers: true });
    connection.report("tidying", |report| (*report == Report::Tidied { run: id("aaa.1") }).then_some(()));
    assert!(!machine.run_dir("aaa.1").exists());
    assert_eq!(connection.end(), (Some(0), String::new()));
}

#[test]
fn runs_go_on_when_the_line_is_cut_and_are_found_again() {
    let machine = Machine::new();
    let first = machine.connect();
    first.start(machine.waiting("aaa.1", 11));
    let ends_alone = "while ! [ -e alone ]; do sleep 0.01; done; exit 12";
    first.start(machine.shell("bbb.1", ends_alone));
    let mut pids = [0; 2];
    first.report("both starts", |report| {
        if let Report::Started { run, pid, .. } = report {
            pids[usize::from(*run == id("bbb.1"))] = *pid;
        }
        (!pids.contains(&0)).then_some(())
    });
    assert_eq!(first.end(), (Some(0), String::new()));
    std::fs::write(machine.path("alone"), "").unwrap();
    wait_until("its record", || machine.run_dir("bbb.1").join(EXIT).exists());
    let second = machine.connect();
    second.observe(machine.place("bbb.1"));
    assert_eq!(second.end_of("bbb.1").status, exited(12));
    second.observe(machine.place("aaa.1"));
    assert_eq!(second.start_of("aaa.1"), pids[0]);
    machine.let_go();
    assert_eq!(second.end_of("aaa.1").status, exited(11));
}

#[test]
fn a_start_that_is_sent_twice_runs_once() {
    let machine = Machine::new();
    let connection = machine.connect();
    let spec = machine.shell("aaa.1", "echo ran >> ran; while ! [ -e go ]; do sleep 0.01; done; exit 7");
    connection.line.send(&ToNode::Start { runs: vec![spec.clone(), spec.clone()] });
    connection.start(spec.clone());
    connection.start_of("aaa.1");
    connection.end();
    let again = machine.connect();
    again.start(spec.clone());
    again.start_of("aaa.1");
    machine.let_go();
    assert_eq!(again.end_of("aaa.1").status, exited(7));
    again.start(spec);
    assert_eq!(again.end_of("aaa.1").status, exited(7));
    assert_eq!(text(&machine.path("ran")), "ran\n");
}

#[test]
fn what_is_no_frame_ends_the_node_and_no_run() {
    let frame = |length: u32, channel: u32| [length.to_le_bytes(), channel.to_le_bytes()].concat();
    let start = br#"{"start":{"runs":7}}"#;
    let table: [(Vec<u8>, &str); 5] = [
        (b"what is this\n".to_vec(), "bytes is too long"),
        (frame(u32::MAX, 0), "a frame of 4294967295 bytes is too long"),
        (frame((64 << 10) + 1, 1), "a frame of 65537 bytes is too long"),
        ([frame(1, 7), b"x".to_vec()].concat(), "channel 7 was never opened"),
        ([frame(start.len() as u32, 0), start.to_vec()].concat(), "invalid type"),
    ];
    let machine = Machine::new();
    for (number, (garbage, words)) in table.into_iter().enumerate() {
        let mut connection = machine.connect();
        let run = format!("aaa.{}", number + 1);
        connection.start(machine.waiting(&run, 9));
        connection.start_of(&run);
        let mut raw = std::fs::File::from(connection.raw.try_clone().unwrap());
        raw.write_all(&garbage).unwrap();
        drop(raw);
        // It does not wait for the end of the line.
        assert_eq!(connection.code(), Some(1), "{words}");
        assert_eq!(connection.loss(), "the node's end was closed");
        let (_, said) = connection.end();
        assert!(said.starts_with("nexus node: cannot understand what the service says: "), "{said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{said}");
    }
    let connection = machine.connect();
    let places: Vec<RunPlace> = (1..=5).map(|number| machine.place(&format!("aaa.{number}"))).collect();
    connection.line.send(&ToNode::Observe { runs: places });
    for number in 1..=5 {
        connection.start_of(&format!("aaa.{number}"));
    }
    machine.let_go();
    let mut left = 5;
    connection.report("all ends", |report| {
        if let Report::Ended { record, .. } = report {
            assert_eq!(record.status, exited(9));
            left -= 1;
        }
        (left == 0).then_some(())
    });
}

#[test]
fn a_line_that_is_closed_here_is_lost_once() {
    let machine = Machine::new();
    let mut connection = machine.connect();
    let follow = Stream::Logs { dir: machine.run_dir("aaa.1"), had: [0; 2], follow: true };
    let mut channel = connection.line.open_stream(follow.clone()).unwrap();
    let mut level = [0; 5];
    channel.read_exact(&mut level).unwrap();
    assert_eq!(level[0], 2);
    // The test's own end of the pipe is another.
    connection.raw = std::fs::File::open("/dev/null").unwrap().into();
    connection.line.close();
    let lost = channel.read(&mut level).unwrap_err();
    assert_eq!(lost.kind(), std::io::ErrorKind::ConnectionAborted, "{lost}");
    connection.loss();
    assert!(connection.line.open_stream(follow).is_err());
    connection.line.send(&ToNode::Ping { at_ms: 1 });
    assert_eq!(connection.code(), Some(0));
}
