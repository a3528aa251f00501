//! A text that people write for nexus: read whole, or a word on why it cannot be, with the line where there is one.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nexus_node::trust::{self, OpenError, Untrusted, Writers};
use rustix::fs::OFlags;

/// No such text is larger; something else lies in its place.
const MOST_BYTES: u64 = 1 << 20;

/// Why there is no text.
pub struct Unreadable {
    pub line: Option<u64>,
    pub error: String,
    /// It could be read, and is not obeyed: a stranger can write to it.
    pub untrusted: Option<Untrusted>,
}

/// A text that is obeyed, where nobody but `writers` can write to it. None where there is no file.
pub fn read(path: &Path, writers: &Writers) -> Result<Option<String>, Unreadable> {
    text(bytes(path, MOST_BYTES, writers)?)
}

/// The same whoever can write to it: for what is no order, and for the one start that warns instead of refusing.
#[expect(clippy::disallowed_methods, reason = "O_NONBLOCK; what is no file is told")]
pub fn read_of_anybody(path: &Path) -> Result<Option<String>, Unreadable> {
    // Without waiting: a pipe in its place must not hold up a service.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    text(content(path, opened.map_err(OpenError::Io), MOST_BYTES)?)
}

/// What stands there, whatever it is, where nobody but `writers` can write to it; none where there is no file.
pub fn bytes(path: &Path, most: u64, writers: &Writers) -> Result<Option<Vec<u8>>, Unreadable> {
    content(path, trust::open(path, writers), most)
}

fn text(bytes: Option<Vec<u8>>) -> Result<Option<String>, Unreadable> {
    let Some(bytes) = bytes else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        Unreadable { line: Some(line), ..unreadable("it is not text in UTF-8") }
    })
}

fn content(path: &Path, opened: Result<File, OpenError>, most: u64) -> Result<Option<Vec<u8>>, Unreadable> {
    let fail = |error: std::io::Error| unreadable(&without_number(&error));
    let file = match opened {
        Ok(file) => file,
        Err(OpenError::Io(error)) if is_absent(&error) && !path.is_symlink() => return Ok(None),
        Err(OpenError::Io(error)) => return Err(fail(error)),
        Err(OpenError::Untrusted(untrusted)) => {
            return Err(Unreadable { untrusted: Some(untrusted.clone()), ..unreadable(&untrusted.to_string()) });
        }
    };
    let found = file.metadata().map_err(fail)?;
    if found.is_dir() {
        return Err(unreadable("it is a folder"));
    }
    if !found.is_file() {
        return Err(unreadable("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > most {
        return Err(unreadable(&format!("it is larger than {} KiB", most >> 10)));
    }
    Ok(Some(bytes))
}

fn unreadable(error: &str) -> Unreadable {
    Unreadable { line: None, error: error.into(), untrusted: None }
}

/// Neither it nor its folder.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The error's text without its number.
fn without_number(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}
