//! The frames between a job's shim and those who look at its terminal, described in `docs/run-directory.md`.
//!
//! A frame is a kind (one byte), a length (u32, little endian) and as many bytes. What cannot be read ends the
//! connection: there is no way to find the next frame behind a bad one.

use serde::{Deserialize, Serialize};

use crate::results::Found;
use crate::run_dir::{ExitRecord, ExitStatus};

/// Format of everything here. A viewer of a later one is refused with a word.
pub const FORMAT: u32 = 1;

/// What an upgraded HTTP connection is called that carries these frames.
pub const PROTOCOL: &str = "nexus-terminal";

/// The longest content of a frame. Longer output and input goes in several.
pub const LONGEST: usize = 64 << 10;

/// So much of what was printed before is shown to a new viewer.
pub const SCROLLBACK: u64 = 64 << 10;

/// Letters of an error in a record that is too long for a frame.
const LONGEST_ERROR: usize = 1000;

const HEAD: usize = 5;

mod kind {
    pub const VIEWER_HELLO: u8 = 1;
    pub const INPUT: u8 = 2;
    pub const RESIZE: u8 = 3;
    pub const TIME_LIMIT: u8 = 4;
    pub const SHIM_HELLO: u8 = 17;
    pub const OUTPUT: u8 = 18;
    pub const LEFT_OUT: u8 = 19;
    pub const REFUSED: u8 = 20;
    pub const ENDED: u8 = 21;
    pub const TIME_LIMIT_SET: u8 = 22;
}

/// The first frame of a viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewerHello {
    pub format: u32,
    /// Of its terminal; 0 where it has none.
    pub columns: u16,
    pub rows: u16,
    #[serde(default)]
    pub read_only: bool,
    /// How much it has seen on an earlier connection, in bytes since the run began: it is shown what followed.
    #[serde(default)]
    pub from: Option<u64>,
    /// The GNU screen session in which it is the window, `1234.nexus_job_abc`.
    #[serde(default)]
    pub session: Option<String>,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimHello {
    pub format: u32,
    /// Whether there is a terminal, and so somebody who reads what is typed.
    pub tty: bool,
    /// Where in the run's output the next byte is.
    pub position: u64,
    /// Whether it takes another time limit. Shims of before that was possible do not.
    #[serde(default)]
    pub takes_time_limit: bool,
}

/// Another time limit for a run, and the answer that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeLimit {
    /// From the run's start; null takes the limit away.
    pub limit_ms: Option<u64>,
}

/// What a viewer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromViewer {
    Hello(ViewerHello),
    Input(Vec<u8>),
    Resize { columns: u16, rows: u16 },
    TimeLimit(TimeLimit),
}

/// What a shim says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromShim {
    Hello(ShimHello),
    /// Of both streams, in the order of their arrival.
    Output(Vec<u8>),
    /// So many bytes are missing here: the viewer was too slow, or away too long.
    LeftOut(u64),
    /// Why something was not done.
    Refused(String),
    /// The last frame: how the run ended.
    Ended(ExitRecord),
    /// This time limit holds now, as it was asked for.
    TimeLimitSet(TimeLimit),
}

/// Bytes that are no frame, or one of an unknown kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame;

impl std::fmt::Display for BadFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the terminal's stream cannot be read")
    }
}

impl std::error::Error for BadFrame {}

impl FromViewer {
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        match self {
            FromViewer::Hello(hello) => put_json(bytes, kind::VIEWER_HELLO, hello),
            FromViewer::Input(typed) => typed.chunks(LONGEST).for_each(|part| put(bytes, kind::INPUT, part)),
            FromViewer::Resize { columns, rows } => {
                put(bytes, kind::RESIZE, &[columns.to_le_bytes(), rows.to_le_bytes()].concat());
            }
            FromViewer::TimeLimit(limit) => put_json(bytes, kind::TIME_LIMIT, limit),
        }
    }

    /// Takes the first frame out of what has arrived, if it is complete.
    pub fn take_from(arrived: &mut Vec<u8>) -> Result<Option<FromViewer>, BadFrame> {
        let Some((kind, content)) = take(arrived)? else { return Ok(None) };
        Ok(Some(match kind {
            kind::VIEWER_HELLO => FromViewer::Hello(read_json(&content)?),
            kind::INPUT => FromViewer::Input(content),
            kind::RESIZE => {
                let [a, b, c, d] = content.try_into().map_err(|_| BadFrame)?;
                FromViewer::Resize { columns: u16::from_le_bytes([a, b]), rows: u16::from_le_bytes([c, d]) }
            }
            kind::TIME_LIMIT => FromViewer::TimeLimit(read_json(&content)?),
            _ => return Err(BadFrame),
        }))
    }
}

impl FromShim {
    pub fn append_to(&self, bytes: &mut Vec<u8>) {
        match self {
            FromShim::Hello(hello) => put_json(bytes, kind::SHIM_HELLO, hello),
            FromShim::Output(shown) => append_output(bytes, shown),
            FromShim::LeftOut(count) => put(bytes, kind::LEFT_OUT, &count.to_le_bytes()),
            FromShim::Refused(why) => put(bytes, kind::REFUSED, why.as_bytes()),
            FromShim::Ended(record) => put_ended(bytes, record),
            FromShim::TimeLimitSet(limit) => put_json(bytes, kind::TIME_LIMIT_SET, limit),
        }
    }

