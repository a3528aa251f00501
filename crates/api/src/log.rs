//! A job's output as a follower gets it who may have to come back: `GET /v1/jobs/{id}/log?from=1.0.0`.
//!
//! It comes in frames: one byte for the kind, four for the length of what follows (little endian), and that.
//! They tell the two streams apart, the attempts, and the end, so that nothing is missed and nothing is shown
//! twice when the service went away in between. Frames of a kind that is not known are passed over.

use std::fmt;
use std::str::FromStr;

use crate::jobs::Job;

/// Says that an answer comes in frames.
pub const CONTENT_TYPE: &str = "application/vnd.nexus.frames";

/// A service sends far smaller ones.
const LONGEST_FRAME: usize = 16 << 20;

/// Kind and length.
const HEAD: usize = 5;

const ATTEMPT: u8 = b'a';
const STDOUT: u8 = b'o';
const STDERR: u8 = b'e';
const STOPPING: u8 = b's';
const ENDED: u8 = b'j';

/// How far a follower has come: the attempt, and the bytes of each stream that it has had of it. The attempt need
/// not have begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub attempt: u32,
    pub stdout: u64,
    pub stderr: u64,
}

impl Place {
    pub const START: Place = Place { attempt: 1, stdout: 0, stderr: 0 };

    /// Where a follower is who has had this frame too.
    pub fn after(self, frame: &Frame) -> Place {
        match frame {
            Frame::Attempt(attempt) if *attempt != self.attempt => Place { attempt: *attempt, ..Place::START },
            Frame::Output { stderr: false, bytes } => Place { stdout: self.stdout + bytes.len() as u64, ..self },
            Frame::Output { stderr: true, bytes } => Place { stderr: self.stderr + bytes.len() as u64, ..self },
            Frame::Attempt(_) | Frame::Stopping | Frame::Ended(_) => self,
        }
    }
}

/// `1.4096.0`
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.attempt, self.stdout, self.stderr)
    }
}

impl FromStr for Place {
    type Err = BadFrame;

    fn from_str(text: &str) -> Result<Place, BadFrame> {
        let mut numbers = text.split('.').map(|part| part.parse::<u64>().ok());
        let mut next = || numbers.next().flatten().ok_or(BadFrame::Place);
        let place = Place {
            attempt: u32::try_from(next()?).ok().filter(|attempt| *attempt > 0).ok_or(BadFrame::Place)?,
            stdout: next()?,
            stderr: next()?,
        };
        if numbers.next().is_some() { Err(BadFrame::Place) } else { Ok(place) }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// What follows was printed by this attempt.
    Attempt(u32),
    Output {
        stderr: bool,
        bytes: Vec<u8>,
    },
    /// The service goes down: if the answer breaks off now, that was meant.
    Stopping,
    /// The last frame: the job has ended, like this.
    Ended(Box<Job>),
}

/// What cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    Place,
    TooLong { bytes: usize },
    Content { kind: u8 },
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Place => f.write_str("an attempt and two lengths are wanted, as in 1.0.0"),
            BadFrame::TooLong { bytes } => write!(f, "a frame of {bytes} bytes is too long"),
            BadFrame::Content { kind } => write!(f, "the content of a frame {:?} cannot be read", char::from(*kind)),
        }
    }
}

impl std::error::Error for BadFrame {}

impl Frame {
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Frame::Attempt(number) => framed(ATTEMPT, &number.to_le_bytes()),
            Frame::Output { stderr: false, bytes } => framed(STDOUT, bytes),
            Frame::Output { stderr: true, bytes } => framed(STDERR, bytes),
            Frame::Stopping => framed(STOPPING, &[]),
            Frame::Ended(job) => framed(ENDED, &serde_json::to_vec(job).expect("a job is plain data")),
        }
    }

    /// None for a kind that is not known.
    fn read(kind: u8, content: &[u8]) -> Result<Option<Frame>, BadFrame> {
        let bad = BadFrame::Content { kind };
        Ok(Some(match kind {
            ATTEMPT => Frame::Attempt(u32::from_le_bytes(content.try_into().map_err(|_| bad)?)),
            STDOUT | STDERR => Frame::Output { stderr: kind == STDERR, bytes: content.to_vec() },
            STOPPING => Frame::Stopping,
            ENDED => Frame::Ended(serde_json::from_slice(content).map_err(|_| bad)?),
            _ => return Ok(None),
        }))
    }
}

