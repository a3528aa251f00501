//! What holds for any bytes, whatever they are read as. The targets in `fuzz` assert it too.

use nexus_api::edit::LineError;
use nexus_api::job_file::{Entry, Format, Read, read};

pub fn for_any(bytes: &[u8], format: Option<Format>) {
    let most = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    let found = match read(bytes, format) {
        Ok(found) => found,
        Err(error) => return told_well(&[error], most),
    };
    assert_eq!(format.unwrap_or(found.format), found.format);
    told_well(&found.refused, most);
    told_well(&found.doubtful, most);
    stand_where_they_say(bytes, &found);
    for entry in &found.entries {
        says_the_same_alone(&bytes[entry.written.clone()], entry, found.format);
    }
}

/// Errors are short, and by line, in the order of the file.
fn told_well(errors: &[LineError], most: u64) {
    assert!(errors.is_sorted_by_key(|error| error.line), "{errors:?}");
    for LineError { line, error } in errors {
        assert!((1..=most).contains(line) && !error.is_empty() && error.len() < 4096, "{line}: {error}");
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

/// Entries, and jobs that are past, stand one behind the other.
fn stand_where_they_say(bytes: &[u8], found: &Read) {
    let entries = found.entries.iter().map(|entry| (entry.line, entry.written.clone()));
    let mut places: Vec<_> = entries.chain(found.past.iter().map(|past| (past.line, past.written.clone()))).collect();
    let in_order = |places: &[(u64, std::ops::Range<usize>)]| {
        places.is_sorted_by(|one, next| one.0 <= next.0 && one.1.end <= next.1.start)
    };
    assert!(in_order(&places[..found.entries.len()]) && in_order(&places[found.entries.len()..]));
    places.sort_by_key(|(_, written)| written.start);
    assert!(in_order(&places), "{places:?}");
    let (mut newlines, mut counted) = (0, 0);
    for (line, written) in places {
        assert!(!written.is_empty() && written.end <= bytes.len(), "{written:?} of {}", bytes.len());
        newlines += bytes[counted..written.start].iter().filter(|byte| **byte == b'\n').count() as u64;
        counted = written.start;
        assert_eq!(newlines, line - 1, "{written:?}");
    }
}

/// The bytes of an entry are all that it is made of.
fn says_the_same_alone(written: &[u8], entry: &Entry, format: Format) {
    // At the begin of a file it would be a mark of the encoding.
    if written.starts_with("\u{feff}".as_bytes()) {
        return;
    }
    // Its last line may be an empty one.
    let alone = read(&[written, b"\n"].concat(), Some(format)).expect("one format");
    assert_eq!((alone.entries.len(), alone.refused.len()), (1, 0), "{:?}", String::from_utf8_lossy(written));
    let expected = Entry { line: 1, written: 0..written.len(), ..entry.clone() };
    assert_eq!(alone.entries[0], expected);
}
