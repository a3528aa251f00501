//! That a job harms only itself by what it puts in the place of the files of its run directory: whoever reads them goes on and
//! says what is there, and the run can be found, ended and told of.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use nexus_api::run_dir::{
    Cause, EXIT, EXIT_PART, ExitStatus, FENCED, FORMAT, LAST_LINES, ORDER, OUT, RunSpec, SCRIPT, SLURM_JOB, SPEC,
    START_ERROR, STARTED, STDERR, STDOUT, Started,
};
use nexus_node::inspect::{Seen, claim, inspect, inspect_from_afar, is_occupied, unfit_record};
use nexus_node::logs::{LogReader, Which};
use nexus_node::{Report, kept_said, last_line, last_lines, run_file};
use rustix::fs::{CWD, FileType, Mode, makedev, mkfifoat, mknodat};

use crate::stage::{Stage, exited, id, wait_until};

/// Every name in a run directory that something is read from or written to.
const NAMES: [&str; 13] =
    [STARTED, EXIT, EXIT_PART, STDOUT, STDERR, ORDER, OUT, START_ERROR, SCRIPT, LAST_LINES, SPEC, SLURM_JOB, FENCED];

/// What takes longer waits for something that never comes.
const HANGS_AFTER: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pipe,
    EmptyFolder,
    FullFolder,
    Socket,
    Device,
    DanglingLink,
    ForeignLink,
    LinkToPipe,
    Sparse,
    NoMode,
    Leased,
}

const KINDS: [Kind; 11] = [
    Kind::Pipe,
    Kind::EmptyFolder,
    Kind::FullFolder,
    Kind::Socket,
    Kind::Device,
    Kind::DanglingLink,
    Kind::ForeignLink,
    Kind::LinkToPipe,
    Kind::Sparse,
    Kind::NoMode,
    Kind::Leased,
];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A process that keeps a lease on a file, which an open without `O_NONBLOCK` waits 45 s for.
struct Lease(std::process::Child);

impl Drop for Lease {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Kind {
    /// Why it cannot be had here.
    fn is_missing(self) -> Option<&'static str> {
        match self {
            Kind::Device if !is_root() => Some("only root makes devices"),
            Kind::NoMode if is_root() => Some("modes do not bind root"),
            _ => None,
        }
    }

    fn put(self, path: &Path) -> Option<Lease> {
        let _ = fs::remove_file(path);
        match self {
            Kind::Pipe => mkfifoat(CWD, path, 0o600.into()).unwrap(),
            Kind::EmptyFolder => fs::create_dir(path).unwrap(),
            Kind::FullFolder => fs::create_dir_all(path.join("own")).unwrap(),
            Kind::Socket => mknodat(CWD, path, FileType::Socket, Mode::from(0o600), 0).unwrap(),
            // /dev/tty
            Kind::Device => mknodat(CWD, path, FileType::CharacterDevice, Mode::from(0o600), makedev(5, 0)).unwrap(),
            Kind::DanglingLink => symlink("/nowhere/at/all", path).unwrap(),
            Kind::ForeignLink => symlink("/etc/passwd", path).unwrap(),
            Kind::LinkToPipe => {
                let pipe = path.with_extension("pipe");
                mkfifoat(CWD, &pipe, 0o600.into()).unwrap();
                symlink(pipe, path).unwrap();
            }
            Kind::Sparse => File::create(path).unwrap().set_len(1 << 40).unwrap(),
            Kind::NoMode => {
                fs::write(path, "x").unwrap();
                fs::set_permissions(path, Permissions::from_mode(0o000)).unwrap();
            }
            Kind::Leased => return lease(path),
        }
        None
    }

    /// What is said of it; none for what is a file.
    fn told(self) -> Option<&'static str> {
        match self {
            Kind::Pipe => Some("is a named pipe, not a file"),
            Kind::EmptyFolder | Kind::FullFolder => Some("is a folder, not a file"),
            Kind::Socket => Some("is a socket, not a file"),
            Kind::Device => Some("is a device, not a file"),
            Kind::DanglingLink | Kind::ForeignLink | Kind::LinkToPipe => Some("is a symbolic link, not a file"),
            Kind::NoMode => Some("its mode is 000"),
            Kind::Leased => Some("is held by a lease of another process"),
            Kind::Sparse => None,
        }
    }
}

