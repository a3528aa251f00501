//! The text of a shell command with the values of its variables in it. It lies in the run directory, for its owner alone,
//! for as long as the run has processes: a shell may read it bit by bit.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nexus_api::run_dir::{ExitRecord, ExitStatus, LAST_LINES, SCRIPT, Said};
use nexus_api::variables::{Hidden, masked};

use super::failure::Failure;
use crate::last_line::said;
use crate::run_file;

/// Gone when this is.
pub struct Script {
    path: PathBuf,
}

impl Script {
    /// Whatever lies there is not followed and not kept: only a run that never began can have left it.
    pub fn write(dir: &Path, text: &str) -> Result<Script, Failure> {
        let script = Script { path: dir.join(SCRIPT) };
        let written = run_file::create(&script.path).and_then(|mut file| file.write_all(text.as_bytes()));
        let failed = |source| Failure::MachineFile { operation: "write", path: script.path.clone(), source };
        written.map_err(failed)?;
        Ok(script)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// No value stands in the record; its variable's name does.
pub fn hide(record: &mut ExitRecord, hidden: &[Hidden]) {
    if let ExitStatus::StartError { error, .. } | ExitStatus::MachineError { error } = &mut record.status {
        *error = masked(error, hidden);
    }
    for value in record.found.values.values_mut() {
        *value = masked(value, hidden);
    }
}

/// Keeps what the run printed last without the values: they may be gone when somebody asks.
pub fn keep_said(dir: &Path, hidden: &[Hidden]) {
    if hidden.is_empty() {
        return;
    }
    let write = |said: &Said| -> io::Result<()> {
        run_file::create(&dir.join(LAST_LINES))?.write_all(&serde_json::to_vec(said)?)
    };
    // Without it nothing of the output is shown: that is no reason to end otherwise.
    let _ = write(&said(dir, hidden));
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_script_is_its_owners_alone_and_goes() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join(SCRIPT);
        std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        let script = Script::write(temporary.path(), "echo x").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "echo x");
        assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        drop(script);
        assert!(fs::symlink_metadata(&path).is_err());
        assert!(Script::write(&temporary.path().join("no"), "x").is_err());
    }
}
