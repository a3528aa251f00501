//! Jobs that attack what nexus keeps of them. They are the user's own, so nothing can be kept from them; but nobody else's
//! job suffers, the service lives, and what is said of them is true.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nexus_testkit::{Nexus, proc, until};

use super::lives;
use crate::NEXUS;

#[test]
fn a_forged_record_of_its_end_is_not_believed() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    // What a completed run leaves is put in the place of what is to come.
    let done = nexus.done("true");
    let forged = format!(
        "for i in 1 2 3 4 5; do echo '{{\"format\":1,\"exit_code\":0}}' > $NEXUS_RUN_DIR/exit.json; sleep 0.1; done; \
         cp {}/exit.json $NEXUS_RUN_DIR/exit.json 2>/dev/null; exit 9",
        done["log_dir"].as_str().unwrap()
    );
    let id = nexus.add(&forged);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["exit_code"]), (&"failed".into(), &9.into()), "{job}");
    lives(&nexus);
}

#[test]
fn a_forged_record_is_not_believed_by_the_next_service_either() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("echo '{}' > $NEXUS_RUN_DIR/exit.json; echo forged; sleep 3; exit 9");
    until("it is forged", || nexus.stdout_so_far(&id).contains("forged").then_some(()));
    nexus.kill_service();
    nexus.start(1);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["exit_code"]), (&"failed".into(), &9.into()), "{job}");
    lives(&nexus);
}

#[test]
fn a_run_directory_that_is_removed_takes_only_its_own_job_along() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let other = nexus.add("sleep 2; exit 7");
    let id = nexus.add("rm -rf $NEXUS_RUN_DIR; sleep 1; exit 5");
    // The shim still knows how it ended, or nobody does: it must not count as completed, nor run again.
    let job = nexus.ended(&id);
    assert_ne!(job["state"], "completed", "{job}");
    assert_eq!(job["attempt"], 1, "{job}");
    assert_eq!(nexus.ended(&other)["exit_code"], 7);
    lives(&nexus);
}

#[test]
fn logs_that_lead_elsewhere_are_not_followed_to_write() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let precious = nexus.file("precious", "mine\n");
    let target = precious.display();
    let names = "stdout.log stderr.log order.idx exit.json last_lines script start_error";
    let id = nexus.add(&format!(
        "cd $NEXUS_RUN_DIR; for f in {names}; do rm -f $f; ln -s {target} $f; done; echo over; echo over >&2; exit 3"
    ));
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["exit_code"]), (&"failed".into(), &3.into()), "{job}");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "mine\n");
    // A folder that leads elsewhere is not emptied by forgetting the job.
    let log_dir = PathBuf::from(job["log_dir"].as_str().unwrap());
    let kept = nexus.work().join("kept");
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("file"), "mine").unwrap();
    fs::remove_dir_all(&log_dir).unwrap();
    std::os::unix::fs::symlink(&kept, &log_dir).unwrap();
    nexus.ok(&["forget", "-y", &id]);
    assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "mine");
    lives(&nexus);
}

#[test]
fn a_sparse_log_of_100_gb_keeps_nobody_waiting() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let id = nexus.add("echo first; truncate -s 100G $NEXUS_RUN_DIR/stdout.log; echo; echo last");
    let job = nexus.ended(&id);
    assert_eq!(job["state"], "completed", "{job}");
    let log = PathBuf::from(job["stdout_path"].as_str().unwrap());
    assert!(fs::metadata(&log).unwrap().len() >= 100 << 30);
    assert!(fs::metadata(&log).unwrap().blocks() < 1 << 20, "it takes no room");
    let before = proc::bytes_read(nexus.service_pid());
    assert_eq!(nexus.ok(&["logs", "-n", "1", &id]), "last");
    nexus.ok(&["show", &id]);
    nexus.ok(&["why", &id]);
    nexus.ok(&["status"]);
    let read = proc::bytes_read(nexus.service_pid()) - before;
    assert!(read < 1 << 30, "{read} bytes were read to show its end");
    lives(&nexus);
}

/// What a job can put in the place of a file, and what is said of it as a log; none of what is a file.
const REPLACEMENTS: [(&str, Option<&str>); 6] = [
    ("mkfifo $f", Some("is a named pipe, not a file")),
    ("mkdir -p $f/own", Some("is a folder, not a file")),
    (
        "python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' $f",
        Some("is a socket, not a file"),
    ),
    ("ln -s /nowhere/at/all $f", Some("is a symbolic link, not a file")),
    ("ln -s /etc/passwd $f", Some("is a symbolic link, not a file")),
    ("truncate -s 1T $f", None),
];