fn lease(path: &Path) -> Option<Lease> {
    fs::write(path, "x").unwrap();
    let script = "import fcntl, signal, sys, time\n\
        signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
        file = open(sys.argv[1], 'r+')\n\
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
        open(sys.argv[2], 'w').close()\n\
        time.sleep(600)\n";
    let told = path.with_extension("leased");
    let mut holder = Command::new("python3").args(["-c", script]).args([path, &told]).spawn().unwrap();
    wait_until("a lease", || told.exists() || holder.try_wait().unwrap().is_some());
    fs::remove_file(told).expect("this file system has leases");
    Some(Lease(holder))
}

/// Does it on a thread, since what hangs cannot be ended.
fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, answer) = channel();
    std::thread::spawn(move || done.send(work()));
    answer.recv_timeout(HANGS_AFTER).unwrap_or_else(|error| panic!("{what}: {error}"))
}

fn started() -> Started {
    Started {
        format: FORMAT,
        run: "abc.1".into(),
        shim_pid: 1,
        shim_start: 2,
        boot_id: "boot".into(),
        pid: 3,
        started_at_ms: 4,
        started_ticks: 5,
        grace_ms: None,
        cgroup: None,
        terminal: None,
        screen: None,
    }
}

/// A run whose shim has died, with output of both streams.
fn lay_out(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join(STARTED), serde_json::to_vec(&started()).unwrap()).unwrap();
    fs::write(dir.join(STDOUT), "out\n").unwrap();
    fs::write(dir.join(STDERR), "error\n").unwrap();
    let stretches = [4, 6 | 1 << 31].map(u32::to_le_bytes).concat();
    fs::write(dir.join(ORDER), [b"nxorder1".as_slice(), &stretches].concat()).unwrap();
    // Long ago: no order is on its way.
    for name in [STDOUT, STDERR] {
        let log = File::options().write(true).open(dir.join(name)).unwrap();
        log.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
}

fn read_all(dir: &Path, which: Which) -> std::io::Result<usize> {
    let mut reader = LogReader::open(dir, which)?;
    reader.tail(10)?;
    let mut bytes = 0;
    while let Some(chunk) = reader.read_next(1 << 16)? {
        bytes += chunk.bytes.len();
        // A sparse log has no end that is worth waiting for.
        if bytes > 1 << 20 {
            break;
        }
    }
    Ok(bytes)
}

/// All that a service reads of the directory of a run whose shim has died.
fn look(dir: &Path, name: &str, kind: Kind) {
    let what = format!("{name}, {kind:?}");
    let seen = inspect(dir).unwrap();
    let told = kind.told();
    match name {
        STARTED => assert_eq!(seen, Seen::Gone(None), "{what}"),
        _ => assert_eq!(seen, Seen::Gone(Some(started())), "{what}"),
    }
    match (name, told.or((kind == Kind::Sparse).then_some("is longer than"))) {
        (EXIT, Some(told)) => assert!(unfit_record(dir).unwrap().contains(told), "{what}: {:?}", unfit_record(dir)),
        _ => assert_eq!(unfit_record(dir), None, "{what}"),
    }
    assert!(inspect_from_afar(dir).is_ok() && !is_occupied(dir).unwrap() && !claim(dir).unwrap(), "{what}");
    let both = read_all(dir, Which::Both);
    match (name, told) {
        (STDOUT | STDERR, Some(told)) => {
            let error = both.unwrap_err().to_string();
            assert!(error.contains(told) && error.contains(name), "{what}: {error}");
            let [other, same] =
                if name == STDOUT { [Which::Stderr, Which::Stdout] } else { [Which::Stdout, Which::Stderr] };
            assert!(read_all(dir, other).is_ok() && read_all(dir, same).is_err(), "{what}");
        }
        (STDOUT | STDERR, None) => assert!(both.is_ok(), "{what}: {both:?}"),
        _ => assert_eq!(both.unwrap(), 10, "{what}"),
    }
    let _ = (last_line(dir), last_lines(dir, 5), kept_said(dir));
    assert!(name == STDERR || last_line(dir).as_deref() == Some("error"), "{what}");
}

/// The table, as the user who calls.
fn every_name_and_kind(root: &Path) {
    for kind in KINDS {
        if let Some(why) = kind.is_missing() {
            eprintln!("skipped {kind:?}: {why}");
            continue;
        }
        for name in NAMES {
            // Each needs a process that holds the lease: two names tell.
            if kind == Kind::Leased && ![EXIT, STDOUT].contains(&name) {
                continue;
            }
            let dir = root.join(format!("{kind:?}-{name}"));
            lay_out(&dir);
            let _lease = kind.put(&dir.join(name));
            let what = format!("{name}, {kind:?}");
            in_time(&what, move || look(&dir, name, kind));
        }
    }
}

