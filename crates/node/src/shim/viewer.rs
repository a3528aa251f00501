//! One who looks at the terminal: what it says, and what it has yet to take. A viewer that does not read costs the
//! job nothing: what goes beyond its queue is left out, until it has taken that and catches up from the logs.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use nexus_api::terminal::{FORMAT, FromShim, FromViewer, TimeLimit, ViewerHello, append_output};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What one viewer may be behind.
const QUEUE_BYTES: usize = 1 << 20;

/// Read from a viewer at once.
const PART_BYTES: usize = 16 << 10;

pub struct Viewer {
    stream: UnixStream,
    arrived: Vec<u8>,
    /// To be sent, from `sent` on.
    queue: Vec<u8>,
    sent: usize,
    left_out: u64,
    /// Set when it has said hello: only then is it shown anything.
    pub hello: Option<ViewerHello>,
    /// Was told once that nobody reads what it types.
    pub was_refused: bool,
    /// Wants this limit for the run, and has no answer yet.
    pub asks: Option<TimeLimit>,
    /// Nothing comes from it any more.
    pub is_gone: bool,
}

/// The connection is over, or not worth keeping.
pub struct Gone;

impl Viewer {
    pub fn new(stream: UnixStream) -> Viewer {
        let (arrived, queue) = (Vec::new(), Vec::new());
        Viewer {
            stream,
            arrived,
            queue,
            sent: 0,
            left_out: 0,
            hello: None,
            was_refused: false,
            asks: None,
            is_gone: false,
        }
    }

    pub fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub fn is_behind(&self) -> bool {
        self.sent < self.queue.len()
    }

    /// What it has said since, as far as it can be read now.
    pub fn hear(&mut self) -> Result<Vec<FromViewer>, Gone> {
        let mut part = [0; PART_BYTES];
        match self.stream.read(&mut part) {
            Ok(0) => return Err(Gone),
            Ok(count) => self.arrived.extend_from_slice(&part[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => return Err(Gone),
        }
        let mut said = Vec::new();
        while let Some(frame) = FromViewer::take_from(&mut self.arrived).map_err(|_| Gone)? {
            let is_hello = matches!(&frame, FromViewer::Hello(hello) if hello.format <= FORMAT);
            // Hello comes first, and once.
            if is_hello != self.hello.is_none() {
                return Err(Gone);
            }
            if let FromViewer::Hello(hello) = &frame {
                self.hello = Some(hello.clone());
            }
            said.push(frame);
        }
        Ok(said)
    }

    /// Puts a frame into the queue, whatever its length.
    pub fn tell(&mut self, frame: &FromShim) {
        frame.append_to(&mut self.queue);
    }

    /// Output, as far as there is room. Once some was left out all is, until it catches up.
    pub fn show(&mut self, bytes: &[u8]) {
        let waiting = self.queue.len() - self.sent;
        if self.left_out > 0 || waiting + bytes.len() > QUEUE_BYTES {
            self.left_out += bytes.len() as u64;
        } else {
            append_output(&mut self.queue, bytes);
        }
    }

    /// How much was left out, now that it could take it.
    pub fn may_catch_up(&self) -> Option<u64> {
        (self.left_out > 0 && !self.is_behind()).then_some(self.left_out)
    }

    /// Shows the end of what was left out, and tells how much is missing before it.
    pub fn catch_up(&mut self, end: &[u8]) {
        let missing = std::mem::take(&mut self.left_out).saturating_sub(end.len() as u64);
        if missing > 0 {
            self.tell(&FromShim::LeftOut(missing));
        }
        append_output(&mut self.queue, end);
    }

    /// Sends what the connection takes now.
    pub fn flush(&mut self) -> Result<(), Gone> {
        while self.is_behind() {
            match self.stream.write(&self.queue[self.sent..]) {
                Ok(count) if count > 0 => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(Gone),
            }
        }
        if !self.is_behind() {
            // A queue that was long once is not kept for the rest of the run.
            self.queue = Vec::new();
            self.sent = 0;
        } else if self.sent >= QUEUE_BYTES / 2 {
            self.queue.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    /// Whether it has left, though it is not read from at the moment.
    pub fn has_hung_up(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.stream, PollFlags::empty())];
        poll(&mut polled, Some(&now)) == Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Viewer, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Viewer::new(ours), theirs)
    }

    #[test]
    fn one_who_does_not_read_catches_up_when_it_does() {
        let (mut viewer, mut theirs) = pair();
        let part = [b'x'; 64 << 10];
        for _ in 0..100 {
            viewer.show(&part);
            assert!(viewer.flush().is_ok());
            assert!(viewer.queue.len() - viewer.sent <= QUEUE_BYTES + 1024, "the queue is bounded");
        }
        assert_eq!(viewer.may_catch_up(), None, "not before it has taken what waits");
        let reader = std::thread::spawn(move || {
            let mut arrived = Vec::new();
            theirs.read_to_end(&mut arrived).unwrap();
            let mut frames = Vec::new();
            while let Some(frame) = FromShim::take_from(&mut arrived).unwrap() {
                frames.push(frame);
            }
            frames
        });
        while viewer.is_behind() {
            assert!(viewer.flush().is_ok());
        }
        let missed = viewer.may_catch_up().unwrap();
        viewer.catch_up(b"last");
        assert!(viewer.flush().is_ok());
        drop(viewer);
        let mut frames = reader.join().unwrap();
        assert_eq!(frames.pop(), Some(FromShim::Output(b"last".to_vec())));
        assert_eq!(frames.pop(), Some(FromShim::LeftOut(missed - 4)));
        assert_eq!(frames.len() as u64 * part.len() as u64 + missed, 100 * part.len() as u64);
    }

    #[test]
    fn hello_comes_first_and_once() {
        for frames in [
            vec![FromViewer::Input(b"x".to_vec())],
            vec![FromViewer::Hello(ViewerHello::default()), FromViewer::Hello(ViewerHello::default())],
            vec![FromViewer::Hello(ViewerHello { format: FORMAT + 1, ..ViewerHello::default() })],
        ] {
            let (mut viewer, mut theirs) = pair();
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| frame.append_to(&mut bytes));
            theirs.write_all(&bytes).unwrap();
            assert!(viewer.hear().is_err(), "{frames:?}");
        }
    }
}
