//! Holds what is on a disk against what had been asked for and answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use nexus_testkit::disk::{Body, Disk};
use nexus_testkit::record::{Change, Event};
use serde_json::Value;

use super::database::Row;
use super::known::{Asked, Past};

/// Records of ends that lie on a disk, by job; the code that each tells.
pub fn records(disk: &Disk) -> impl Iterator<Item = (PathBuf, Option<Value>)> {
    disk.tree().into_iter().filter(|(path, _)| path.ends_with("exit.json")).filter_map(|(path, body)| match body {
        Body::File(content) => Some((path, serde_json::from_slice(content).ok())),
        _ => None,
    })
}

/// A record is whole or not there.
pub fn of_records(disk: &Disk) -> Vec<String> {
    let torn = records(disk).filter(|(_, record)| record.is_none());
    torn.map(|(path, _)| format!("{} is there and not whole", path.display())).collect()
}

/// What the database says of each job must be what its history allows.
pub fn of_rows(rows: &[Row], past: &Past) -> Vec<String> {
    let mut findings = Vec::new();
    let mut by_name: BTreeMap<&str, &Row> = BTreeMap::new();
    for row in rows {
        if by_name.insert(&row.name, row).is_some() {
            findings.push(format!("{} is there twice", row.name));
        }
        match past.get(&row.name) {
            None => findings.push(format!("never asked for: {row:?}")),
            Some(asked) => findings.extend(of_row(row, asked).into_iter().chain(of_state(row, asked))),
        }
    }
    let is_missing =
        |(name, asked): &(&String, &Vec<(&Asked, bool)>)| asked[0].1 && !by_name.contains_key(name.as_str());
    findings.extend(past.iter().filter(is_missing).map(|(name, _)| format!("acknowledged and not there: {name}")));
    findings
}

/// What users set by themselves, and ends that they saw.
pub fn of_row(row: &Row, asked: &[(&Asked, bool)]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut priorities = BTreeSet::new();
    let mut tags = BTreeSet::new();
    // None: it may be either.
    let mut held = None;
    for (what, answered) in asked {
        match what {
            Asked::Add { priority, held: asked, .. } => {
                priorities.insert(*priority);
                held = Some(*asked);
            }
            Asked::Priority(priority) => {
                if *answered {
                    priorities.clear();
                }
                priorities.insert(*priority);
            }
            Asked::Tag(tag) => {
                tags.insert(tag);
                if *answered && !row.tags.contains(tag) {
                    findings.push(format!("tag {tag} is gone: {row:?}"));
                }
            }
            Asked::Hold => held = answered.then_some(true),
            Asked::Release => held = answered.then_some(false),
            Asked::Cancel => held = None,
            Asked::Look(Some(end)) if *answered && row.end != *end => {
                findings.push(format!("its end was seen as {end:?}: {row:?}"));
            }
            Asked::Look(_) => {}
        }
    }
    if !priorities.contains(&row.priority) {
        findings.push(format!("priority is not one of {priorities:?}: {row:?}"));
    }
    if let Some(tag) = row.tags.iter().find(|tag| !tags.contains(tag)) {
        findings.push(format!("tag {tag} was never asked for: {row:?}"));
    }
    if held.is_some_and(|held| held != (row.end.state == "held")) {
        findings.push(format!("held should be {held:?}: {row:?}"));
    }
    findings
}

/// How far it may have come, on a machine that was never restarted.
fn of_state(row: &Row, asked: &[(&Asked, bool)]) -> Option<String> {
    let cancelled = asked.iter().filter(|(what, _)| matches!(what, Asked::Cancel));
    let (is_tried, is_done) = (cancelled.clone().count() > 0, cancelled.clone().any(|(_, answered)| *answered));
    let is_over = matches!(row.end.state.as_str(), "completed" | "failed" | "killed");
    let wrong = match row.end.state.as_str() {
        "killed" if !is_tried => "killed, but nobody asked for that",
        "killed" => return None,
        _ if is_done && !is_over && !row.is_stopping => "cancelled, but not asked to end",
        "completed" | "failed" if !ended_by_itself(row, asked) => "no such end is its own",
        "held" | "queued" | "starting" | "running" | "completed" | "failed" if row.runs <= 1 => return None,
        _ => "it ran more than once, or is in no state that it can be in",
    };
    Some(format!("{wrong}: {row:?}"))
}

/// Whether it ended as its command does.
pub fn ended_by_itself(row: &Row, asked: &[(&Asked, bool)]) -> bool {
    let Asked::Add { code, endless, .. } = asked[0].0 else { return false };
    let expected = match code {
        0 => ("completed", None),
        _ => ("failed", Some("exit")),
    };
    !endless && (row.end.state.as_str(), row.end.reason.as_deref()) == expected && row.end.code == Some(*code)
}

/// Where SQLite's log was written to after it was emptied, and that was not on the disk: of what is in it then, a power cut
/// may leave the beginning, with older pages than the database has.
pub fn of_emptied_logs(events: &[Event]) -> Vec<usize> {
    let (mut logs, mut emptied, mut syncs) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    let mut found = Vec::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Change(Change::Make { at: (_, name), node, .. }) if name == "nexus.db-wal" => {
                logs.insert(*node);
            }
            Event::Change(Change::Size { node, bytes: 0 }) if logs.contains(node) => {
                emptied.insert(*node, at);
            }
            Event::Change(Change::Write { node, .. }) if emptied.remove(node).is_some() => found.push(at),
            Event::SyncBegins { sync, node } => {
                syncs.insert(*sync, (*node, at));
            }
            Event::SyncEnds { sync } => {
                let (node, since) = syncs[sync];
                if emptied.get(&node).is_some_and(|emptied| *emptied < since) {
                    emptied.remove(&node);
                }
            }
            _ => {}
        }
    }
    found
}