#[test]
fn whatever_stands_at_any_name_of_a_run_directory_is_told_and_waited_for_by_nobody() {
    let temporary = tempfile::tempdir().unwrap();
    every_name_and_kind(temporary.path());
    if !is_root() {
        return;
    }
    // Another user, whom modes bind.
    let (own, home) = (temporary.path().join("own"), temporary.path().join("home"));
    fs::copy(std::env::current_exe().unwrap(), &own).unwrap();
    fs::create_dir(&home).unwrap();
    for path in [temporary.path(), &own, &home] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::chown(&home, Some(61_007), Some(61_007)).unwrap();
    let ran = Command::new("setpriv")
        .args(["--reuid", "61007", "--regid", "61007", "--clear-groups"])
        .arg(&own)
        .args(["table_of_another_user", "--ignored", "--nocapture"])
        .env("NEXUS_TABLE_DIR", &home)
        .current_dir("/")
        .output()
        .unwrap();
    assert!(ran.status.success() && fs::read_dir(&home).unwrap().count() > 50, "{ran:?}");
}

/// Called by the test above.
#[test]
#[ignore = "a part of another test"]
fn table_of_another_user() {
    if let Some(dir) = std::env::var_os("NEXUS_TABLE_DIR") {
        every_name_and_kind(&PathBuf::from(dir));
    }
}

#[test]
fn files_are_made_in_place_of_whatever_is_there_and_nothing_is_followed() {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path();
    let precious = root.join("precious");
    fs::write(&precious, "mine").unwrap();
    for kind in KINDS.into_iter().filter(|kind| kind.is_missing().is_none() && *kind != Kind::Leased) {
        let dir = root.join(format!("{kind:?}"));
        fs::create_dir(&dir).unwrap();
        let [log, record, part] = ["log", "record", "part"].map(|name| dir.join(name));
        for path in [&log, &record, &part] {
            kind.put(path);
        }
        let (of_log, of_record, of_part) = (log.clone(), record.clone(), part.clone());
        in_time(&format!("{kind:?}"), move || {
            use std::io::Write;
            run_file::append(&of_log).unwrap().0.write_all(b"x").unwrap();
            run_file::write_whole(&of_record, &of_part, b"whole").unwrap();
        });
        assert!(fs::symlink_metadata(&log).unwrap().is_file(), "{kind:?}");
        assert_eq!(fs::read(&record).unwrap(), b"whole", "{kind:?}");
        assert!(fs::symlink_metadata(&part).is_err(), "{kind:?}");
        // A job's own folder is moved and not emptied.
        assert_eq!(dir.join("log.moved/own").exists(), kind == Kind::FullFolder);
    }
    symlink(&precious, root.join("link")).unwrap();
    run_file::create(&root.join("link")).unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"mine");
    let too_long = run_file::read(&precious, 3).unwrap_err().to_string();
    assert_eq!(too_long, "precious is longer than 3 bytes");
}

#[test]
fn another_users_file_is_not_taken_for_ones_own() {
    if !is_root() {
        return eprintln!("skipped: only root gives files away");
    }
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join(STDOUT);
    fs::write(&path, "x").unwrap();
    std::os::unix::fs::chown(&path, Some(61_007), None).unwrap();
    let error = run_file::open(&path).unwrap_err();
    assert_eq!(error.to_string(), "stdout.log belongs to another user (uid 61007)");
    assert!(run_file::open_of_any_user(&path).is_ok(), "what is copied as a result may be");
}

/// Shell text that puts a kind of thing at each name of the run directory.
fn replacing(how: &str) -> String {
    format!(
        "cd $NEXUS_RUN_DIR; for n in {}; do rm -rf $n; {how}; done; cd ..; cd ..; echo x > $JOB.ready",
        NAMES.join(" ")
    )
}

const HOSTILE: [&str; 6] =
    ["mkfifo $n", "mkdir -p $n/own", "ln -s /nowhere/at/all $n", "ln -s /etc/passwd $n", "truncate -s 1T $n", "true"];

