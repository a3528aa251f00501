//! What a job prints and what is kept of it.

use std::os::unix::fs::PermissionsExt;

use nexus_api::run_dir::{ExitStatus, ORDER, OUT, RunSpec, STDERR, STDOUT};
use nexus_node::logs::{LogReader, Which};
use nexus_node::processes;

use crate::stage::{Stage, exited};

#[test]
fn a_job_has_terminals_and_its_bytes_are_kept_as_written() {
    let stage = Stage::new();
    let text = "for i in 0 1 2; do [ -t $i ] || exit 9; done; : > /dev/tty || exit 8
        printf 'a\\nb\\tc\\r\\n'; printf 'e\\n' >&2; stty size; ps -o tty= -p $$ > where";
    let record = stage.run(stage.shell("aaa.1", text));
    assert_eq!(record.status, exited(0));
    assert_eq!(stage.log("aaa.1", STDOUT), "a\nb\tc\r\n40 120\n");
    assert_eq!(stage.log("aaa.1", STDERR), "e\n");
    assert!(stage.wait_for_file("where").starts_with("pts/"));
    let mode = std::fs::metadata(stage.dir("aaa.1").join(STDOUT)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn without_a_terminal_there_are_pipes_and_no_input() {
    let stage = Stage::new();
    let text = "for i in 0 1 2; do [ -t $i ] && exit 9; done; cat; printf out; printf err >&2";
    let record = stage.run(RunSpec { tty: false, ..stage.shell("aaa.1", text) });
    assert_eq!(record.status, exited(0));
    assert_eq!((stage.log("aaa.1", STDOUT), stage.log("aaa.1", STDERR)), ("out".into(), "err".into()));
}

#[test]
fn the_order_of_both_streams_is_kept() {
    for tty in [true, false] {
        let stage = Stage::new();
        // Waits until each piece has been kept before it prints the next.
        let text = "kept() { while ! grep -q \"$1\" logs/aaa.1/$2.log; do :; done; }
            for i in 1 2 3 4 5; do echo out$i; kept out$i stdout; echo err$i >&2; kept err$i stderr; done; echo x; echo y";
        let spec = RunSpec { tty, out: Some("copy".into()), ..stage.shell("aaa.1", text) };
        std::fs::write(stage.home.path().join("copy"), "before\n").unwrap();
        assert_eq!(stage.run(spec).status, exited(0));
        let expected: String = (1..=5).map(|i| format!("out{i}\nerr{i}\n")).collect::<String>() + "x\ny\n";
        let mut reader = LogReader::open(&stage.dir("aaa.1"), Which::Both).unwrap();
        let mut all = Vec::new();
        while let Some(chunk) = reader.read_next(3).unwrap() {
            all.extend(chunk.bytes);
        }
        assert_eq!(String::from_utf8(all).unwrap(), expected);
        assert_eq!(stage.wait_for_file("copy"), format!("before\n{expected}"));
        let order = std::fs::read(stage.dir("aaa.1").join(ORDER)).unwrap();
        assert_eq!(&order[..8], b"nxorder1");
        assert_eq!(order.len(), 8 + 4 * 11, "stretches of one stream are joined");
    }
}

#[test]
fn a_copy_with_two_names_is_no_other_runs() {
    let stage = Stage::new();
    let folder = stage.home.path().join("a/b");
    let own = |run: &str| folder.join(format!("job_{run}.log"));
    for run in ["aaa.1", "bbb.1", "ccc.1"] {
        let (out, out_else) = (Some(folder.join("job.log")), Some(own(run)));
        let spec = RunSpec { out, out_else, ..stage.shell(run, &format!("echo {run}; echo err >&2")) };
        assert_eq!(stage.run(spec).status, exited(0));
        let became = std::fs::read_link(stage.dir(run).join(OUT)).unwrap();
        assert_eq!(became, if run == "aaa.1" { folder.join("job.log") } else { own(run) });
        let copy = std::fs::read_to_string(became).unwrap();
        assert!(copy.contains(&format!("{run}\n")) && copy.contains("err\n") && copy.len() == run.len() + 5, "{copy}");
    }
    let in_the_way = stage.home.path().join("file");
    std::fs::write(&in_the_way, "").unwrap();
    let (out, out_else) = (Some(in_the_way.join("job.log")), Some(in_the_way.join("x.log")));
    let record = stage.run(RunSpec { out, out_else, ..stage.shell("ddd.1", "true") });
    assert!(matches!(&record.status, ExitStatus::StartError { error, .. } if error.contains("/file: ")), "{record:?}");
}

#[test]
fn one_stream_alone_needs_no_order() {
    let stage = Stage::new();
    stage.run(stage.shell("aaa.1", "echo only"));
    assert!(!stage.dir("aaa.1").join(ORDER).exists());
}

#[test]
fn much_output_arrives_whole() {
    for tty in [true, false] {
        let stage = Stage::new();
        let text = "seq 1 200000; seq 1 1000 >&2";
        assert_eq!(stage.run(RunSpec { tty, ..stage.shell("aaa.1", text) }).status, exited(0));
        let expected: String = (1..=200_000).map(|i| format!("{i}\n")).collect();
        assert!(stage.log("aaa.1", STDOUT) == expected, "tty {tty}");
        assert_eq!(stage.log("aaa.1", STDERR).lines().count(), 1000);
    }
}

#[test]
fn the_last_words_are_kept_however_quickly_the_job_ends() {
    let stage = Stage::new();
    for number in 1..=40 {
        let run = format!("aaa.{number}");
        let record = stage.run(stage.shell(&run, "printf 'last words'; printf 'and these' >&2; kill -9 $$"));
        assert_eq!(record.lost_output_bytes, 0);
        assert_eq!(stage.log(&run, STDOUT), "last words");
        assert_eq!(stage.log(&run, STDERR), "and these");
    }
}

#[test]
fn what_is_left_in_the_terminal_is_read_after_the_end() {
    let stage = Stage::new();
    // The shim sleeps while the job prints more than one read of a terminal takes (4095 bytes), and ends.
    let text = "while ! [ -e go ]; do sleep 0.01; done; kill -STOP $PPID; seq 1 1100; seq 1 1100 >&2";
    stage.start(stage.shell("aaa.1", text));
    let pid = stage.start_of("aaa.1");
    std::fs::write(stage.home.path().join("go"), "").unwrap();
    crate::stage::wait_until("its end", || processes::stat(pid).is_none_or(|stat| stat.zombie));
    let shim = processes::stat(processes::stat(pid).unwrap().parent).unwrap().process;
    assert!(shim.signal(libc::SIGCONT));
    assert_eq!(stage.end_of("aaa.1").status, exited(0));
    for name in [STDOUT, STDERR] {
        assert_eq!(stage.log("aaa.1", name).lines().count(), 1100);
    }
}

#[test]
fn a_closed_terminal_may_be_opened_again() {
    let stage = Stage::new();
    let text = "exec 3<&- <&- >&- 2>&-; sleep 0.05; exec > /dev/tty; seq 1 20000";
    assert_eq!(stage.run(stage.shell("aaa.1", text)).status, exited(0));
    assert_eq!(stage.log("aaa.1", STDOUT).lines().count(), 20_000);
}

#[test]
fn the_environment_is_the_specs_and_names_the_run_directory() {
    let stage = Stage::new();
    let mut spec = stage.spec("aaa.1", &["/usr/bin/env"]);
    spec.env = [("ONE", "1 ä\n2"), ("NEXUS_RUN_DIR", "/wrong")].into_iter().collect();
    assert_eq!(stage.run(spec).status, exited(0));
    let expected = format!("ONE=1 ä\n2\nNEXUS_RUN_DIR={}\n", stage.dir("aaa.1").display());
    assert_eq!(stage.log("aaa.1", STDOUT), expected);
}

#[test]
fn the_command_inherits_nothing_but_its_streams() {
    let stage = Stage::new();
    stage.run(stage.shell("aaa.1", "ls -1 /proc/$$/fd; readlink /proc/$$/cwd"));
    let expected = format!("0\n1\n2\n{}\n", stage.home.path().display());
    assert_eq!(stage.log("aaa.1", STDOUT), expected);
    stage.run(stage.spec("bbb.1", &["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]));
    let printed = stage.log("bbb.1", STDOUT);
    let bits = printed.lines().map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap());
    // 32 and 33 belong to the C library, which lets nobody change them.
    let of_the_c_library = 0b11 << 31;
    assert_eq!(bits.map(|bits| bits & !of_the_c_library).collect::<Vec<_>>(), [0, 0], "{printed}");
}
