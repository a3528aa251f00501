//! A text that people write for nexus: read whole, or a word on why it cannot be, with the line where there is one.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// No such text is larger; something else lies in its place.
const MOST_BYTES: u64 = 1 << 20;

/// Why there is no text.
pub struct Unreadable {
    pub line: Option<u64>,
    pub error: String,
}

/// None where there is no file.
pub fn read(path: &Path) -> Result<Option<String>, Unreadable> {
    let Some(bytes) = bytes(path, MOST_BYTES)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        Unreadable { line: Some(line), error: "it is not text in UTF-8".into() }
    })
}

/// What stands there, whatever it is; none where there is no file.
pub fn bytes(path: &Path, most: u64) -> Result<Option<Vec<u8>>, Unreadable> {
    let fail = |error: std::io::Error| unreadable(&without_number(&error));
    // Without waiting: a pipe in its place must not hold up a service.
    let flags = OFlags::NONBLOCK.bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) && !path.is_symlink() => return Ok(None),
        Err(error) => return Err(fail(error)),
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
    Unreadable { line: None, error: error.into() }
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
