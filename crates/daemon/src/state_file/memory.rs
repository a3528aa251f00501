//! What is remembered of state files from one service to the next: the pauses that stand there by our own doing. What
//! is different when a service starts was changed by somebody else.

use std::path::Path;

use nexus_core::request::{GpuSet, MAX_GPUS};
use serde::{Deserialize, Serialize};

/// Where it is kept.
pub const KEY: &str = "state_files";

/// More files than anybody uses by turns.
const MOST_FILES: usize = 16;

/// Newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory(Vec<Remembered>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    path: String,
    /// Two while one is being put in place of the other.
    paused: Vec<Vec<u16>>,
}

impl Memory {
    pub fn read(stored: Option<&str>) -> Memory {
        // What cannot be read is as good as nothing: then the file is taken as at first use.
        stored.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// Pauses that we left there, the newest last; none for a file that was never ours.
    pub fn of(&self, path: &Path) -> Vec<GpuSet> {
        let name = path.to_string_lossy();
        let found = self.0.iter().find(|file| file.path == name);
        let set = |list: &Vec<u16>| list.iter().copied().filter(|index| *index < MAX_GPUS).collect();
        found.map(|file| file.paused.iter().map(set).collect()).unwrap_or_default()
    }

    pub fn set(&mut self, path: &Path, paused: &[GpuSet]) {
        let name = path.to_string_lossy().into_owned();
        self.0.retain(|file| file.path != name);
        let paused = paused.iter().map(|set| set.iter().collect()).collect();
        self.0.insert(0, Remembered { path: name, paused });
        self.0.truncate(MOST_FILES);
    }

    /// As it is kept.
    pub fn note(&self) -> (&'static str, String) {
        (KEY, serde_json::to_string(self).expect("names and numbers are plain data"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_own_and_the_oldest_are_dropped() {
        let set = |list: &[u16]| list.iter().copied().collect::<GpuSet>();
        let mut memory = Memory::read(None);
        assert_eq!(memory.of(Path::new("/a")), []);
        memory.set(Path::new("/a"), &[set(&[1])]);
        memory.set(Path::new("/b"), &[set(&[]), set(&[0, 2])]);
        let (key, stored) = memory.note();
        assert_eq!(
            (key, stored.as_str()),
            (KEY, r#"[{"path":"/b","paused":[[],[0,2]]},{"path":"/a","paused":[[1]]}]"#)
        );
        assert_eq!(Memory::read(Some(&stored)), memory);
        assert_eq!(memory.of(Path::new("/b")), [set(&[]), set(&[0, 2])]);
        (0..MOST_FILES - 1).for_each(|number| memory.set(Path::new(&format!("/c{number}")), &[]));
        assert_eq!(memory.of(Path::new("/a")), []);
        assert_ne!(memory.of(Path::new("/b")), []);
        assert_eq!(Memory::read(Some("nonsense")), Memory::default());
        assert_eq!(Memory::read(Some(r#"[{"path":"/a","paused":[[1,999]]}]"#)).of(Path::new("/a")), [set(&[1])]);
    }
}
