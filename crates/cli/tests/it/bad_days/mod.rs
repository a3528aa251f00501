//! Bad input, full disks, strange homes: a clear message, nothing lost, the service lives.

mod clients;
mod clock;
mod config;
mod damage;
mod database;
mod disk;
mod export;
mod folders;
mod homes;
mod hostile;
mod import;
mod input;
mod jobs_file;
mod limits;
mod network_home;
mod owners;
mod results;
mod sockets;
mod strangers;
mod web;

use std::path::Path;
use std::process::Command;

use nexus_testkit::Nexus;

/// The service still takes jobs and runs them.
#[track_caller]
fn lives(nexus: &Nexus) {
    assert_eq!(nexus.done("true")["state"], "completed");
}

/// Runs SQL on a database that no service has open; the first value of its last answer.
#[track_caller]
pub fn sql(database: &Path, statements: &str) -> String {
    let program = "import sqlite3, sys\n\
                   db = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                   for one in sys.argv[2].split(';'):\n    row = db.execute(one).fetchone()\n\
                   print(row[0] if row else '', end='')";
    let done = Command::new("python3").args(["-c", program]).arg(database).arg(statements).output();
    let done = done.expect("python3 is there");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Whether the test may mount and change users; says so where it may not.
pub fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    if !root {
        println!("skipped: this test needs root");
    }
    root
}
