//! A small file system of the test's own.

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Mount(PathBuf);

impl Mount {
    /// Puts a fresh file system in memory over a folder.
    pub fn small(at: &Path, options: &str) -> Mount {
        std::fs::create_dir_all(at).expect("a folder of the test's own");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at).status();
        assert!(done.expect("mount is there").success(), "root may mount");
        Mount(at.to_path_buf())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a test that failed may have left a service in it.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
        // Nor could the test's own folder, known by its name, be removed with the mount in it.
        let is_ours = |folder: &&Path| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nx-"));
        if let Some(folder) = self.0.ancestors().find(is_ours) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
