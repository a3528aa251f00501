//! The last line a run printed, as short as a list can show it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nexus_api::run_dir::{STDERR, STDOUT};

/// No more than this is read from the end of a log.
const READ_BYTES: u64 = 8 << 10;

const LONGEST_CHARACTERS: usize = 300;

/// The last line that is not blank, of stderr or else of stdout. Of a line that was drawn several times over (a
/// progress bar) what was drawn last.
pub fn last_line(dir: &Path) -> Option<String> {
    [STDERR, STDOUT].iter().find_map(|name| last_line_of(&read_end(&dir.join(name)).ok()?))
}

fn read_end(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = vec![0; length.min(READ_BYTES) as usize];
    let count = file.read_at(&mut bytes, length.saturating_sub(READ_BYTES))?;
    bytes.truncate(count);
    Ok(bytes)
}

fn last_line_of(bytes: &[u8]) -> Option<String> {
    let drawn = bytes.rsplit(|byte| matches!(byte, b'\n' | b'\r'));
    let line = drawn.map(String::from_utf8_lossy).find(|line| !line.trim().is_empty())?;
    Some(line.trim().chars().take(LONGEST_CHARACTERS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_something_on_it() {
        let table = [
            ("one\ntwo\n\n  \n", Some("two")),
            ("10%\r50%\r100%", Some("100%")),
            ("10%\r100%\r\n", Some("100%")),
            ("", None),
            (" \n\n", None),
        ];
        for (text, expected) in table {
            assert_eq!(last_line_of(text.as_bytes()).as_deref(), expected, "{text:?}");
        }
        let long = "ä".repeat(5000);
        assert_eq!(last_line_of(long.as_bytes()).unwrap().chars().count(), 300);
        // A character cut in two by the limit on what is read does no harm.
        assert!(last_line_of(&long.as_bytes()[1..]).is_some());
    }

    #[test]
    fn stderr_goes_before_stdout() {
        let temporary = tempfile::tempdir().unwrap();
        assert_eq!(last_line(temporary.path()), None);
        std::fs::write(temporary.path().join(STDOUT), "out\n").unwrap();
        std::fs::write(temporary.path().join(STDERR), "\n").unwrap();
        assert_eq!(last_line(temporary.path()).as_deref(), Some("out"));
        std::fs::write(temporary.path().join(STDERR), "err\n").unwrap();
        assert_eq!(last_line(temporary.path()).as_deref(), Some("err"));
    }
}
