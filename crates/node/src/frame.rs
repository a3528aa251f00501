//! Messages on the stream between service and launcher: a length (u32, little endian), then as much JSON.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// More than the kernel would take as arguments and environment of a command.
const LONGEST: usize = 64 << 20;

/// Room for a message before it has come; nearly all are shorter.
const AT_ONCE: usize = 64 << 10;

/// Appends one message.
pub fn append(buffer: &mut Vec<u8>, message: &impl Serialize) -> io::Result<()> {
    let head = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    let written = serde_json::to_writer(&mut *buffer, message).map_err(io::Error::from);
    let length = buffer.len() - head - 4;
    if let Err(error) = written.and_then(|()| within_limit(length)) {
        buffer.truncate(head);
        return Err(error);
    }
    buffer[head..head + 4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Writes one message to a blocking stream.
pub fn write(mut stream: impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut buffer = Vec::new();
    append(&mut buffer, message)?;
    stream.write_all(&buffer)
}

/// Reads the next message from a blocking stream; `None` at its end.
pub fn read<M: DeserializeOwned>(mut stream: impl Read) -> io::Result<Option<M>> {
    let mut head = [0; 4];
    if stream.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut head[1..])?;
    let length = u32::from_le_bytes(head) as usize;
    within_limit(length)?;
    // Memory grows with what comes, not with what a head promises.
    let mut body = Vec::with_capacity(length.min(AT_ONCE));
    stream.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Takes the first message out of what has arrived so far, if it is complete.
pub fn take<M: DeserializeOwned>(arrived: &mut Vec<u8>) -> io::Result<Option<M>> {
    let Some((head, rest)) = arrived.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    within_limit(length)?;
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let message = serde_json::from_slice(body)?;
    arrived.drain(..4 + length);
    Ok(Some(message))
}

fn within_limit(length: usize) -> io::Result<()> {
    if length > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes is too long")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_whole_however_they_arrive() {
        let mut sent = Vec::new();
        append(&mut sent, &"one").unwrap();
        append(&mut sent, &"two").unwrap();
        assert_eq!(read::<String>(&sent[..]).unwrap().as_deref(), Some("one"));
        let (mut arrived, mut seen) = (Vec::new(), Vec::new());
        for byte in sent {
            arrived.push(byte);
            seen.extend(take::<String>(&mut arrived).unwrap());
        }
        assert_eq!(seen, ["one", "two"]);
        assert_eq!(read::<String>(&[][..]).unwrap(), None);
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused() {
        assert!(take::<String>(&mut vec![0xff; 8]).is_err());
        assert!(read::<String>(&[0xff; 8][..]).is_err());
    }
}
