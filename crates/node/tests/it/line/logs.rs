//! Copies of logs: at every moment as a reader of the original would have seen it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_node::line::{LogCopy, Stream};
use nexus_node::logs::{LogReader, Which};

use super::connection::{Connection, Machine};
use crate::stage::{exited, wait_until};

/// Both streams in the order of arrival, each byte with its stream.
type Output = Vec<(bool, u8)>;

fn read(dir: &Path) -> Output {
    let mut all = Output::new();
    read_on(&mut LogReader::open(dir, Which::Both).unwrap(), &mut all);
    all
}

fn read_on(reader: &mut LogReader, all: &mut Output) {
    while let Some(chunk) = reader.read_next(1 << 20).unwrap() {
        all.extend(chunk.bytes.into_iter().map(|byte| (chunk.stderr, byte)));
    }
}

fn stream(dir: &Path, had: [u64; 2], follow: bool) -> Stream {
    Stream::Logs { dir: dir.to_owned(), had, follow }
}

/// Brings a copy up to date.
fn copy(connection: &Connection, from: &Path, to: &Path) -> [u64; 2] {
    let mut copy = LogCopy::open(to).unwrap();
    let channel = connection.line.open_stream(stream(from, copy.had(), false)).unwrap();
    let mut level = 0;
    copy.keep_up(&channel, || level += 1).unwrap();
    assert_eq!(level, 1);
    copy.had()
}

#[test]
fn a_copy_that_follows_is_right_at_every_moment() {
    let machine = Machine::new();
    let connection = machine.connect();
    let (from, to) = (machine.run_dir("aaa.1"), machine.path("copy"));
    // The stream is there before the run's directory is.
    let channel = connection.line.open_stream(stream(&from, [0; 2], true)).unwrap();
    let (is_level, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut kept = LogCopy::open(&to).unwrap();
    let (mut snapshots, mut followed) = (Vec::new(), Output::new());
    std::thread::scope(|scope| {
        let keeping = scope.spawn(|| kept.keep_up(&channel, || is_level.store(true, Ordering::Relaxed)));
        wait_until("it to be level", || is_level.load(Ordering::Relaxed));
        // One who reads along all the time, as `nexus logs -f` does, and one who comes anew each time.
        scope.spawn(|| {
            let mut reader = LogReader::open(&to, Which::Both).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                read_on(&mut reader, &mut followed);
            }
            read_on(&mut reader, &mut followed);
        });
        let text = "i=0; while [ $i -lt 400 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done;
            head -c 300000 /dev/zero | tr '\\0' x; echo end >&2";
        assert_eq!(connection.run(machine.shell("aaa.1", text)).status, exited(0));
        let whole = read(&from).len();
        wait_until("all of it", || {
            snapshots.push(read(&to));
            snapshots.last().is_some_and(|snapshot| snapshot.len() == whole)
        });
        is_over.store(true, Ordering::Relaxed);
        channel.close();
        assert!(keeping.join().unwrap().is_err(), "it was closed here");
    });
    let whole = read(&from);
    assert!(whole.len() > 300_000);
    for snapshot in snapshots.iter().chain([&followed]) {
        let differs = snapshot.iter().zip(&whole).position(|(copied, original)| copied != original);
        assert_eq!((differs, snapshot.len() <= whole.len()), (None, true), "of {}", snapshot.len());
    }
    assert_eq!(followed.len(), whole.len());
    assert_eq!(copy(&connection, &from, &to), kept.had());
}

#[test]
fn a_copy_goes_on_where_it_was_and_is_mended_where_it_broke() {
    let machine = Machine::new();
    let connection = machine.connect();
    let (from, to) = (machine.run_dir("aaa.1"), machine.path("copy"));
    let text = "echo one; echo two >&2; touch half; while ! [ -e go ]; do sleep 0.01; done; echo three; echo four >&2";
    connection.start(machine.shell("aaa.1", text));
    wait_until("half of it", || read(&from).len() == 8);
    assert_eq!(copy(&connection, &from, &to), [4, 4]);
    machine.let_go();
    connection.end_of("aaa.1");
    assert_eq!(copy(&connection, &from, &to), [10, 9]);
    assert_eq!(read(&to), read(&from));
    let append = |name: &str| OpenOptions::new().append(true).open(to.join(name)).unwrap();
    // A service that died after it wrote to a log, and before the order knew.
    append("stderr.log").write_all(b"torn").unwrap();
    assert_eq!(LogCopy::open(&to).unwrap().had(), [10, 9]);
    // One in which a log was cut, or the order lost.
    append("stdout.log").set_len(3).unwrap();
    assert_eq!(copy(&connection, &from, &to), [10, 9]);
    std::fs::remove_file(to.join("order.idx")).unwrap();
    assert_eq!(LogCopy::open(&to).unwrap().had(), [0, 0]);
    assert_eq!(copy(&connection, &from, &to), [10, 9]);
    assert_eq!(read(&to), read(&from));
}

#[test]
fn a_copy_that_has_more_than_there_is_is_told_so() {
    let machine = Machine::new();
    let connection = machine.connect();
    let dir = machine.run_dir("aaa.1");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("stdout.log"), "").unwrap();
    let error = connection.read(stream(&dir, [1, 0], false)).unwrap_err().to_string();
    assert!(error.ends_with("stdout.log has 0 bytes, and its copy 1"), "{error}");
}

#[test]
fn a_copy_of_what_was_cleared_here_stays_as_it_is() {
    let machine = Machine::new();
    let connection = machine.connect();
    connection.run(machine.shell("aaa.1", "echo out; echo err >&2"));
    let (from, to) = (machine.run_dir("aaa.1"), machine.path("copy"));
    assert_eq!(copy(&connection, &from, &to), [4, 4]);
    LogCopy::open(&to).unwrap().sync().unwrap();
    let whole = read(&to);
    std::fs::remove_dir_all(&from).unwrap();
    assert_eq!(copy(&connection, &from, &to), [4, 4]);
    assert_eq!(read(&to), whole);
    let level = connection.read(stream(&from, [4, 4], true)).unwrap();
    assert_eq!(level.len(), 5, "who follows it is told that there is no more");
}
