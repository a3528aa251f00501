//! Holds what nexus says against what was acknowledged and what the ledger tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use nexus_testkit::{Nexus, until};
use serde_json::Value;

use super::client::Entry;
use super::ledger::{Ledger, Left, Part};

/// Jobs that were held, and not released since, but are not held.
pub fn of_holds(nexus: &Nexus, entries: &[Entry]) -> Vec<String> {
    let live = by_id(&nexus.json(&["ls", "--json"]));
    let is_held = |entry: &&Entry| live.get(&entry.id).is_some_and(|job| job["state"] == "held");
    let freed = entries.iter().filter(|entry| entry.is_kept()).filter(|entry| !is_held(entry));
    freed.map(|entry| format!("held, but not any more: {entry}")).collect()
}

/// Waits until nothing is alive; every job there ever was.
pub fn all_ended(nexus: &Nexus) -> BTreeMap<String, Value> {
    let waited = nexus.run_limited(&["wait", "--all"]);
    let left = nexus.json(&["ls", "--json"]);
    assert!(left.as_array().is_some_and(Vec::is_empty), "{waited}\nstill alive: {left:#}");
    by_id(&nexus.json(&["history", "--all", "--json"]))
}

/// `shot` are the runs, as `abc.1`, whose shims somebody killed.
pub fn of_jobs(
    jobs: &BTreeMap<String, Value>,
    entries: &[Entry],
    ledger: &Ledger,
    shot: &BTreeSet<String>,
) -> Vec<String> {
    let parts = ledger.parts();
    let entries: BTreeMap<&str, &Entry> = entries.iter().map(|entry| (entry.id.as_str(), entry)).collect();
    let lost = entries.values().filter(|entry| !jobs.contains_key(&entry.id));
    let mut findings: Vec<String> = lost
        .map(|entry| format!("acknowledged and not there: {entry}\n    ledger: {:?}", parts.get(&entry.id)))
        .collect();
    let unknown = parts.iter().filter(|(id, _)| !jobs.contains_key(*id));
    findings.extend(unknown.map(|(id, part)| format!("ran and is not there: {id} {part:?}")));
    let nothing = Part::default();
    for (id, job) in jobs {
        let (part, entry) = (parts.get(id).unwrap_or(&nothing), entries.get(id.as_str()).copied());
        let is_shot = shot.contains(&format!("{id}.{}", job["attempt"]));
        let as_often = ran_as_often_as_it_may(job, part, entry, shot);
        let is_true = || if is_shot { lost_is_true(job, part, entry) } else { state_is_true(job, part, entry) };
        if let Err(why) = as_often.and_then(|()| is_true()) {
            let (state, reason, code) = (&job["state"], &job["reason"], &job["exit_code"]);
            let said = format!("{state} {reason} code {code} signal {} runs {}", job["signal"], job["attempt"]);
            let asked = entry.map_or("never acknowledged".to_string(), Entry::to_string);
            findings.push(format!("{id}: {why}\n    nexus: {said}\n    ledger: {part:?}\n    asked: {asked}"));
        }
    }
    findings
}

/// An attempt runs once, and there is a second one only for those that have a retry, and then always; but not for one that
/// failed by itself while it was asked to end.
fn ran_as_often_as_it_may(
    job: &Value,
    part: &Part,
    entry: Option<&Entry>,
    shot: &BTreeSet<String>,
) -> Result<(), String> {
    if let Some((attempt, times)) = part.starts.iter().find(|(_, times)| **times > 1) {
        return Err(format!("attempt {attempt} ran {times} times"));
    }
    let retried = job["command"].as_str().is_some_and(|command| command.contains(" retry "));
    // A run whose shim was shot at once is not in the ledger.
    let id = job["id"].as_str().unwrap_or_default();
    let shot = shot.iter().filter_map(|run| run.strip_prefix(id)?.strip_prefix('.')?.parse::<u32>().ok());
    let runs: BTreeSet<u32> = part.starts.keys().copied().chain(shot).collect();
    let end_tried = entry.is_none_or(Entry::end_tried);
    match runs.len() {
        0 | 1 if retried && job["state"] == "failed" && !end_tried => Err("it has a retry left".into()),
        0 | 1 => Ok(()),
        2 if retried => Ok(()),
        more => Err(format!("it ran {more} times")),
    }
}

/// One whose shim was shot is lost; or it was asked to end; or it had ended before, and all is as ever.
fn lost_is_true(job: &Value, part: &Part, entry: Option<&Entry>) -> Result<(), String> {
    match (job["state"].as_str(), job["reason"].as_str()) {
        (Some("failed"), Some("lost")) => Ok(()),
        (Some("killed"), Some("user")) if entry.is_none_or(Entry::end_tried) => Ok(()),
        _ => state_is_true(job, part, entry),
    }
}

