//! Files, terminals and answers over the line, beside each other.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use nexus_api::run_dir::{LAST_LINES, Said};
use nexus_api::terminal::{FORMAT, FromShim, FromViewer, ViewerHello};
use nexus_node::left::{Plan, Sources, Trouble, What};
use nexus_node::line::{Channel, Last, Stream};

use super::connection::{Connection, Machine, read_all};
use crate::stage::wait_until;

fn file(path: PathBuf) -> Stream {
    Stream::File { path, from: 0 }
}

fn threads(connection: &Connection) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", connection.hello.pid)).unwrap().count()
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_slow_reader_holds_up_nobody_and_nothing_piles_up() {
    const BYTES: u64 = 128 << 20;
    let machine = Machine::new();
    std::fs::File::create(machine.path("big")).unwrap().set_len(BYTES).unwrap();
    std::fs::write(machine.path("small"), "small").unwrap();
    let connection = machine.connect();
    let mut slow: Vec<Channel> =
        (0..20).map(|_| connection.line.open_stream(file(machine.path("big"))).unwrap()).collect();
    for number in 0..50 {
        connection.ping(number);
        assert_eq!(connection.read(file(machine.path("small"))).unwrap(), b"small");
    }
    assert_eq!(connection.read(file(machine.path("big"))).unwrap().len() as u64, BYTES);
    let (node, own) = (resident_kib(connection.hello.pid), resident_kib(std::process::id()));
    // Twenty windows of 256 KiB on either side, and the one file that was read whole here.
    assert!(node < 64 << 10 && own < 512 << 10, "{node} KiB, {own} KiB");
    assert_eq!(read_all(&slow.pop().unwrap()).unwrap().len() as u64, BYTES);
    let before = threads(&connection);
    drop(slow);
    wait_until("their threads to end", || threads(&connection) + 19 <= before);
    connection.ping(51);
}

#[test]
fn a_file_is_sent_from_where_it_is_asked_for_and_nothing_else_is() {
    let machine = Machine::new();
    let connection = machine.connect();
    std::fs::write(machine.path("file"), "0123456789").unwrap();
    std::os::unix::fs::symlink("file", machine.path("link")).unwrap();
    let from = |from| connection.read(Stream::File { path: machine.path("file"), from }).unwrap();
    assert_eq!((from(0), from(7), from(20)), (b"0123456789".to_vec(), b"789".to_vec(), vec![]));
    assert!(std::process::Command::new("mkfifo").arg(machine.path("pipe")).status().unwrap().success());
    for (name, words) in
        [("none", "No such file"), ("", "is a folder"), ("link", "symbolic link"), ("pipe", "is a named pipe")]
    {
        let error = connection.read(file(machine.path(name))).unwrap_err();
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
}

/// The terminal of a run, as a viewer sees it.
struct Viewer {
    channel: Channel,
    arrived: Vec<u8>,
    shown: String,
}

impl Viewer {
    fn open(connection: &Connection, dir: &Path) -> Viewer {
        let channel = connection.line.open_terminal(dir).unwrap();
        let mut viewer = Viewer { channel, arrived: vec![], shown: String::new() };
        viewer.say(&FromViewer::Hello(ViewerHello { format: FORMAT, columns: 80, rows: 24, ..Default::default() }));
        viewer
    }

    fn say(&mut self, frame: &FromViewer) {
        let mut bytes = Vec::new();
        frame.append_to(&mut bytes);
        self.channel.write_all(&bytes).unwrap();
    }

    /// Reads until it shows this; how the run ended if that came first.
    fn until(&mut self, wanted: &str) -> bool {
        let mut part = [0; 4096];
        while !self.shown.contains(wanted) {
            let count = self.channel.read(&mut part).unwrap();
            assert!(count > 0, "it ended: {}", self.shown);
            self.arrived.extend_from_slice(&part[..count]);
            while let Some(frame) = FromShim::take_from(&mut self.arrived).unwrap() {
                match frame {
                    FromShim::Output(bytes) => self.shown.push_str(&String::from_utf8_lossy(&bytes)),
                    FromShim::Ended(_) => return false,
                    _ => {}
                }
            }
        }
        true
    }
}

#[test]
fn a_terminal_passes_keys_and_output_and_ends_with_the_run() {
    let machine = Machine::new();
    let connection = machine.connect();
    let text = "stty -echo; echo ready; read word; echo got $word; read word; exit 3";
    connection.start(machine.shell("aaa.1", text));
    // The run may not have begun: it is waited for.
    let mut viewer = Viewer::open(&connection, &machine.run_dir("aaa.1"));
    assert!(viewer.until("ready"));
    viewer.say(&FromViewer::Input(b"hello\n".to_vec()));
    assert!(viewer.until("got hello"));
    viewer.say(&FromViewer::Input(b"\n".to_vec()));
    assert!(!viewer.until("nothing of the kind"));
    assert_eq!(viewer.channel.read(&mut [0; 1]).unwrap(), 0);
    connection.end_of("aaa.1");
    let error = connection.line.open_terminal(&machine.run_dir("aaa.1")).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "it has ended");
}