    /// Takes the first frame out of what has arrived, if it is complete.
    pub fn take_from(arrived: &mut Vec<u8>) -> Result<Option<FromShim>, BadFrame> {
        let Some((kind, content)) = take(arrived)? else { return Ok(None) };
        Ok(Some(match kind {
            kind::SHIM_HELLO => FromShim::Hello(read_json(&content)?),
            kind::OUTPUT => FromShim::Output(content),
            kind::LEFT_OUT => FromShim::LeftOut(u64::from_le_bytes(content.try_into().map_err(|_| BadFrame)?)),
            kind::REFUSED => FromShim::Refused(String::from_utf8(content).map_err(|_| BadFrame)?),
            kind::ENDED => FromShim::Ended(read_json(&content)?),
            kind::TIME_LIMIT_SET => FromShim::TimeLimitSet(read_json(&content)?),
            _ => return Err(BadFrame),
        }))
    }
}

/// As [`FromShim::Output`], without a copy of its own.
pub fn append_output(bytes: &mut Vec<u8>, shown: &[u8]) {
    shown.chunks(LONGEST).for_each(|part| put(bytes, kind::OUTPUT, part));
}

fn put(bytes: &mut Vec<u8>, kind: u8, content: &[u8]) {
    assert!(content.len() <= LONGEST, "frames are kept short by those who make them");
    bytes.push(kind);
    bytes.extend_from_slice(&(content.len() as u32).to_le_bytes());
    bytes.extend_from_slice(content);
}

fn put_json(bytes: &mut Vec<u8>, kind: u8, content: &impl Serialize) {
    put(bytes, kind, &serde_json::to_vec(content).expect("frames are plain data"));
}

/// What the run said of its results is left out, and its error cut, where the record would be too long for a frame:
/// viewers show neither.
fn put_ended(bytes: &mut Vec<u8>, record: &ExitRecord) {
    let whole = serde_json::to_vec(record).expect("frames are plain data");
    if whole.len() <= LONGEST {
        return put(bytes, kind::ENDED, &whole);
    }
    let mut short = ExitRecord { found: Found::default(), ..record.clone() };
    if let ExitStatus::StartError { error, .. } | ExitStatus::MachineError { error } = &mut short.status {
        *error = error.chars().take(LONGEST_ERROR).collect();
    }
    put_json(bytes, kind::ENDED, &short);
}

fn read_json<'a, T: Deserialize<'a>>(content: &'a [u8]) -> Result<T, BadFrame> {
    serde_json::from_slice(content).map_err(|_| BadFrame)
}

fn take(arrived: &mut Vec<u8>) -> Result<Option<(u8, Vec<u8>)>, BadFrame> {
    let Some((&[kind, a, b, c, d], rest)) = arrived.split_first_chunk::<HEAD>() else { return Ok(None) };
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    if length > LONGEST {
        return Err(BadFrame);
    }
    let Some(content) = rest.get(..length) else { return Ok(None) };
    let content = content.to_vec();
    arrived.drain(..HEAD + length);
    Ok(Some((kind, content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let sent = [
            FromViewer::Hello(ViewerHello { format: 1, columns: 80, rows: 24, ..ViewerHello::default() }),
            FromViewer::Input(b"ls\r".to_vec()),
            FromViewer::Resize { columns: 300, rows: 2 },
            FromViewer::TimeLimit(TimeLimit { limit_ms: Some(u64::MAX) }),
            FromViewer::TimeLimit(TimeLimit { limit_ms: None }),
        ];
        let mut bytes = Vec::new();
        sent.iter().for_each(|frame| frame.append_to(&mut bytes));
        let (mut arrived, mut seen) = (Vec::new(), Vec::new());
        for byte in bytes {
            arrived.push(byte);
            seen.extend(FromViewer::take_from(&mut arrived).unwrap());
        }
        assert_eq!(seen, sent);
    }

    #[test]
    fn long_output_goes_in_several_frames() {
        let mut bytes = Vec::new();
        FromShim::Output(vec![7; LONGEST + 1]).append_to(&mut bytes);
        FromShim::LeftOut(u64::MAX).append_to(&mut bytes);
        let mut lengths = Vec::new();
        while let Some(FromShim::Output(part)) = FromShim::take_from(&mut bytes).unwrap() {
            lengths.push(part.len());
        }
        assert_eq!(lengths, [LONGEST, 1]);
    }

    #[test]
    fn a_record_that_is_too_long_for_a_frame_ends_nobody() {
        let found = Found { values: [("v".into(), "\"".repeat(LONGEST))].into(), ..Found::default() };
        let error = "\u{1}".repeat(LONGEST);
        let sample = include_str!("../frozen/v1/exit_start_error.json");
        let record: ExitRecord = serde_json::from_str(sample).unwrap();
        let long = ExitRecord { found, status: ExitStatus::StartError { error, code: None }, ..record.clone() };
        let mut bytes = Vec::new();
        FromShim::Ended(long).append_to(&mut bytes);
        match FromShim::take_from(&mut bytes) {
            Ok(Some(FromShim::Ended(told))) => assert!(told.found.is_nothing() && told.run == record.run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bad in [&[2, 0, 0, 0, 1][..], &[99, 0, 0, 0, 0], &[3, 1, 0, 0, 0, 0], &[1, 2, 0, 0, 0, b'{', b']']] {
            assert_eq!(FromViewer::take_from(&mut bad.to_vec()), Err(BadFrame), "{bad:?}");
        }
    }
}
