//! What a disk may hold after a power cut, worked out from a [recording](crate::record).
//!
//! What was synced is there. Of all else POSIX promises nothing, so there are several disks:
//!
//! - `Strict`: a file's content counts when the file was synced, a name when its folder was. A file that was renamed and
//!   never synced is there and empty; one that was synced, in a folder that never was, is nowhere.
//! - `Journal`: the same for content; names are kept in order, and a sync of anything keeps all names up to then. That is
//!   what ext4, XFS and Btrfs do.
//! - `All`: everything had reached the disk when the power was cut.
//!
//! [`Disk::torn`] is one in between: a random part of what was not synced is there, of names the first few of each
//! folder, of content blocks of 4 KiB. A rename happens or does not.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Chance;
use crate::record::{Change, Event, Kind, Node, ROOT};

/// Content reaches the disk in blocks of this size.
const BLOCK: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    Strict,
    Journal,
    All,
}

/// A file, folder or link as it lies on the disk.
#[derive(Clone, Debug)]
pub enum Body {
    Folder(Arc<BTreeMap<OsString, Node>>),
    File(Arc<Vec<u8>>),
    Link(PathBuf),
}

#[derive(Clone)]
pub struct Disk {
    promise: Promise,
    /// Nodes that have no name yet lie here too.
    bodies: Vec<Body>,
    /// What was not synced, with its place among all events.
    pending: Vec<(usize, Change)>,
    /// Syncs on their way: of what, and since when.
    syncs: HashMap<usize, (Node, usize)>,
    events: usize,
}

impl Disk {
    /// An empty one.
    pub fn new(promise: Promise) -> Disk {
        let bodies = vec![Body::Folder(Arc::default())];
        Disk { promise, bodies, pending: Vec::new(), syncs: HashMap::new(), events: 0 }
    }

    pub fn play(&mut self, event: &Event) {
        self.events += 1;
        match event {
            Event::Change(change) => {
                if let Change::Make { node, kind, .. } = change {
                    self.make(*node, kind);
                }
                match self.promise {
                    Promise::All => self.apply(change),
                    _ => self.pending.push((self.events, change.clone())),
                }
            }
            Event::SyncBegins { sync, node } => drop(self.syncs.insert(*sync, (*node, self.events))),
            Event::SyncEnds { sync } => {
                let (node, since) = self.syncs.remove(sync).expect("it has begun");
                self.synced(node, since);
            }
            Event::Note(_) => {}
        }
    }

    fn make(&mut self, node: Node, kind: &Kind) {
        assert_eq!(node, self.bodies.len(), "nodes are numbered in order");
        self.bodies.push(match kind {
            Kind::Folder => Body::Folder(Arc::default()),
            Kind::File => Body::File(Arc::default()),
            Kind::Link(target) => Body::Link(target.clone()),
        });
    }

    fn synced(&mut self, node: Node, since: usize) {
        let names_too = self.promise == Promise::Journal;
        let counts = |change: &Change| owner(change) == node || names_too && is_of_names(change);
        let all = std::mem::take(&mut self.pending);
        let (kept, pending): (Vec<_>, Vec<_>) = all.into_iter().partition(|(at, change)| *at < since && counts(change));
        self.pending = pending;
        for (_, change) in kept {
            self.apply(&change);
        }
    }

    /// This disk with a random part of what was not synced.
    pub fn torn(&self, chance: &mut Chance) -> Disk {
        let mut torn = self.clone();
        let mut over = HashSet::new();
        for (_, change) in std::mem::take(&mut torn.pending) {
            match change {
                Change::Write { node, at, bytes } => {
                    for (at, piece) in blocks(at, &bytes) {
                        if chance.one_in(2) {
                            torn.apply(&Change::Write { node, at, bytes: piece.to_vec() });
                        }
                    }
                }
                Change::Size { .. } => {
                    if chance.one_in(2) {
                        torn.apply(&change);
                    }
                }
                _ => {
                    // What comes later in this folder is lost with the first that is.
                    if chance.one_in(4) {
                        over.insert(owner(&change));
                    }
                    if !over.contains(&owner(&change)) {
                        torn.apply(&change);
                    }
                }
            }
        }
        torn
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Make { at: (folder, name), node, .. } | Change::Name { at: (folder, name), node } => {
                self.folder(*folder).insert(name.clone(), *node);
            }
            Change::Drop { at: (folder, name) } => drop(self.folder(*folder).remove(name)),
            Change::Move { from, to, node } => {
                let folder = self.folder(from.0);
                folder.remove(&from.1);
                folder.insert(to.1.clone(), *node);
            }
            Change::Swap { one, other } => {
                for ((folder, name), node) in [one, other] {
                    self.folder(*folder).insert(name.clone(), *node);
                }
            }
            Change::Write { node, at, bytes } => {
                let (at, end) = (*at as usize, *at as usize + bytes.len());
                let content = self.file(*node);
                content.resize(content.len().max(end), 0);
                content[at..end].copy_from_slice(bytes);
            }
            Change::Size { node, bytes } => self.file(*node).resize(*bytes as usize, 0),
        }
    }

    fn folder(&mut self, node: Node) -> &mut BTreeMap<OsString, Node> {
        match &mut self.bodies[node] {
            Body::Folder(names) => Arc::make_mut(names),
            other => panic!("no folder: {other:?}"),
        }
    }

    fn file(&mut self, node: Node) -> &mut Vec<u8> {
        match &mut self.bodies[node] {
            Body::File(content) => Arc::make_mut(content),
            other => panic!("no file: {other:?}"),
        }
    }

    /// All that has a name, folders before what is in them.
    pub fn tree(&self) -> Vec<(PathBuf, &Body)> {
        let mut found = Vec::new();
        self.collect(ROOT, Path::new(""), &mut found);
        found
    }

    fn collect<'a>(&'a self, node: Node, path: &Path, found: &mut Vec<(PathBuf, &'a Body)>) {
        let body = &self.bodies[node];
        if node != ROOT {
            found.push((path.to_path_buf(), body));
        }
        if let Body::Folder(names) = body {
            for (name, node) in names.iter() {
                self.collect(*node, &path.join(name), found);
            }
        }
    }

    /// The content of a file.
    pub fn content(&self, path: &Path) -> Option<&[u8]> {
        let mut body = &self.bodies[ROOT];
        for name in path {
            let Body::Folder(names) = body else { return None };
            body = &self.bodies[*names.get(name)?];
        }
        match body {
            Body::File(content) => Some(content),
            _ => None,
        }
    }
}