#[test]
fn pipes_in_a_run_directory_hold_up_nobody() {
    let count = if std::env::var_os("NEXUS_TEST_LONG").is_some() { REPLACEMENTS.len() } else { 1 };
    for (how, told) in &REPLACEMENTS[..count] {
        let nexus = Nexus::with_gpus(NEXUS, 1);
        let done = nexus.work().join("replaced");
        let names =
            "started exit.json exit.json.part stdout.log stderr.log order.idx out start_error script last_lines";
        let replace = format!("cd $NEXUS_RUN_DIR; for f in {names}; do rm -rf $f; {how}; done");
        let id = nexus.add(&format!("{replace}; touch {}; sleep 600", done.display()));
        until("the files are replaced", || done.exists().then_some(()));
        let reads = |nexus: &Nexus| {
            if let Some(told) = told {
                let why = nexus.fails(1, &["logs", &id]);
                assert!(why.contains(told), "{how}: {why}");
            }
            for words in [vec!["show", &id], vec!["why", &id], vec!["status"], vec!["queue"], vec!["history"]] {
                nexus.ok(&words);
            }
        };
        reads(&nexus);
        nexus.kill_service();
        nexus.start(1);
        reads(&nexus);
        assert_eq!(nexus.job(&id)["state"], "running", "{how}");
        nexus.ok(&["kill", &id]);
        assert_eq!(nexus.ended(&id)["state"], "killed", "{how}");
        reads(&nexus);
        // The GPU is free.
        lives(&nexus);

        // A shim that is killed leaves no record: what lies there is none.
        let id = nexus.add(&format!("{replace}; kill -9 $PPID; sleep 600"));
        let job = nexus.ended(&id);
        assert_ne!(job["state"], "completed", "{how}: {job}");
        assert!(nexus.ok(&["show", &id]).contains("exit.json"), "{how}");
        lives(&nexus);
        nexus.ok(&["forget", "-y", &id]);
        nexus.ok(&["stop"]);
    }
}

#[test]
fn a_flood_on_the_sockets_of_a_run_harms_nothing() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let flood = nexus.file(
        "flood.py",
        "import os, re, socket\n\
         mine = os.environ['NEXUS_JOB_ID']\n\
         names = [line.split()[-1] for line in open('/proc/net/unix') if line.split()[-1].startswith('@nexus-' + mine)]\n\
         names += [os.environ['HOME_OF_NEXUS'] + '/' + n for n in os.listdir(os.environ['HOME_OF_NEXUS']) if 'sock' in n]\n\
         print(len(names), 'sockets', flush=True)\n\
         for name in names:\n    \
             for junk in [b'', b'\\0' * 70000, b'\\xff' * 70000, b'GET / HTTP/1.1\\r\\n\\r\\n', os.urandom(70000)]:\n        \
                 for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):\n            \
                     s = socket.socket(socket.AF_UNIX, kind); s.settimeout(2)\n            \
                     try:\n                \
                         s.connect('\\0' + name[1:] if name[0] == '@' else name); s.send(junk[:60000]); s.close()\n            \
                     except OSError: pass\n",
    );
    let home = nexus.home().display().to_string();
    let command = format!("python3 {}; echo through; exit 4", flood.display());
    let id = nexus.add_with(&["--env", &format!("HOME_OF_NEXUS={home}")], &command);
    let job = nexus.ended(&id);
    assert_eq!((&job["state"], &job["exit_code"]), (&"failed".into(), &4.into()), "{job}");
    assert!(nexus.stdout_of(&id).contains("through"), "{}", nexus.stdout_of(&id));
    lives(&nexus);
}

#[test]
fn a_job_that_forks_without_end_is_killed_to_the_last() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    // Some hundred at a time, each of which makes the next before it ends.
    let bomb =
        nexus.file("bomb.sh", "n=$1; while :; do (sh $0 $((n + 1)) &) ; sleep 0.05; [ $n -gt 3 ] && exit; done\n");
    let mark = bomb.display().to_string();
    let id = nexus.add(&format!("sh {mark} 0; sleep 60"));
    until("there are many", || (proc::children_marked(&mark).len() > 30).then_some(()));
    nexus.ok(&["kill", &id]);
    assert_eq!(nexus.ended(&id)["state"], "killed");
    until("none is left", || proc::children_marked(&mark).is_empty().then_some(()));
    lives(&nexus);
}

#[test]
fn escape_sequences_reach_no_terminal_through_lists() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let nasty = "true \u{1b}]0;owned\u{7} \u{1b}[2J \u{9b}31m \u{202e}x";
    let id = nexus.add_with(&["--hold"], nasty);
    let running = nexus.add(&format!("echo '{nasty}'; exit 1"));
    nexus.ended(&running);
    for words in [
        vec!["queue"],
        vec!["ls"],
        vec!["history"],
        vec!["status"],
        vec!["show", &id],
        vec!["why", &id],
        vec!["why", &running],
        vec!["--color", "never", "show", &running],
    ] {
        let shown = nexus.run(&words);
        for text in [&shown.stdout, &shown.stderr] {
            let bad = |c: &char| c.is_control() && *c != '\n' && *c != '\t' || ('\u{202a}'..='\u{202e}').contains(c);
            assert!(!text.chars().any(|c| bad(&c)), "{words:?}: {text:?}");
        }
    }
}