fn framed(kind: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() <= LONGEST_FRAME, "output is sent in small parts");
    let mut bytes = Vec::with_capacity(HEAD + content.len());
    bytes.push(kind);
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes.extend(content);
    bytes
}

/// Puts frames together from bytes, however those are cut.
#[derive(Default)]
pub struct Frames {
    unread: Vec<u8>,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
    }

    /// The next frame, if all of it is there.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, BadFrame> {
        while let [kind, a, b, c, d, rest @ ..] = self.unread.as_slice() {
            let (kind, length) = (*kind, u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            if length > LONGEST_FRAME {
                return Err(BadFrame::TooLong { bytes: length });
            }
            let Some(content) = rest.get(..length) else { return Ok(None) };
            let frame = Frame::read(kind, content);
            self.unread.drain(..HEAD + length);
            if let Some(frame) = frame? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stderr: bool, text: &str) -> Frame {
        Frame::Output { stderr, bytes: text.into() }
    }

    #[test]
    fn frames_are_written_as_they_always_were() {
        assert_eq!(Frame::Attempt(2).to_bytes(), b"a\x04\0\0\0\x02\0\0\0");
        assert_eq!(output(false, "out").to_bytes(), b"o\x03\0\0\0out");
        assert_eq!(output(true, "").to_bytes(), b"e\0\0\0\0");
        assert_eq!(Frame::Stopping.to_bytes(), b"s\0\0\0\0");
    }

    #[test]
    fn frames_come_out_whole_however_they_are_cut() {
        let sent = [Frame::Attempt(1), output(false, "one"), output(true, "\0two"), Frame::Stopping];
        let mut bytes: Vec<u8> = sent[..2].iter().flat_map(Frame::to_bytes).collect();
        bytes.extend(framed(b'?', b"of a later version"));
        bytes.extend(sent[2..].iter().flat_map(Frame::to_bytes));
        for size in [1, 3, 7, bytes.len()] {
            let (mut frames, mut heard) = (Frames::default(), Vec::new());
            for part in bytes.chunks(size) {
                frames.push(part);
                while let Some(frame) = frames.next_frame().unwrap() {
                    heard.push(frame);
                }
            }
            assert_eq!(heard, sent, "in parts of {size}");
        }
    }

    #[test]
    fn what_cannot_be_a_frame_is_refused() {
        let heard = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.next_frame()
        };
        assert_eq!(heard(b"{\"problem\""), Err(BadFrame::TooLong { bytes: 0x6f72_7022 }));
        assert_eq!(heard(b"a\x01\0\0\0x"), Err(BadFrame::Content { kind: b'a' }));
        assert_eq!(heard(b"o\x09\0\0\0half"), Ok(None));
    }

    #[test]
    fn a_place_follows_the_frames() {
        let mut place = Place::START;
        for frame in [Frame::Attempt(1), output(false, "12345"), output(true, "123"), Frame::Stopping] {
            place = place.after(&frame);
        }
        assert_eq!(place.to_string(), "1.5.3");
        assert_eq!(place.after(&Frame::Attempt(1)), place, "coming back to an attempt forgets nothing");
        assert_eq!(place.after(&Frame::Attempt(3)).to_string(), "3.0.0");
        assert_eq!("1.5.3".parse(), Ok(place));
        for bad in ["", "1", "1.0", "0.0.0", "1.0.0.0", "1.-1.0", "x.0.0"] {
            assert_eq!(bad.parse::<Place>(), Err(BadFrame::Place), "{bad}");
        }
    }
}
