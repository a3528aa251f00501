//! What is to go over the line, and the thread that writes it: messages first, then bytes of streams in the order in
//! which they came. Messages never wait, up to a limit beyond which the line counts as lost; streams do wait.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Bytes of streams that are kept ready: enough that the writer never runs dry.
const MOST_CHUNKS: usize = 8;

/// Messages that are kept for a line that takes none: a long queue's worth of starts.
const MOST_MESSAGE_BYTES: usize = 256 << 20;

/// A line on which one write takes longer than this is lost, whatever else seems to live.
const LONGEST_WRITE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Outgoing {
    queue: Mutex<Queue>,
    /// There is something to write, or nothing will be any more.
    more: Condvar,
    /// There is room for another chunk.
    room: Condvar,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Vec<u8>>,
    message_bytes: usize,
    chunks: VecDeque<Vec<u8>>,
    /// Since when the writer waits for the line to take something.
    writing: Option<Instant>,
    /// Nothing is taken any more; what is there is still written.
    closed: bool,
    /// Nothing is written any more.
    ended: bool,
}

/// The line takes nothing, and too much has piled up.
#[derive(Debug, PartialEq, Eq)]
pub struct Stuck;

impl Outgoing {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nobody panics with the queue in hand")
    }

    /// Puts a message at the end of those to be written. One for a line that is closed is dropped.
    pub fn send(&self, frame: Vec<u8>) -> Result<(), Stuck> {
        let mut queue = self.queue();
        if queue.closed {
            return Ok(());
        }
        let waits = queue.writing.is_some_and(|since| since.elapsed() > LONGEST_WRITE);
        if waits || queue.message_bytes + frame.len() > MOST_MESSAGE_BYTES {
            return Err(Stuck);
        }
        queue.message_bytes += frame.len();
        queue.messages.push_back(frame);
        self.more.notify_one();
        Ok(())
    }

    /// Puts bytes of a stream at the end of those to be written, once there is room; whether they will be.
    pub fn push(&self, frame: Vec<u8>) -> bool {
        let mut queue = self.queue();
        while queue.chunks.len() >= MOST_CHUNKS && !queue.closed {
            queue = self.room.wait(queue).expect("nobody panics with the queue in hand");
        }
        if queue.closed {
            return false;
        }
        queue.chunks.push_back(frame);
        self.more.notify_one();
        true
    }

    /// The last frame of a stream, behind its bytes. Does not wait: there is one for each stream.
    pub fn push_last(&self, frame: Vec<u8>) {
        let mut queue = self.queue();
        if !queue.closed {
            queue.chunks.push_back(frame);
            self.more.notify_one();
        }
    }

    /// Takes no more. What is there goes out, and then [`Outgoing::write`] comes back.
    pub fn close(&self) {
        self.queue().closed = true;
        self.more.notify_all();
        self.room.notify_all();
    }

    /// As [`Outgoing::close`], and what is there is dropped.
    pub fn end(&self) {
        let mut queue = self.queue();
        (queue.closed, queue.ended) = (true, true);
        (queue.messages, queue.chunks) = Default::default();
        self.more.notify_all();
        self.room.notify_all();
    }

    /// Writes until it is closed, or the line breaks.
    pub fn write(&self, mut line: impl Write) -> io::Result<()> {
        while let Some(frame) = self.next() {
            line.write_all(&frame).and_then(|()| line.flush())?;
        }
        Ok(())
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut queue = self.queue();
        queue.writing = None;
        loop {
            let next = match queue.messages.pop_front() {
                Some(message) => {
                    queue.message_bytes -= message.len();
                    Some(message)
                }
                None => queue.chunks.pop_front().inspect(|_| self.room.notify_one()),
            };
            if next.is_some() {
                queue.writing = Some(Instant::now());
                return next;
            }
            if queue.closed || queue.ended {
                return None;
            }
            queue = self.more.wait(queue).expect("nobody panics with the queue in hand");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_first_and_streams_keep_their_order() {
        let outgoing = Outgoing::default();
        for chunk in ["a", "b"] {
            assert!(outgoing.push(chunk.into()));
        }
        outgoing.push_last("c".into());
        for message in ["1", "2"] {
            outgoing.send(message.into()).unwrap();
        }
        outgoing.close();
        assert!(!outgoing.push("d".into()));
        let mut written = Vec::new();
        outgoing.write(&mut written).unwrap();
        assert_eq!(written, b"12abc");
    }

    #[test]
    fn a_line_that_takes_nothing_keeps_streams_waiting_and_is_lost_at_last() {
        let outgoing = Outgoing::default();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| (0..=MOST_CHUNKS).map(|_| outgoing.push(vec![0])).last());
            while outgoing.queue().chunks.len() < MOST_CHUNKS {
                std::thread::yield_now();
            }
            let large = vec![0; MOST_MESSAGE_BYTES / 2];
            outgoing.send(large.clone()).unwrap();
            outgoing.send(large).unwrap();
            assert_eq!(outgoing.send(vec![0]), Err(Stuck));
            outgoing.end();
            assert_eq!(waiting.join().unwrap(), Some(false));
        });
        assert_eq!(outgoing.next(), None);
    }
}
