//! A small file system of the test's own, and what may befall it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Mount(PathBuf);

impl Mount {
    /// Puts a fresh file system in memory over a folder.
    pub fn small(at: &Path, options: &str) -> Mount {
        std::fs::create_dir_all(at).expect("a folder of the test's own");
        mount(&["-t", "tmpfs", "-o", options, "tmpfs"], &[at]);
        Mount(at.to_path_buf())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Nothing can be opened for writing or made here until the answer is dropped. What is open for writing stays so:
    /// the kernel refuses to make a whole file system read-only under it.
    #[must_use]
    pub fn read_only(&self) -> ReadOnly<'_> {
        // Made aside, where nobody opens anything in the midst of it.
        let aside = self.0.with_extension("read-only");
        std::fs::create_dir_all(&aside).expect("a folder of the test's own");
        mount(&["--bind"], &[&self.0, &aside]);
        mount(&["-o", "remount,bind,ro"], &[&aside]);
        mount(&["--bind"], &[&aside, &self.0]);
        let _ = Command::new("umount").arg(&aside).status();
        ReadOnly(self)
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

pub struct ReadOnly<'a>(&'a Mount);

impl Drop for ReadOnly<'_> {
    fn drop(&mut self) {
        // Writable before it goes: whoever has a folder of it open may keep that.
        mount(&["-o", "remount,bind,rw"], &[&self.0.0]);
        let _ = Command::new("umount").arg("-l").arg(&self.0.0).status();
    }
}

fn mount(options: &[&str], paths: &[&Path]) {
    let done = Command::new("mount").args(options).args(paths).status();
    assert!(done.expect("mount is there").success(), "root may mount");
}

/// A file that leaves no room; dropped, there is room again, for the end of a failed test too.
pub struct Filler {
    path: PathBuf,
    file: File,
}

impl Filler {
    pub fn of(dir: &Path) -> Filler {
        let path = dir.join("filler");
        let file = File::create(&path).expect("an empty file fits");
        let mut filler = Filler { path, file };
        filler.fill();
        filler
    }

    /// Takes the room that somebody made since.
    pub fn fill(&mut self) {
        for size in [1 << 20, 4096, 1] {
            let block = vec![7; size];
            while self.file.write_all(&block).is_ok() {}
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Files without content that leave no room for another; they go when it is dropped.
pub struct Inodes(PathBuf);

impl Inodes {
    pub fn of(dir: &Path) -> Inodes {
        let inodes = Inodes(dir.join("inodes"));
        std::fs::create_dir(&inodes.0).expect("a folder fits");
        for number in 0.. {
            if File::create(inodes.0.join(number.to_string())).is_err() {
                break;
            }
        }
        inodes
    }
}

impl Drop for Inodes {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
