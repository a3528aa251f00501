//! Job files made to hurt: each is told by its line, the valid rest counts, nothing comes twice.

use std::fs::OpenOptions;
use std::io::{Seek, Write};

use nexus_testkit::{Nexus, until};

use super::lives;
use crate::NEXUS;

/// Commands of the queue, and what was said.
fn queued(nexus: &Nexus, file: &[u8], args: &[&str]) -> (Vec<String>, String) {
    std::fs::write(nexus.work().join("f"), file).unwrap();
    let said = nexus.run(&[&["import", "--quiet"], args, &["f"]].concat());
    let jobs = said.stdout.lines().map(|id| nexus.job(id)["command"].as_str().unwrap().to_string());
    (jobs.collect(), said.stderr)
}

#[test]
fn bytes_that_are_no_text_and_lines_without_end() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    nexus.ok(&["pause"]);
    let (jobs, told) = queued(&nexus, b"\xef\xbb\xbfecho bom\r\necho crlf\r\n\r\n# c\r\necho last", &[]);
    assert_eq!((jobs, told), (vec!["echo bom".into(), "echo crlf".into(), "echo last".into()], String::new()));
    let (jobs, told) = queued(&nexus, b"echo a1\necho \xff\xfe\necho b1\0c\necho d1\n", &[]);
    assert_eq!(jobs, ["echo a1", "echo d1"]);
    assert_eq!(told, "line 2 is not taken: it is not valid UTF-8\nline 3 is not taken: it has a NUL byte\n");
    let mut long = b"echo a2\necho ".to_vec();
    long.resize(10 << 20, b'x');
    long.extend_from_slice(b"\necho b2\n");
    let (jobs, told) = queued(&nexus, &long, &[]);
    assert_eq!(jobs, ["echo a2", "echo b2"]);
    assert!(told.starts_with("line 2 is not taken: it has 10485752 bytes") && told.lines().count() == 1, "{told}");
    lives_paused(&nexus);
}

#[test]
fn a_file_that_is_no_utf_8_at_all() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let utf_16: Vec<u8> = "\u{feff}{\"command\": \"true\"}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(nexus.work().join("f"), utf_16).unwrap();
    for args in [&["import", "f"][..], &["import", "--as-history", "f"]] {
        let said = nexus.fails(1, args);
        assert!(
            said.starts_with("error: f, line 1: the file is written in UTF-16")
                && said.ends_with("nothing was queued\n"),
            "{said}"
        );
    }
    lives(&nexus);
}

#[test]
fn quotes_lists_and_mixtures() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    nexus.ok(&["pause"]);
    nexus.file("t.py", "");
    let table = b"0,t.py,,\"--a 1,0\n0,t.py,,--b 1,3-1\n0,t.py,,--c 'x,0\n0,t.py,,--d 1,0\n0,,,--e,\n";
    let (jobs, told) = queued(&nexus, table, &[]);
    assert_eq!(jobs.len(), 1);
    assert!(jobs[0].ends_with("t.py --d 1"), "{jobs:?}");
    let lines: Vec<&str> = told.lines().map(|line| line.split(" is not taken").next().unwrap()).collect();
    assert_eq!(lines, ["line 1", "line 2", "line 3", "line 5"], "{told}");
    assert!(told.contains("\"3-1\" is no list of GPUs"), "{told}");
    let (jobs, told) = queued(&nexus, b"0,t.py,,--e 1,0\npython t.py\n", &[]);
    assert!(jobs.is_empty());
    assert!(told.starts_with("error: f, line 2: it is a plain command, and line 1 is csv: "), "{told}");
    let (jobs, _) = queued(&nexus, b"0,t.py,,--e 1,0\npython t.py\n", &["--format", "lines"]);
    assert_eq!(jobs, ["0,t.py,,--e 1,0", "python t.py"]);
}

#[test]
fn a_watched_file_that_is_cut_and_replaced_again_and_again() {
    let nexus = Nexus::with_gpus(NEXUS, 1);
    let path = nexus.work().join("j.txt");
    // A line that fails would come again were it ever believed to be gone.
    std::fs::write(&path, "echo 0 >> seen; exit 3\n").unwrap();
    nexus.ok(&["import", "--watch", "j.txt"]);
    let mut text = "echo 0 >> seen; exit 3\n".to_string();
    for number in 1..40 {
        text.push_str(&format!("echo {number} >> seen; exit 3\n"));
        match number % 3 {
            // In place: cut, then written piece by piece.
            0 => {
                let mut file = OpenOptions::new().write(true).open(&path).unwrap();
                file.set_len(0).unwrap();
                file.rewind().unwrap();
                text.as_bytes().chunks(7).for_each(|piece| file.write_all(piece).unwrap());
            }
            1 => {
                std::fs::write(nexus.work().join("next"), &text).unwrap();
                std::fs::rename(nexus.work().join("next"), &path).unwrap();
            }
            _ => {
                std::fs::remove_file(&path).unwrap();
                std::fs::write(&path, &text).unwrap();
            }
        }
        if number == 20 {
            nexus.kill_service();
            nexus.ok(&["start"]);
        }
    }
    let seen = || {
        let text = std::fs::read_to_string(nexus.work().join("seen")).unwrap_or_default();
        let mut numbers: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    };
    let all: Vec<u32> = (0..40).collect();
    until("each line ran", || (seen().len() >= all.len()).then_some(()));
    nexus.run(&["wait", "--all"]);
    assert_eq!(seen(), all);
    lives(&nexus);
}

/// Of a queue that is paused.
fn lives_paused(nexus: &Nexus) {
    nexus.ok(&["resume"]);
    lives(nexus);
}

#[test]
fn files_without_end_are_refused_before_memory_is_full() {
    let nexus = Nexus::fresh(NEXUS);
    let said = nexus.fails(1, &["add", "--env-file", "/dev/zero", "true"]);
    assert!(said.contains("it is longer than 256 MiB"), "{said}");
    let sparse = nexus.file("sparse", "");
    std::fs::File::options().write(true).open(&sparse).unwrap().set_len(1 << 40).unwrap();
    nexus.start(1);
    let said = nexus.fails(1, &["import", "--as-history", "--format", "jsonl", sparse.to_str().unwrap()]);
    assert!(said.contains("line 1: it is longer than 64 MiB"), "{said}");
}