/// The folder or file that has to be synced for a change to last.
fn owner(change: &Change) -> Node {
    match change {
        Change::Make { at, .. } | Change::Name { at, .. } | Change::Drop { at } => at.0,
        Change::Move { from, .. } => from.0,
        Change::Swap { one, .. } => one.0.0,
        Change::Write { node, .. } | Change::Size { node, .. } => *node,
    }
}

fn is_of_names(change: &Change) -> bool {
    !matches!(change, Change::Write { .. } | Change::Size { .. })
}

/// The parts of a write that reach the disk each by itself.
fn blocks(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let begin = at + start as u64;
        let length = ((BLOCK - begin % BLOCK) as usize).min(bytes.len() - start);
        let piece = &bytes[start..start + length];
        start += length;
        (!piece.is_empty()).then_some((begin, piece))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_and_rename(synced: bool) -> Vec<Event> {
        let at = |name: &str| (ROOT, OsString::from(name));
        let mut events = vec![
            Event::Change(Change::Make { at: at("part"), node: 1, kind: Kind::File }),
            Event::Change(Change::Write { node: 1, at: 0, bytes: b"whole".to_vec() }),
        ];
        if synced {
            events.extend([Event::SyncBegins { sync: 1, node: 1 }, Event::SyncEnds { sync: 1 }]);
        }
        events.push(Event::Change(Change::Move { from: at("part"), to: at("file"), node: 1 }));
        // Somebody else asks for something else.
        events.push(Event::Change(Change::Make { at: at("other"), node: 2, kind: Kind::File }));
        events.extend([Event::SyncBegins { sync: 2, node: 2 }, Event::SyncEnds { sync: 2 }]);
        events
    }

    fn played(promise: Promise, events: &[Event]) -> Disk {
        let mut disk = Disk::new(promise);
        events.iter().for_each(|event| disk.play(event));
        disk
    }

    #[test]
    fn what_was_not_synced_is_not_promised() {
        let content = |promise, synced| {
            let disk = played(promise, &write_and_rename(synced));
            disk.content(Path::new("file")).map(<[u8]>::to_vec)
        };
        assert_eq!(content(Promise::All, false), Some(b"whole".to_vec()));
        assert_eq!(content(Promise::Journal, true), Some(b"whole".to_vec()));
        assert_eq!(content(Promise::Journal, false), Some(Vec::new()), "the name came first");
        assert_eq!(content(Promise::Strict, true), None, "its folder was not synced");
    }

    #[test]
    fn a_sync_holds_only_what_came_before_it_began() {
        let mut events = write_and_rename(false);
        let folder = [Event::SyncBegins { sync: 3, node: ROOT }, Event::SyncBegins { sync: 4, node: 1 }];
        events.extend(folder);
        events.push(Event::Change(Change::Write { node: 1, at: 5, bytes: b" and more".to_vec() }));
        events.extend([Event::SyncEnds { sync: 4 }, Event::SyncEnds { sync: 3 }]);
        let disk = played(Promise::Strict, &events);
        assert_eq!(disk.content(Path::new("file")), Some(&b"whole"[..]));
    }

    #[test]
    fn blocks_are_torn_apart_and_names_are_not() {
        let mut events = write_and_rename(false);
        events.push(Event::Change(Change::Write { node: 1, at: 0, bytes: vec![7; 3 * BLOCK as usize] }));
        let disk = played(Promise::Strict, &events);
        let torn: Vec<Disk> = (0..200).map(|seed| disk.torn(&mut Chance::from_seed(seed))).collect();
        let files: HashSet<Option<Vec<u8>>> =
            torn.iter().map(|disk| disk.content(Path::new("file")).map(<[u8]>::to_vec)).collect();
        assert!(files.contains(&None) && files.len() > 4, "{}", files.len());
        let both = torn.iter().filter(|disk| disk.content(Path::new("part")).is_some());
        assert!(both.clone().all(|disk| disk.content(Path::new("file")).is_none()) && both.count() > 0);
    }
}
