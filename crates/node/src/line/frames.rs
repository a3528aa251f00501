//! Frames on the line: a length (u32, little endian), a channel (the same), then as many bytes as the length says. On
//! channel 0 they are a message in JSON, on the others raw bytes of a stream.

use std::io::{self, Read};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Comes before the first frame of the node. What the machine's login shell prints before that is passed over.
pub const MAGIC: &[u8] = b"\0nexus line\0";

/// More than the kernel would take as arguments and environment of a command.
pub const LONGEST_MESSAGE: usize = 64 << 20;

/// Of a stream at once. A message waits for one of these at most.
pub const LONGEST_CHUNK: usize = 64 << 10;

/// A login shell that prints more than this before the node begins is none.
const MOST_BEFORE: usize = 1 << 20;

const MESSAGES: u32 = 0;
const HEAD: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub enum Frame<M> {
    Message(M),
    Bytes { channel: u32, bytes: Vec<u8> },
}

/// A message as it goes over the line.
pub fn message(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - HEAD;
    within_limit(length, MESSAGES)?;
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(frame)
}

/// Bytes of a stream as they go over the line.
pub fn chunk(channel: u32, bytes: &[u8]) -> Vec<u8> {
    assert!(channel != MESSAGES && bytes.len() <= LONGEST_CHUNK);
    [&(bytes.len() as u32).to_le_bytes()[..], &channel.to_le_bytes(), bytes].concat()
}

/// Reads the next frame; `None` at the end of the line.
pub fn read<M: DeserializeOwned>(mut line: impl Read) -> io::Result<Option<Frame<M>>> {
    let mut head = [0; HEAD];
    loop {
        match line.read(&mut head[..1]) {
            Ok(0) => return Ok(None),
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    line.read_exact(&mut head[1..])?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (length, channel) = (word(0) as usize, word(4));
    within_limit(length, channel)?;
    // Memory grows with what comes, not with what a head promises.
    let mut bytes = Vec::with_capacity(length.min(LONGEST_CHUNK));
    line.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(match channel {
        MESSAGES => Frame::Message(serde_json::from_slice(&bytes)?),
        channel => Frame::Bytes { channel, bytes },
    }))
}

fn within_limit(length: usize, channel: u32) -> io::Result<()> {
    let most = if channel == MESSAGES { LONGEST_MESSAGE } else { LONGEST_CHUNK };
    match length > most {
        true => Err(invalid(format!("a frame of {length} bytes is too long"))),
        false => Ok(()),
    }
}

/// Passes over what was printed before the node began.
pub fn find_magic(mut line: impl Read) -> io::Result<()> {
    let (mut before, mut byte) = (Vec::new(), [0]);
    while !before.ends_with(MAGIC) {
        match line.read(&mut byte) {
            Ok(0) => return Err(invalid(format!("it ended before the node said anything{}", printed(&before)))),
            Ok(_) => before.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if before.len() > MOST_BEFORE {
            return Err(invalid(format!("something else than nexus answers{}", printed(&before))));
        }
    }
    Ok(())
}

/// The last line of it, for who has to find out what went wrong.
fn printed(before: &[u8]) -> String {
    let text = String::from_utf8_lossy(before);
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("; it printed: {}", line.trim().chars().take(200).collect::<String>()),
        None => String::new(),
    }
}

pub fn invalid(error: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let sent = [message(&"one").unwrap(), chunk(7, b"two"), chunk(7, b"")].concat();
        let mut line = &sent[..];
        let mut next = || read::<String>(&mut line).unwrap();
        assert_eq!(next(), Some(Frame::Message("one".into())));
        assert_eq!(next(), Some(Frame::Bytes { channel: 7, bytes: b"two".to_vec() }));
        assert_eq!(next(), Some(Frame::Bytes { channel: 7, bytes: vec![] }));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_frame_over_the_limit_or_cut_short_is_refused() {
        let head = |length: usize, channel: u32| [(length as u32).to_le_bytes(), channel.to_le_bytes()].concat();
        for bad in [head(LONGEST_MESSAGE + 1, 0), head(LONGEST_CHUNK + 1, 1), head(5, 1), b"hello\n".to_vec()] {
            assert!(read::<String>(&bad[..]).is_err(), "{bad:?}");
        }
        let refused = read::<String>(&head(usize::MAX, 0)[..]).unwrap_err();
        assert_eq!(refused.to_string(), "a frame of 4294967295 bytes is too long");
    }

    #[test]
    fn a_head_that_promises_much_takes_no_memory() {
        /// Says how much room it was given, and ends.
        struct Ends<'a>(&'a [u8], &'a std::cell::Cell<usize>);
        impl Read for Ends<'_> {
            fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
                self.1.set(self.1.get().max(room.len()));
                self.0.read(room)
            }
        }
        let (head, most) = ([(LONGEST_MESSAGE as u32).to_le_bytes(), [0; 4]].concat(), std::cell::Cell::new(0));
        let cut = read::<String>(Ends(&head, &most)).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        assert!(most.get() <= LONGEST_CHUNK, "{}", most.get());
    }

    #[test]
    fn what_a_login_shell_prints_is_passed_over() {
        let sent = [b"Welcome!\n\0nexus\n".as_slice(), MAGIC, &chunk(7, b"x")].concat();
        let mut line = &sent[..];
        find_magic(&mut line).unwrap();
        assert_eq!(read::<String>(&mut line).unwrap(), Some(Frame::Bytes { channel: 7, bytes: b"x".to_vec() }));
        let refused = find_magic(&b"motd\nno such program\n\n"[..]).unwrap_err().to_string();
        assert_eq!(refused, "it ended before the node said anything; it printed: no such program");
        assert!(find_magic(io::repeat(b'y')).unwrap_err().to_string().starts_with("something else than nexus"));
    }
}
