//! What was recorded so far, and which names and inodes belong to which node.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Change, Entry, Event, Kind, Node, ROOT};

/// Where the kernel keeps a node: device and inode.
type Place = (u64, u64);

pub struct Log {
    pub events: Vec<Event>,
    root: PathBuf,
    /// Names as they are now.
    names: BTreeMap<PathBuf, Node>,
    /// A place is given to another node when the file that had it is gone.
    places: HashMap<Place, Node>,
    sizes: HashMap<Node, u64>,
    nodes: usize,
    syncs: usize,
}

impl Log {
    pub fn of(root: &Path) -> Log {
        let found = std::fs::metadata(root).expect("the folder is there");
        let root = root.canonicalize().expect("the folder is there");
        Log {
            events: Vec::new(),
            names: BTreeMap::from([(root.clone(), ROOT)]),
            places: HashMap::from([((found.dev(), found.ino()), ROOT)]),
            sizes: HashMap::new(),
            nodes: 1,
            syncs: 0,
            root,
        }
    }

    pub fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    fn change(&mut self, change: Change) {
        self.push(Event::Change(change));
    }

    /// The node that is open under this path of `/proc`, if it was made under the root.
    pub fn open_node(&self, link: &Path) -> Option<Node> {
        let found = std::fs::metadata(link).ok()?;
        self.places.get(&(found.dev(), found.ino())).copied()
    }

    pub fn name_of(&self, node: Node) -> Option<&Path> {
        self.names.iter().find(|(_, other)| **other == node).map(|(name, _)| name.as_path())
    }

    pub fn has(&self, path: &Path) -> bool {
        self.names.contains_key(path)
    }

    /// The entry of a path whose folder is recorded.
    fn entry(&self, path: &Path) -> Option<Entry> {
        let folder = self.names.get(path.parent()?)?;
        path.starts_with(&self.root).then_some((*folder, OsString::from(path.file_name()?)))
    }

    /// Something is there that was not; `found` is where to look at it.
    pub fn made(&mut self, path: &Path, found: &Path, kind: Kind) {
        let Some(at) = self.entry(path) else { return };
        let node = self.nodes;
        self.nodes += 1;
        self.names.insert(path.to_path_buf(), node);
        let looked = match kind {
            Kind::Link(_) => std::fs::symlink_metadata(found),
            _ => std::fs::metadata(found),
        };
        // It may be gone already, which comes later in the log.
        if let Ok(looked) = looked {
            self.places.insert((looked.dev(), looked.ino()), node);
        }
        self.change(Change::Make { at, node, kind });
    }

    pub fn linked(&mut self, from: &Path, to: &Path) {
        let (Some(node), Some(at)) = (self.names.get(from).copied(), self.entry(to)) else { return };
        self.names.insert(to.to_path_buf(), node);
        self.change(Change::Name { at, node });
    }

    /// Sockets come and go without a trace here.
    pub fn dropped(&mut self, path: &Path) {
        if let (Some(at), Some(_)) = (self.entry(path), self.names.remove(path)) {
            self.change(Change::Drop { at });
        }
    }

    pub fn moved(&mut self, from: &Path, to: &Path) {
        let Some(node) = self.names.get(from).copied() else { return self.dropped(to) };
        let below = self.names.range(from.to_path_buf()..).nth(1).is_some_and(|(name, _)| name.starts_with(from));
        assert!(!below, "a folder with content was moved, which is not recorded: {}", from.display());
        let (Some(old), Some(new)) = (self.entry(from), self.entry(to)) else {
            panic!("moved across the border of the recording: {} to {}", from.display(), to.display());
        };
        if old.0 != new.0 {
            // What is empty might as well have been removed and made anew.
            assert!(to.is_dir(), "moved between folders, which is not recorded: {}", from.display());
            self.dropped(from);
            return self.made(to, to, Kind::Folder);
        }
        self.names.remove(from);
        self.names.insert(to.to_path_buf(), node);
        self.change(Change::Move { from: old, to: new, node });
    }

    pub fn swapped(&mut self, one: &Path, other: &Path) {
        let entries = (self.entry(one), self.entry(other));
        let nodes = (self.names.get(one).copied(), self.names.get(other).copied());
        let ((Some(first), Some(second)), (Some(left), Some(right))) = (entries, nodes) else {
            assert!(nodes == (None, None), "swapped with something that is not recorded: {}", one.display());
            return;
        };
        assert_eq!(first.0, second.0, "swapped between folders, which is not recorded: {}", one.display());
        self.names.insert(one.to_path_buf(), right);
        self.names.insert(other.to_path_buf(), left);
        self.change(Change::Swap { one: (first, right), other: (second, left) });
    }

    /// At `None` stands what is appended.
    pub fn wrote(&mut self, node: Node, at: Option<u64>, bytes: Vec<u8>) {
        let size = self.sizes.entry(node).or_default();
        let at = at.unwrap_or(*size);
        *size = (*size).max(at + bytes.len() as u64);
        self.change(Change::Write { node, at, bytes });
    }

    pub fn sized(&mut self, node: Node, bytes: u64) {
        if self.sizes.insert(node, bytes).unwrap_or(0) != bytes {
            self.change(Change::Size { node, bytes });
        }
    }

    pub fn size(&self, node: Node) -> u64 {
        self.sizes.get(&node).copied().unwrap_or(0)
    }

    pub fn sync_begins(&mut self, node: Node) -> usize {
        self.syncs += 1;
        self.push(Event::SyncBegins { sync: self.syncs, node });
        self.syncs
    }
}
