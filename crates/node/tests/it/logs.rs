//! Reading logs, in directories made by hand: the format of the order is a contract.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nexus_node::logs::{LogReader, Which};

fn order(stretches: &[(bool, u32)]) -> Vec<u8> {
    let records = stretches.iter().flat_map(|(stderr, length)| (length | u32::from(*stderr) << 31).to_le_bytes());
    b"nxorder1".iter().copied().chain(records).collect()
}

fn fill(dir: &Path, stdout: &str, stderr: &str, stretches: Option<&[(bool, u32)]>) {
    fs::write(dir.join("stdout.log"), stdout).unwrap();
    fs::write(dir.join("stderr.log"), stderr).unwrap();
    if let Some(stretches) = stretches {
        fs::write(dir.join("order.idx"), order(stretches)).unwrap();
    }
}

fn rest(reader: &mut LogReader) -> String {
    let mut all = Vec::new();
    while let Some(chunk) = reader.read_next(7).unwrap() {
        all.extend(chunk.bytes);
    }
    String::from_utf8(all).unwrap()
}

fn tail(dir: &Path, which: Which, lines: usize) -> String {
    let mut reader = LogReader::open(dir, which).unwrap();
    reader.tail(lines).unwrap();
    rest(&mut reader)
}

fn append(dir: &Path, name: &str, text: &str) {
    OpenOptions::new().append(true).create(true).open(dir.join(name)).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn tails_of_one_stream() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    assert_eq!(tail(dir, Which::Both, 3), "", "nothing is there yet");
    fill(dir, "1\n2\n3\n4", "", None);
    for (lines, expected) in [(0, ""), (1, "4"), (2, "3\n4"), (4, "1\n2\n3\n4"), (9, "1\n2\n3\n4")] {
        for which in [Which::Both, Which::Stdout] {
            assert_eq!(tail(dir, which, lines), expected, "{lines} {which:?}");
        }
    }
    append(dir, "stdout.log", "\n");
    assert_eq!(tail(dir, Which::Stdout, 2), "3\n4\n");
    assert_eq!(tail(dir, Which::Stderr, 2), "");
}

#[test]
fn tails_of_both_streams_follow_the_order() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    fill(dir, "o1\no2\no3\n", "e1\ne2\n", Some(&[(false, 3), (true, 3), (false, 3), (true, 3), (false, 3)]));
    let all = ["o1\n", "e1\n", "o2\n", "e2\n", "o3\n"];
    for lines in 0..=7 {
        let expected = all[all.len().saturating_sub(lines)..].concat();
        assert_eq!(tail(dir, Which::Both, lines), expected, "{lines}");
    }
    assert_eq!(tail(dir, Which::Stderr, 1), "e2\n");
}

#[test]
fn a_follower_sees_bytes_once_and_in_order_while_the_order_comes_to_be() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let mut reader = LogReader::open(dir, Which::Both).unwrap();
    assert_eq!(rest(&mut reader), "");
    append(dir, "stderr.log", "e1\n");
    assert_eq!(rest(&mut reader), "e1\n");
    append(dir, "stdout.log", "o1\n");
    assert_eq!(rest(&mut reader), "o1\n", "a log is ahead of the order");
    fs::write(dir.join("order.idx"), order(&[(true, 3), (false, 3)])).unwrap();
    assert_eq!(rest(&mut reader), "");
    // The last stretch grows in place, then others follow.
    append(dir, "stdout.log", "o2\n");
    fs::write(dir.join("order.idx"), order(&[(true, 3), (false, 6)])).unwrap();
    append(dir, "stderr.log", "e2\n");
    append(dir, "stdout.log", "o3\n");
    fs::write(dir.join("order.idx"), order(&[(true, 3), (false, 6), (true, 3), (false, 3)])).unwrap();
    assert_eq!(rest(&mut reader), "o2\ne2\no3\n");
    let mut late = LogReader::open(dir, Which::Both).unwrap();
    late.tail(2).unwrap();
    append(dir, "stdout.log", "o4\n");
    fs::write(dir.join("order.idx"), order(&[(true, 3), (false, 6), (true, 3), (false, 6)])).unwrap();
    assert_eq!(rest(&mut late), "e2\no3\no4\n");
}

#[test]
fn which_stream_was_first_is_waited_for() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let mut reader = LogReader::open(dir, Which::Both).unwrap();
    append(dir, "stderr.log", "e1\n");
    append(dir, "stdout.log", "o1\n");
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The reader meets logs without an order, then an empty one.
            std::thread::sleep(Duration::from_millis(5));
            let file = File::create_new(dir.join("order.idx")).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            file.write_all_at(&order(&[(true, 3), (false, 3)]), 0).unwrap();
        });
        rest(&mut reader)
    });
    assert_eq!(told, "e1\no1\n");
    fs::remove_file(dir.join("order.idx")).unwrap();
    let mut reader = LogReader::open(dir, Which::Both).unwrap();
    assert_eq!(rest(&mut reader), "o1\ne1\n", "a shim that was killed never says it");
}

#[test]
fn a_log_that_was_cut_is_read_as_far_as_it_goes() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    fill(dir, "o1\n", "e1\ne2\n", Some(&[(false, 300), (true, 3), (false, 500), (true, 3)]));
    let mut reader = LogReader::open(dir, Which::Both).unwrap();
    assert_eq!(rest(&mut reader), "o1\ne1\ne2\n");
    assert!(tail(dir, Which::Both, 100).contains("e2"));
}

#[test]
fn the_end_of_a_huge_log_is_found_without_reading_it() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    let hole = 2 << 30;
    fill(dir, "", "e\n", Some(&[(false, 0x7fff_ffff), (false, 8), (true, 2)]));
    File::options().write(true).open(dir.join("stdout.log")).unwrap().write_all_at(b"\nlast1\n", hole).unwrap();
    let begin = Instant::now();
    assert_eq!(tail(dir, Which::Stdout, 1), "last1\n");
    assert_eq!(tail(dir, Which::Both, 2), "last1\ne\n");
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?} for two gigabytes");
}

#[test]
fn a_reader_that_comes_back_goes_on_where_it_was() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    fill(dir, "aabbcc", "1122", Some(&[(false, 2), (true, 2), (false, 2), (true, 2), (false, 2)]));
    let from = |stdout, stderr| {
        let mut reader = LogReader::open(dir, Which::Both).unwrap();
        reader.resume(stdout, stderr);
        rest(&mut reader)
    };
    for ((stdout, stderr), expected) in [
        ((0, 0), "aa11bb22cc"),
        ((1, 0), "a11bb22cc"),
        ((2, 1), "1bb22cc"),
        // Read before the order told of it.
        ((3, 0), "11b22cc"),
        ((6, 4), ""),
        // Somebody cut the log.
        ((9, 9), ""),
    ] {
        assert_eq!(from(stdout, stderr), expected, "{stdout} {stderr}");
    }
    fs::remove_file(dir.join("order.idx")).unwrap();
    assert_eq!(from(4, 1), "cc122");
}