fn state_is_true(job: &Value, part: &Part, entry: Option<&Entry>) -> Result<(), String> {
    let (state, reason) = (job["state"].as_str().unwrap_or_default(), job["reason"].as_str().unwrap_or_default());
    let (code, signal) = (job["exit_code"].as_i64(), job["signal"].as_i64());
    // Of one whose acknowledgement was cut off `finish` may have been the end.
    let end_tried = entry.is_none_or(Entry::end_tried);
    let must = |holds: bool, why: &str| if holds { Ok(()) } else { Err(why.to_string()) };
    let last = part.ends.last_key_value().map(|(_, ends)| ends[0]);
    if let Some(entry) = entry {
        must(!entry.acknowledged("remove") || state == "killed", "removed, but not killed")?;
        must(!entry.acknowledged("remove") || part.starts.is_empty() || end_of_a_retry(part), "removed, but ran")?;
        must(!entry.long || state == "killed", "never ends by itself, but was not killed")?;
    }
    if state == "killed" {
        must(end_tried, "killed, but nobody asked for that")?;
    }
    match last {
        None if part.starts.is_empty() => must(state == "killed" && code.is_none(), "never ran, but was not killed"),
        // Shot after its grace, before it could say so.
        None => must(state == "killed" && signal == Some(9), "no end in the ledger"),
        Some(Left::Asked) => must((state, reason, code) == ("killed", "user", Some(143)), "ended because it was asked"),
        // The request met one that was leaving by itself, or between two attempts.
        Some(Left::Exit(_) | Left::Signal(_)) if state == "killed" => Ok(()),
        Some(Left::Exit(0)) => must((state, code) == ("completed", Some(0)), "exited with 0"),
        Some(Left::Exit(own)) => {
            must((state, reason, code) == ("failed", "exit", Some(own)), "exited with a code of its own")
        }
        Some(Left::Signal(own)) => {
            must((state, reason, signal) == ("failed", "signal", Some(own)), "was ended by a signal")
        }
    }
}

/// Whether its first attempt had failed when it was removed.
fn end_of_a_retry(part: &Part) -> bool {
    part.starts.keys().eq([&1]) && part.ends.get(&1) == Some(&vec![Left::Exit(7)])
}

/// Nothing runs, nothing is left lying about, the numbers add up and the database is whole.
pub fn of_home(nexus: &Nexus, jobs: &BTreeMap<String, Value>) -> Vec<String> {
    let mut findings = Vec::new();
    let left = nexus.job_processes();
    findings.extend((!left.is_empty()).then(|| format!("still running: {left:?}")));
    let status = nexus.json(&["status", "--json"]);
    for state in ["completed", "failed", "killed"] {
        let counted = jobs.values().filter(|job| job["state"] == state).count() as u64;
        let told = &status[state];
        findings.extend((*told != counted).then(|| format!("{told} {state} in the status, {counted} in the history")));
    }
    let wrong = sql(nexus, "PRAGMA integrity_check");
    findings.extend((wrong != ["ok"]).then(|| format!("integrity_check: {wrong:?}")));
    findings.extend(untidy(nexus));
    findings
}

/// Run directories are cleared by and by: one that holds more than logs is known to be due, and they get fewer.
fn untidy(nexus: &Nexus) -> Option<String> {
    const TIDIED: &str = "SELECT id || '/' || number FROM runs JOIN jobs USING (n) WHERE tidied = 1";
    let tidied = sql(nexus, TIDIED);
    let begin = leftovers(nexus);
    if let Some((run, file)) = tidied.iter().find_map(|run| begin.get_key_value(run)) {
        return Some(format!("{run} is said to be tidied and is not: there is {}", file.display()));
    }
    until("run directories are cleared", || {
        let left = leftovers(nexus).len();
        (left == 0 || left + 20 <= begin.len()).then_some(())
    });
    None
}

/// `id/number` of runs whose directories hold more than logs, with something that they hold.
fn leftovers(nexus: &Nexus) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    for (name, path) in files(&nexus.home().join("logs")) {
        let id = name.strip_prefix("job_").unwrap_or_else(|| panic!("logs hold {name}"));
        for (name, path) in files(&path) {
            if let Some(number) = name.strip_prefix("attempt_") {
                let more = files(&path).into_iter().find(|(name, _)| !is_log(name));
                found.extend(more.map(|(_, path)| (format!("{id}/{number}"), path)));
            } else if !is_log(&name) {
                found.insert(format!("{id}/1"), path);
            }
        }
    }
    found
}

/// Those that are gone meanwhile hold none.
fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect()
}

fn is_log(name: &str) -> bool {
    matches!(name, "stdout.log" | "stderr.log" | "order.idx")
}

/// First column of a query, read by a program that is not ours.
fn sql(nexus: &Nexus, query: &str) -> Vec<String> {
    let program = "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(row[0])";
    let mut python = Command::new("python3");
    let asked = python.args(["-c", program]).arg(nexus.home().join("nexus.db")).arg(query).output();
    let asked = asked.expect("python3 is there");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    String::from_utf8_lossy(&asked.stdout).lines().map(str::to_string).collect()
}

fn by_id(jobs: &Value) -> BTreeMap<String, Value> {
    let jobs = jobs.as_array().expect("a list of jobs");
    jobs.iter().map(|job| (job["id"].as_str().expect("an id").to_string(), job.clone())).collect()
}
