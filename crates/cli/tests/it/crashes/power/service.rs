//! A real service on a disk as a power cut left it. The machine was switched off: markers are of another boot, and no
//! process of a job is alive.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use nexus_testkit::disk::{Body, Disk};
use nexus_testkit::{DEADLINE, Nexus};
use serde_json::Value;

use super::database::Row;
use super::known::{Asked, End, Past};
use super::verdict;

const ANOTHER_BOOT: &str = "00000000-0000-4000-8000-000000000000";

/// Starts it, lets it settle and stops it.
pub fn started_on(nexus: &Nexus, disk: &Disk, before: &[Row], past: &Past) -> Vec<String> {
    put(disk, &nexus.root());
    let ledger = nexus.file("ledger", "");
    let started = nexus.run_limited(&["start", "--simulate-gpus", &super::GPUS.to_string()]);
    if started.code != 0 {
        return vec![format!("the service does not start: {started}")];
    }
    let mut findings = settled(nexus, disk, before, past);
    let stopped = nexus.run_limited(&["stop", "-y"]);
    findings.extend((stopped.code != 0).then(|| format!("the service does not stop: {stopped}")));
    let ran = std::fs::read_to_string(ledger).expect("the test's own file");
    let over = over(disk, before);
    let again = ran.lines().filter(|id| over.contains(*id));
    findings.extend(again.map(|id| format!("{id} ran again")));
    findings
}

/// Jobs that must not run: ended or begun as the database says, or ended as their records say.
fn over(disk: &Disk, before: &[Row]) -> BTreeSet<String> {
    let waits = |row: &&Row| matches!(row.end.state.as_str(), "held" | "queued" | "starting");
    let begun = before.iter().filter(|row| !waits(row)).map(|row| row.id.clone());
    begun.chain(recorded(disk).into_keys()).collect()
}

/// Ends that records on the disk tell, by id; the code, or none for another end.
fn recorded(disk: &Disk) -> BTreeMap<String, Option<i64>> {
    let id = |path: &Path| path.parent()?.file_name()?.to_str()?.strip_prefix("job_").map(str::to_string);
    let code = |record: &Value| record["status"]["code"].as_i64();
    verdict::records(disk).filter_map(|(path, record)| Some((id(&path)?, code(&record?)))).collect()
}

/// Asks until every job that was begun is known to be over, and everything else is as it should be.
fn settled(nexus: &Nexus, disk: &Disk, before: &[Row], past: &Past) -> Vec<String> {
    let records = recorded(disk);
    let begin = std::time::Instant::now();
    loop {
        let jobs = listed(nexus);
        let mut findings = Vec::new();
        for row in before {
            match jobs.get(&row.id) {
                None => findings.push(format!("gone with the start: {row:?}")),
                Some(now) => findings.extend(after(row, now, records.get(&row.id).copied(), past)),
            }
        }
        let known: BTreeSet<&str> = before.iter().map(|row| row.id.as_str()).collect();
        let new = jobs.values().filter(|row| !known.contains(row.id.as_str()));
        findings.extend(new.map(|row| format!("came with the start: {row:?}")));
        if findings.is_empty() || begin.elapsed() > DEADLINE / 6 {
            return findings;
        }
    }
}

/// What may have become of a job since the disk was as it was.
fn after(before: &Row, now: &Row, record: Option<Option<i64>>, past: &Past) -> Vec<String> {
    let Some(asked) = past.get(&before.name) else { return Vec::new() };
    let mut findings = verdict::of_row(now, asked);
    let lost = End { state: "failed".into(), reason: Some("lost".into()), code: None };
    let own = verdict::ended_by_itself(now, asked);
    let cancelled = asked.iter().any(|(what, _)| matches!(what, Asked::Cancel));
    let killed = cancelled && now.end.state == "killed";
    let is_right = match (before.end.state.as_str(), record) {
        ("completed" | "failed" | "killed" | "held", None) => now.end == before.end,
        ("completed" | "failed" | "killed", Some(_)) => now.end == before.end,
        ("starting" | "running", Some(Some(code))) => now.end.code == Some(code) && (own || killed),
        ("starting" | "running", Some(None)) => killed,
        ("running", None) => now.end == lost || killed,
        // Nobody can tell whether it began: it may be lost, or start now.
        ("starting", None) => now.end.state != "held",
        (_, _) => own || killed || matches!(now.end.state.as_str(), "queued" | "starting" | "running"),
    };
    if !is_right {
        findings.push(format!("the start made {:?} of {before:?}, with the record {record:?}", now.end));
    }
    findings
}

fn listed(nexus: &Nexus) -> BTreeMap<String, Row> {
    let lists = [nexus.json(&["ls", "--json"]), nexus.json(&["history", "--all", "--json"])];
    let jobs = lists.iter().flat_map(|list| list.as_array().expect("a list"));
    jobs.map(row_of).map(|row| (row.id.clone(), row)).collect()
}

fn row_of(job: &Value) -> Row {
    let text = |field: &str| job[field].as_str().map(str::to_string);
    let tags = job["tags"].as_array().expect("a list").iter();
    Row {
        id: text("id").expect("an id"),
        name: text("name").unwrap_or_default(),
        end: End { state: text("state").expect("a state"), reason: text("reason"), code: job["exit_code"].as_i64() },
        priority: job["priority"].as_i64().expect("a number"),
        tags: tags.map(|tag| tag.as_str().expect("a tag").to_string()).collect(),
        runs: job["attempt"].as_i64().unwrap_or(0),
        is_stopping: false,
    }
}

/// Writes a disk down in the place of the one that was recorded.
fn put(disk: &Disk, root: &Path) {
    let home = root.join("home");
    if home.exists() {
        std::fs::remove_dir_all(&home).expect("no service runs in it");
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot has an id");
    for (path, body) in disk.tree().into_iter().filter(|(path, _)| path.starts_with("home")) {
        let real = root.join(&path);
        let put = match body {
            Body::Folder(_) => std::fs::DirBuilder::new().mode(0o700).create(&real),
            Body::Link(target) => std::os::unix::fs::symlink(target, &real),
            // SQLite makes it anew.
            Body::File(_) if path.to_string_lossy().ends_with("-shm") => Ok(()),
            Body::File(content) if path.ends_with("started") => {
                let text = String::from_utf8_lossy(content).replace(boot.trim(), ANOTHER_BOOT);
                write(&real, text.as_bytes())
            }
            Body::File(content) => write(&real, content),
        };
        put.unwrap_or_else(|error| panic!("{}: {error}", real.display()));
    }
}

fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}
