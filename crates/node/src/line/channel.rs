//! A stream on the line, as both ends have it: bytes that come, bytes that go, and how many more may. Whoever reads
//! slowly holds up whoever writes to him, and nobody else: each side sends only what it was granted.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustix::event::{EventfdFlags, eventfd};
use serde::de::DeserializeOwned;

use super::frames::{self, LONGEST_CHUNK, invalid};
use super::outgoing::Outgoing;
use super::words::{FromNode, ToNode};

/// What may be on its way on one channel, each way.
const WINDOW: u32 = 256 << 10;

/// No answer in JSON is longer: results of a million files.
const LONGEST_ANSWER: u64 = 512 << 20;

/// Whose end it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Service,
    Node,
}

impl Side {
    fn grant(self, channel: u32, bytes: u32) -> Vec<u8> {
        let frame = match self {
            Side::Service => frames::message(&ToNode::Grant { channel, bytes }),
            Side::Node => frames::message(&FromNode::Grant { channel, bytes }),
        };
        frame.expect("two numbers can be written")
    }

    fn closes(self, channel: u32, error: Option<String>) -> Vec<u8> {
        let frame = match self {
            Side::Service => frames::message(&ToNode::Close { channel }),
            Side::Node => frames::message(&FromNode::Closed { channel, error }),
        };
        frame.expect("a line of text can be written")
    }
}

/// The channels that are open.
pub struct Channels {
    open: Mutex<Open>,
    outgoing: Arc<Outgoing>,
    side: Side,
}

#[derive(Default)]
struct Open {
    channels: HashMap<u32, Arc<Shared>>,
    /// The newest there was. What comes on older ones that are not open was on its way when they were closed.
    last: u32,
    lost: Option<String>,
}

struct Shared {
    books: Mutex<Books>,
    changed: Condvar,
    /// Readable after a change, for threads that wait for descriptors as well.
    wake: Option<OwnedFd>,
}

struct Books {
    arrived: VecDeque<u8>,
    /// What the other side may still send.
    allowed: u32,
    /// Read here, and not granted anew so far.
    read: u32,
    /// What may still be sent from here.
    credit: u32,
    end: Option<End>,
}

#[derive(Clone)]
enum End {
    /// By the other side, in good order.
    Closed,
    Failed(String),
    Lost(String),
    /// By this side.
    Here,
}

impl End {
    fn error(&self) -> io::Error {
        match self {
            End::Closed => io::Error::new(io::ErrorKind::BrokenPipe, "the other end has closed the stream"),
            End::Failed(error) => io::Error::other(error.clone()),
            End::Lost(why) => io::Error::new(io::ErrorKind::ConnectionAborted, format!("the line is lost: {why}")),
            End::Here => io::Error::new(io::ErrorKind::BrokenPipe, "the stream was closed"),
        }
    }
}

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    fn change(&self, change: impl FnOnce(&mut Books)) {
        change(&mut self.books());
        self.changed.notify_all();
        if let Some(wake) = &self.wake {
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
    }

    fn end(&self, end: End) {
        self.change(|books| {
            books.end.get_or_insert(end);
        });
    }
}

impl Channels {
    pub fn new(outgoing: Arc<Outgoing>, side: Side) -> Arc<Channels> {
        Arc::new(Channels { open: Mutex::default(), outgoing, side })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("nobody panics with the channels in hand")
    }

    pub fn count(&self) -> usize {
        self.open().channels.len()
    }

    /// A channel with a new number.
    pub fn begin(self: &Arc<Channels>) -> io::Result<Channel> {
        self.insert(None, None)
    }

    /// A channel with the number that the other side has given it; its changes wake whoever polls it.
    pub fn accept(self: &Arc<Channels>, number: u32) -> io::Result<Channel> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.insert(Some(number), Some(wake))
    }

    fn insert(self: &Arc<Channels>, given: Option<u32>, wake: Option<OwnedFd>) -> io::Result<Channel> {
        let mut open = self.open();
        if let Some(why) = &open.lost {
            return Err(End::Lost(why.clone()).error());
        }
        let next = open.last.checked_add(1).ok_or_else(|| invalid("the line has no channels left".into()))?;
        let number = given.unwrap_or(next);
        if number < next {
            return Err(invalid(format!("channel {number} was opened twice")));
        }
        let books = Books { arrived: VecDeque::new(), allowed: WINDOW, read: 0, credit: WINDOW, end: None };
        let shared = Arc::new(Shared { books: Mutex::new(books), changed: Condvar::new(), wake });
        open.last = number;
        open.channels.insert(number, shared.clone());
        Ok(Channel { number, shared, channels: self.clone() })
    }

    /// The channel of this number; none if it was closed a moment ago.
    fn find(&self, number: u32) -> io::Result<Option<Arc<Shared>>> {
        let open = self.open();
        match open.channels.get(&number) {
            None if number == 0 || number > open.last => Err(invalid(format!("channel {number} was never opened"))),
            found => Ok(found.cloned()),
        }
    }

    pub fn arrived(&self, number: u32, bytes: &[u8]) -> io::Result<()> {
        let Some(shared) = self.find(number)? else { return Ok(()) };
        let mut is_granted = true;
        shared.change(|books| match books.allowed.checked_sub(bytes.len() as u32) {
            Some(left) => {
                books.allowed = left;
                books.arrived.extend(bytes);
            }
            None => is_granted = false,
        });
        match is_granted {
            true => Ok(()),
            false => Err(invalid(format!("channel {number} carries more than was granted"))),
        }
    }

    pub fn granted(&self, number: u32, bytes: u32) -> io::Result<()> {
        if let Some(shared) = self.find(number)? {
            shared.change(|books| books.credit = books.credit.saturating_add(bytes));
        }
        Ok(())
    }

    /// The other side has closed it.
    pub fn closed(&self, number: u32, error: Option<String>) -> io::Result<()> {
        if let Some(shared) = self.find(number)? {
            self.open().channels.remove(&number);
            shared.end(error.map_or(End::Closed, End::Failed));
        }
        Ok(())
    }

    /// Nothing comes or goes any more on any of them.
    pub fn lose(&self, why: &str) {
        let mut open = self.open();
        open.lost = Some(why.to_owned());
        let channels = std::mem::take(&mut open.channels);
        drop(open);
        for shared in channels.into_values() {
            shared.end(End::Lost(why.to_owned()));
        }
    }
}

