//! Bytes of one stream of a log, from here to there: `Range: bytes=0-65535`, as with any file.

use std::fmt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use axum::Json;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nexus_api::problem::Problem;
use nexus_api::run_dir::{STDERR, STDOUT};
use nexus_node::logs::Which;
use nexus_node::run_file;

use super::problem::Failed;

/// So much at a time; who wants more asks again.
const MOST: u64 = 8 << 20;

/// What of a log is asked for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// Both ends are in it; none = to the end.
    From(u64, Option<u64>),
    Last(u64),
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::From(first, Some(last)) => write!(f, "{first}-{last}"),
            Range::From(first, None) => write!(f, "{first}-"),
            Range::Last(count) => write!(f, "-{count}"),
        }
    }
}

impl Range {
    /// None where none is asked for. One that cannot be read, or of several parts, is an error: the whole log instead of it
    /// could be very long.
    pub fn asked(headers: &HeaderMap) -> Result<Option<Range>, Problem> {
        let Some(value) = headers.get(header::RANGE) else { return Ok(None) };
        let text = String::from_utf8_lossy(value.as_bytes());
        let range = text.strip_prefix("bytes=").and_then(Range::read);
        range.map(Some).ok_or_else(|| Problem::BadField {
            field: "range".into(),
            value: text.to_string(),
            want: "one range, as in bytes=0-65535, bytes=4096- or bytes=-1000".into(),
        })
    }

    /// What stands behind `bytes=`.
    pub fn read(text: &str) -> Option<Range> {
        let (first, last) = text.trim().split_once('-')?;
        match (first, last) {
            ("", last) => Some(Range::Last(last.parse().ok()?)),
            (first, "") => Some(Range::From(first.parse().ok()?, None)),
            (first, last) => {
                let (first, last) = (first.parse().ok()?, last.parse().ok()?);
                (first <= last).then_some(Range::From(first, Some(last)))
            }
        }
    }

    /// The first byte, and how many, of so many there are; none where it begins behind them.
    pub fn within(self, length: u64) -> Option<(u64, u64)> {
        let (first, count) = match self {
            Range::Last(count) => (length.saturating_sub(count), count.min(length)),
            Range::From(first, last) => {
                let behind = last.map_or(length, |last| last.saturating_add(1)).min(length);
                (first, behind.saturating_sub(first))
            }
        };
        (count > 0).then_some((first, count.min(MOST)))
    }
}

/// `which` must be one stream: the order of two is not told by bytes.
pub fn answer(dir: &Path, which: Which, range: Range) -> Result<Response, Failed> {
    let name = match which {
        Which::Stdout => STDOUT,
        Which::Stderr => STDERR,
        Which::Both => {
            let want = "stdout or stderr: a range is of one of them".into();
            return Err(Failed(Problem::BadField { field: "stream".into(), value: "both".into(), want }));
        }
    };
    let fail = |error: std::io::Error| Problem::Internal { error: error.to_string() };
    let (length, part) = match run_file::open(&dir.join(name)) {
        Ok(file) => {
            let length = file.metadata().map_err(fail)?.len();
            let part = range.within(length).map(|(first, count)| -> std::io::Result<_> {
                let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
                let read = file.read_at(&mut bytes, first)?;
                bytes.truncate(read);
                Ok((first, bytes))
            });
            (length, part.transpose().map_err(fail)?)
        }
        // It has printed nothing.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (0, None),
        Err(error) => return Err(Failed(fail(error))),
    };
    Ok(match part {
        Some((first, bytes)) => {
            let kind = (header::CONTENT_TYPE, "application/octet-stream".to_string());
            let last = first + (bytes.len() as u64).saturating_sub(1);
            let range = (header::CONTENT_RANGE, format!("bytes {first}-{last}/{length}"));
            (StatusCode::PARTIAL_CONTENT, [kind, range], bytes).into_response()
        }
        None => {
            let want = format!("one that begins before its end: it has {length} bytes so far");
            let problem = Problem::BadField { field: "range".into(), value: range.to_string(), want };
            let range = [(header::CONTENT_RANGE, format!("bytes */{length}"))];
            (StatusCode::RANGE_NOT_SATISFIABLE, range, Json(problem.told())).into_response()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_of_files() {
        let within = |text: &str, length| Range::read(text).map(|range| range.within(length));
        assert_eq!(within("0-9", 100), Some(Some((0, 10))));
        assert_eq!(within("90-200", 100), Some(Some((90, 10))));
        assert_eq!(within("50-", 100), Some(Some((50, 50))));
        assert_eq!(within("-30", 100), Some(Some((70, 30))));
        assert_eq!(within("-300", 100), Some(Some((0, 100))));
        assert_eq!(within("100-", 100), Some(None));
        assert_eq!(within("-5", 0), Some(None));
        assert_eq!(within(&format!("0-{}", u64::MAX), 100), Some(Some((0, 100))));
        assert_eq!(within("0-", u64::MAX), Some(Some((0, MOST))));
        for bad in ["", "-", "a-b", "9-0", "1,2-3", "--5", "0-1-2"] {
            assert_eq!(within(bad, 100), None, "{bad}");
        }
    }
}