#[test]
fn a_terminal_that_is_left_lets_go_of_the_shim_even_if_it_takes_nothing() {
    let machine = Machine::new();
    let connection = machine.connect();
    connection.wait_for_login();
    connection.start(machine.shell("aaa.1", "stty -echo -icanon; echo ready; while ! [ -e go ]; do sleep 0.01; done"));
    connection.start_of("aaa.1");
    let before = threads(&connection);
    let mut viewer = Viewer::open(&connection, &machine.run_dir("aaa.1"));
    assert!(viewer.until("ready"));
    // More than the terminal, the shim and the window take: the last of it waits, and so does a ping behind none of it.
    std::thread::scope(|scope| {
        let channel = &viewer.channel;
        let typing = scope.spawn(move || {
            let mut frame = Vec::new();
            FromViewer::Input(vec![b'x'; 2 << 20]).append_to(&mut frame);
            { channel }.write_all(&frame)
        });
        connection.ping(1);
        std::thread::sleep(std::time::Duration::from_millis(300));
        channel.close();
        assert!(typing.join().unwrap().is_err(), "all was taken");
    });
    wait_until("its thread to end", || threads(&connection) <= before);
    machine.let_go();
    connection.end_of("aaa.1");
}

#[test]
fn the_plan_of_results_is_made_there_and_its_trouble_told() {
    let machine = Machine::new();
    let connection = machine.connect();
    std::fs::create_dir_all(machine.path("work/out")).unwrap();
    std::fs::write(machine.path("work/out/a"), "abc").unwrap();
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"bad\xff");
    std::fs::write(machine.path("work/out").join(odd), "").unwrap();
    let sources = |named: &str| Sources {
        cwd: machine.path("work"),
        named: vec![named.into()],
        left_out: 0,
        own: machine.path("none"),
    };
    let ask = |named: &str| {
        let channel = connection.line.open_stream(Stream::Plan { sources: sources(named) }).unwrap();
        channel.answer::<Result<Plan, Trouble>>().unwrap()
    };
    let plan = ask("out").unwrap();
    assert_eq!(plan, Plan::of(&sources("out"), None).unwrap());
    assert_eq!((plan.bytes, &plan.items[Path::new("out/a")].what), (3, &What::File { bytes: 3 }));
    assert!(plan.items.contains_key(&Path::new("out").join(odd)));
    let trouble = ask("missing").unwrap_err();
    assert!(matches!(trouble, Trouble::Missing { .. }) && !trouble.may_pass(), "{trouble}");
    std::fs::remove_dir_all(machine.path("work")).unwrap();
    std::fs::write(machine.path("work"), "").unwrap();
    assert_eq!(ask("x").unwrap_err().to_string(), Plan::of(&sources("x"), None).unwrap_err().to_string());
}

#[test]
fn folders_of_the_node_alone_are_removed() {
    let machine = Machine::new();
    let connection = machine.connect();
    let own = machine.home().join("results/abc");
    std::fs::create_dir_all(own.join("deep")).unwrap();
    assert!(connection.read(Stream::Remove { path: own.clone() }).unwrap().is_empty());
    assert!(!own.exists());
    std::fs::create_dir(machine.path("other")).unwrap();
    for path in [machine.path("other"), machine.home(), machine.home().join("results/../../../other")] {
        let error = connection.read(Stream::Remove { path: path.clone() }).unwrap_err().to_string();
        assert!(error.starts_with(&format!("failed to remove {}: ", path.display())), "{error}");
    }
    assert!(machine.path("other").exists());
}

#[test]
fn what_a_run_said_last_is_told() {
    let machine = Machine::new();
    let connection = machine.connect();
    connection.run(machine.shell("aaa.1", "echo one; echo two; echo three >&2"));
    let ask = || {
        let said = Stream::Said { dir: machine.run_dir("aaa.1"), lines: 2 };
        connection.line.open_stream(said).unwrap().answer::<Last>().unwrap()
    };
    let last = ask();
    assert_eq!((last.line.as_deref(), last.lines.len(), &last.kept), (Some("three"), 2, &None));
    let kept = Said { line: Some("{T}".into()), lines: vec![] };
    std::fs::write(machine.run_dir("aaa.1").join(LAST_LINES), serde_json::to_vec(&kept).unwrap()).unwrap();
    assert_eq!(ask().kept, Some(kept));
}
