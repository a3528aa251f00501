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
        // The home around it is gone by now but for the folders that were in use: the mount's, `work`, the home's.
        for folder in self.0.ancestors().take(3) {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}