fn hostile(stage: &Stage, run: &str, how: &str, then: &str) -> RunSpec {
    let mut spec = stage.shell(run, &format!("{}; {then}", replacing(how)));
    spec.env.push("JOB", run);
    RunSpec { grace_ms: 200, gpu_locks: vec![format!("GPU-{run}")], ..spec }
}

fn run_name(number: usize) -> String {
    format!("{}.1", ["aaa", "aab", "aac", "aad", "aae", "aaf"][number])
}

#[test]
fn a_run_whose_files_were_replaced_is_found_by_the_next_node_and_can_be_ended() {
    let mut stage = Stage::new();
    for (number, how) in HOSTILE.into_iter().enumerate() {
        stage.start(hostile(&stage, &run_name(number), how, "sleep 600"));
    }
    let runs: Vec<String> = (0..HOSTILE.len()).map(run_name).collect();
    for run in &runs {
        stage.wait_for_file(&format!("{run}.ready"));
    }
    stage.close_node();
    stage.open_node();
    stage.node().observe(runs.iter().map(|run| stage.place(run)).collect());
    let mut unseen: Vec<_> = runs.iter().map(|run| id(run)).collect();
    stage.wait_for("word of all runs", |report| {
        match report {
            Report::Underway { run } | Report::Started { run, .. } => unseen.retain(|unseen| *unseen != run),
            other => panic!("{other:?}"),
        }
        unseen.is_empty().then_some(())
    });
    for run in &runs {
        stage.stop(run);
    }
    let mut ended = 0;
    stage.wait_for("all ends", |report| {
        match report {
            Report::Ended { record, .. } => {
                assert_eq!(record.cause, Cause::Asked, "{record:?}");
                ended += 1;
            }
            Report::Underway { .. } | Report::Started { .. } => {}
            other => panic!("{other:?}"),
        }
        (ended == runs.len()).then_some(())
    });
    for (number, run) in runs.iter().enumerate() {
        let next = format!("{}.2", &run[..3]);
        let spec = RunSpec { gpu_locks: vec![format!("GPU-{run}")], ..stage.shell(&next, "exit 3") };
        assert_eq!(stage.run(spec).status, exited(3), "its GPU is free: {}", HOSTILE[number]);
    }
}

#[test]
fn a_run_without_a_record_that_can_be_read_is_lost_with_the_reason() {
    let stage = Stage::new();
    let told = ["is a named pipe, not a file", "is a folder, not a file", "is a symbolic link, not a file"];
    for (number, (how, told)) in HOSTILE.into_iter().zip(told).enumerate() {
        let run = run_name(number);
        stage.start(hostile(&stage, &run, how, "kill -9 $PPID; sleep 600"));
        let error = stage.wait_for("an end", |report| match report {
            Report::Lost { error, .. } => Some(error),
            Report::Ended { .. } | Report::StartFailed { .. } => panic!("{report:?}"),
            _ => None,
        });
        let expected = format!("its watching process (shim) died, and its record cannot be read: exit.json {told}");
        assert_eq!(error, expected, "{how}");
        let next = RunSpec { gpu_locks: vec![format!("GPU-{run}")], ..stage.shell("bbb.1", "exit 3") };
        let next = RunSpec { run: format!("bbb.{}", number + 1), dir: stage.dir(&format!("bbb.{number}")), ..next };
        assert_eq!(stage.run(next).status, exited(3), "its GPU is free: {how}");
    }
}

#[test]
fn what_an_earlier_attempt_put_at_names_of_the_next_holds_up_nobody() {
    let stage = Stage::new();
    for (number, how) in HOSTILE.into_iter().take(4).enumerate() {
        let run = run_name(number);
        let dir = stage.dir(&run);
        fs::create_dir_all(&dir).unwrap();
        let text = format!("cd $0; for n in {}; do {how}; done; rm -rf {STARTED}", NAMES.join(" "));
        assert!(Command::new("sh").args(["-c", &text]).arg(&dir).status().unwrap().success());
        let spec = stage.shell(&run, "echo out; echo error >&2; exit 4");
        let record = stage.run(RunSpec { script: Some("text".into()), ..spec });
        assert_eq!((record.status, record.lost_output_bytes), (ExitStatus::Exited { code: 4 }, 0), "{how}");
        assert_eq!(stage.log(&run, STDOUT), "out\n", "{how}");
        assert_eq!(stage.log(&run, STDERR), "error\n", "{how}");
        wait_until("its record", || matches!(inspect(&dir), Ok(Seen::Exited(_))));
    }
}