/// One end of a stream. Reading and writing wait, and may be done by two threads at once. Dropping it closes it.
pub struct Channel {
    number: u32,
    shared: Arc<Shared>,
    channels: Arc<Channels>,
}

impl Channel {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Closes it, at which whoever reads or writes here comes back.
    pub fn close(&self) {
        self.finish(None);
    }

    /// Closes it with a word why, which only a node has to say.
    pub(super) fn finish(&self, error: Option<String>) {
        let was_open = self.channels.open().channels.remove(&self.number).is_some();
        self.shared.end(End::Here);
        if was_open {
            // Behind all bytes of the stream.
            self.channels.outgoing.push_last(self.channels.side.closes(self.number, error));
        }
    }

    /// All that comes, as JSON.
    pub fn answer<T: DeserializeOwned>(&self) -> io::Result<T> {
        let mut bytes = Vec::new();
        self.take(LONGEST_ANSWER + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST_ANSWER {
            return Err(invalid(format!("the node's answer is longer than {LONGEST_ANSWER} bytes")));
        }
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// How much can be sent without waiting for a grant.
    pub(super) fn credit(&self) -> usize {
        self.shared.books().credit as usize
    }

    pub(super) fn is_over(&self) -> bool {
        self.shared.books().end.is_some()
    }

    /// To be polled for input: readable after a change, until [`Channel::rest`].
    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_ref().expect("only accepted channels are polled").as_fd()
    }

    /// To be called before one looks what has changed.
    pub(super) fn rest(&self) {
        let _ = rustix::io::read(self.wake(), &mut [0; 8]);
    }

    /// What has come so far, at most as much as there is room for; none at the end.
    pub(super) fn read_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let books = self.shared.books();
        match &books.end {
            Some(end) if books.arrived.is_empty() => ended(end).map(|()| None),
            _ => Ok(Some(self.take_from(books, buffer))),
        }
    }

    fn take_from(&self, mut books: MutexGuard<'_, Books>, buffer: &mut [u8]) -> usize {
        // Reads as a reader does: what it gives, and nothing when there is nothing.
        let count = books.arrived.read(buffer).unwrap_or(0);
        books.read += count as u32;
        if books.read < WINDOW / 2 || books.end.is_some() {
            return count;
        }
        let bytes = std::mem::take(&mut books.read);
        books.allowed += bytes;
        drop(books);
        // A line that takes nothing is found out by who sends messages of weight.
        let _ = self.channels.outgoing.send(self.channels.side.grant(self.number, bytes));
        count
    }
}

/// An end in good order is no error to who reads.
fn ended(end: &End) -> io::Result<()> {
    match end {
        End::Closed => Ok(()),
        other => Err(other.error()),
    }
}

impl Read for &Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut books = self.shared.books();
        loop {
            match &books.end {
                _ if !books.arrived.is_empty() || buffer.is_empty() => return Ok(self.take_from(books, buffer)),
                Some(end) => return ended(end).map(|()| 0),
                None => books = self.shared.changed.wait(books).expect("nobody panics with the books in hand"),
            }
        }
    }
}

impl Write for &Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut books = self.shared.books();
        let count = loop {
            match (&books.end, books.credit) {
                (Some(end), _) => return Err(end.error()),
                (None, 0) => books = self.shared.changed.wait(books).expect("nobody panics with the books in hand"),
                (None, credit) => break bytes.len().min(credit as usize).min(LONGEST_CHUNK),
            }
        };
        books.credit -= count as u32;
        drop(books);
        match count == 0 || self.channels.outgoing.push(frames::chunk(self.number, &bytes[..count])) {
            true => Ok(count),
            false => Err(End::Lost("it was closed".into()).error()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}
