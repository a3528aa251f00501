//! Files that a user names in the command that reads them, once: `import FILE`, `--env-file`, `--commands-file`, `-`,
//! `<(…)`. They are read whoever can write to them, as `sh FILE` would be: the user chose the file at this moment, and sees
//! what comes of it. Who else can write to it is told. What nexus reads again by itself is refused instead: see
//! `nexus_node::trust`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use nexus_node::trust::{self, OpenError, Writers};

use crate::ui::Ui;

/// Bytes of a file that is held in memory as a whole; /dev/zero has no end. Files of jobs are read by `job_file`, in parts.
const MAX_BYTES: u64 = 256 << 20;

#[expect(clippy::disallowed_methods, reason = "the user named it in this command, and may name a pipe")]
pub fn open(path: &Path, ui: &Ui) -> io::Result<File> {
    warn_of_strangers(path, ui);
    File::open(path)
}

pub fn read(path: &Path, ui: &Ui) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, ui)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other(format!("it is longer than {} MiB", MAX_BYTES >> 20))),
        false => Ok(bytes),
    }
}

pub fn read_to_string(path: &Path, ui: &Ui) -> io::Result<String> {
    String::from_utf8(read(path, ui)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

/// Says who else can write to it. A pipe of `<(…)` has no name that could be looked at.
pub fn warn_of_strangers(path: &Path, ui: &Ui) {
    if let Err(OpenError::Untrusted(untrusted)) = trust::check(path, &Writers::own()) {
        ui.warn(&format!("{} is read as it is now: {untrusted}", path.display()));
    }
}
