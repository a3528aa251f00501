//! Faults planted in the recording, as a product that has them would have written it: each must be found, or the test of
//! power cuts finds nothing.

use std::collections::BTreeSet;

use nexus_testkit::record::{Change, Event};

/// Each with its name.
pub fn planted(events: &[Event]) -> [(&'static str, Vec<Event>); 3] {
    [
        ("records of ends are not synced", without_syncs_of(events, "exit.json.part")),
        ("the database is not synced at a commit", without_syncs_of(events, "nexus.db-wal")),
        ("the answer comes before the commit", answered_at_once(events)),
    ]
}

/// Nobody asked for files of this name to be on the disk.
pub fn without_syncs_of(events: &[Event], name: &str) -> Vec<Event> {
    let (mut nodes, mut syncs) = (BTreeSet::new(), BTreeSet::new());
    for event in events {
        match event {
            Event::Change(Change::Make { at, node, .. }) if at.1 == name => drop(nodes.insert(*node)),
            Event::SyncBegins { sync, node } if nodes.contains(node) => drop(syncs.insert(*sync)),
            _ => {}
        }
    }
    assert!(!syncs.is_empty(), "{name} is synced");
    let is_left = |event: &&Event| match event {
        Event::SyncBegins { sync, .. } | Event::SyncEnds { sync } => !syncs.contains(sync),
        _ => true,
    };
    events.iter().filter(is_left).cloned().collect()
}

/// Every answer stands right behind what was asked: their notes are numbered two by two.
fn answered_at_once(events: &[Event]) -> Vec<Event> {
    let mut moved = Vec::new();
    for event in events {
        match event {
            Event::Note(note) if note % 2 == 0 => moved.extend([Event::Note(*note), Event::Note(note + 1)]),
            Event::Note(_) => {}
            event => moved.push(event.clone()),
        }
    }
    moved
}
