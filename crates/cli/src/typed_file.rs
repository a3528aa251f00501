//! Files that a user names in the command that reads them, once: `import FILE`, `--env-file`, `--commands-file`, `-`,
//! `<(…)`. They are read whoever can write to them, as `sh FILE` would be: the user chose the file at this moment, and sees
//! what comes of it. Who else can write to it is told. What nexus reads again by itself is refused instead: see
//! `nexus_node::trust`.

use std::fs::File;
use std::io;
use std::path::Path;

use nexus_node::trust::{self, OpenError, Writers};

use crate::ui::Ui;

#[expect(clippy::disallowed_methods, reason = "the user named it in this command, and may name a pipe")]
pub fn open(path: &Path, ui: &Ui) -> io::Result<File> {
    warn_of_strangers(path, ui);
    File::open(path)
}

#[expect(clippy::disallowed_methods, reason = "the user named it in this command, and may name a pipe")]
pub fn read(path: &Path, ui: &Ui) -> io::Result<Vec<u8>> {
    warn_of_strangers(path, ui);
    std::fs::read(path)
}

#[expect(clippy::disallowed_methods, reason = "the user named it in this command, and may name a pipe")]
pub fn read_to_string(path: &Path, ui: &Ui) -> io::Result<String> {
    warn_of_strangers(path, ui);
    std::fs::read_to_string(path)
}

/// Says who else can write to it. A pipe of `<(…)` has no name that could be looked at.
pub fn warn_of_strangers(path: &Path, ui: &Ui) {
    if let Err(OpenError::Untrusted(untrusted)) = trust::check(path, &Writers::own()) {
        ui.warn(&format!("{} is read as it is now: {untrusted}", path.display()));
    }
}
