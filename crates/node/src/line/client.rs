//! The service's end of the line. Two threads of its own: one reads what the node says, one writes.

use std::io;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::channel::{Channel, Channels, Side};
use super::frames::{self, Frame, invalid};
use super::outgoing::Outgoing;
use super::words::{FromNode, REACHED, Stream, ToNode};
use crate::threads;

/// A service may have many lines, and their threads have little to do.
pub(super) const STACK: usize = 256 << 10;

/// What comes from a node.
#[derive(Debug)]
pub enum Heard {
    Said(FromNode),
    /// The line is of no use any more, and why. The last that is heard, once.
    Lost(String),
}

/// Called by the line's own threads; must not block.
pub type LineSink = Box<dyn Fn(Heard) + Send + Sync>;

/// A line to a node. It ends when it is closed or dropped, when the node's end is, or when it breaks; whoever gave it
/// its two ends closes what is behind them when the sink hears of the loss.
pub struct Line {
    shared: Arc<Shared>,
}

struct Shared {
    outgoing: Arc<Outgoing>,
    channels: Arc<Channels>,
    sink: LineSink,
    /// Whether the loss was told. Held while the sink is called: nothing comes behind the loss.
    lost: Mutex<bool>,
    /// A number is told to the node before the next is given.
    opening: Mutex<()>,
}

impl Line {
    /// Begins to listen. What stands on the line before the node's first word is passed over.
    pub fn open(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
        sink: impl Fn(Heard) + Send + Sync + 'static,
    ) -> Line {
        let outgoing = Arc::new(Outgoing::default());
        let channels = Channels::new(outgoing.clone(), Side::Service);
        let shared =
            Shared { outgoing, channels, sink: Box::new(sink), lost: Mutex::new(false), opening: Mutex::default() };
        let shared = Arc::new(shared);
        let (hearing, writing) = (shared.clone(), shared.clone());
        let begun = spawn("nexus-line-in", move || hearing.lose(hearing.hear(reader))).and_then(|()| {
            spawn("nexus-line-out", move || {
                if let Err(error) = writing.outgoing.write(writer) {
                    writing.lose(format!("failed to write to the node: {error}"));
                }
            })
        });
        if let Err(error) = begun {
            shared.lose(format!("failed to start a thread for the line: {error}"));
        }
        Line { shared }
    }

    /// Says something to the node. Never waits; on a line that is lost nothing is said.
    pub fn send(&self, message: &ToNode) {
        self.shared.send(message);
    }

    /// Begins a stream.
    pub fn open_stream(&self, stream: Stream) -> io::Result<Channel> {
        let _opening = self.shared.opening.lock().expect("nobody panics while a stream begins");
        let channel = self.shared.channels.begin()?;
        self.shared.send(&ToNode::Open { channel: channel.number(), stream });
        Ok(channel)
    }

    /// The terminal of a run that has started, or does so within seconds. Waits until its shim is reached.
    pub fn open_terminal(&self, dir: &Path) -> io::Result<Channel> {
        let mut channel = self.open_stream(Stream::Terminal { dir: dir.to_owned() })?;
        let mut first = [0];
        channel.read_exact(&mut first)?;
        match first[0] {
            REACHED => Ok(channel),
            other => Err(invalid(format!("the terminal begins with {other}"))),
        }
    }

    /// Ends the line once what was sent is written; the node ends then, and its runs go on.
    pub fn close(&self) {
        self.shared.outgoing.close();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn send(self: &Arc<Shared>, message: &ToNode) {
        let frame = match frames::message(message) {
            Ok(frame) => frame,
            Err(error) => return self.lose_apart(format!("failed to say something to the node: {error}")),
        };
        if self.outgoing.send(frame).is_err() {
            self.lose_apart("the node takes nothing any more".into());
        }
    }

    /// Listens until the line ends; why it did.
    fn hear(&self, reader: impl Read) -> String {
        let mut line = BufReader::new(reader);
        if let Err(error) = frames::find_magic(&mut line) {
            return error.to_string();
        }
        loop {
            let done = match frames::read::<FromNode>(&mut line) {
                Ok(None) => return "the node's end was closed".into(),
                Ok(Some(Frame::Bytes { channel, bytes })) => self.channels.arrived(channel, &bytes),
                Ok(Some(Frame::Message(FromNode::Grant { channel, bytes }))) => self.channels.granted(channel, bytes),
                Ok(Some(Frame::Message(FromNode::Closed { channel, error }))) => self.channels.closed(channel, error),
                Ok(Some(Frame::Message(message))) => {
                    if !self.tell(Heard::Said(message)) {
                        return "it was lost before".into();
                    }
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                return format!("failed to read what the node says: {error}");
            }
        }
    }

    /// Whether anybody still listens.
    fn tell(&self, heard: Heard) -> bool {
        let mut lost = self.lost.lock().expect("nobody panics in a sink");
        if *lost {
            return false;
        }
        *lost = matches!(heard, Heard::Lost(_));
        (self.sink)(heard);
        true
    }

    fn lose(&self, why: String) {
        self.outgoing.end();
        self.channels.lose(&why);
        self.tell(Heard::Lost(why));
    }

    /// As [`Shared::lose`], for callers who may hold what the sink wants.
    fn lose_apart(self: &Arc<Shared>, why: String) {
        let (shared, told) = (self.clone(), why.clone());
        if spawn("nexus-line-lost", move || shared.lose(told)).is_err() {
            // The writing thread lets go of the line, at which the node does and the reading thread tells the loss.
            self.outgoing.end();
            self.channels.lose(&why);
        }
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    threads::start_with_stack(name, STACK, work).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Takes so many bytes, then breaks.
    struct Breaks(usize);

    impl Write for Breaks {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pong() -> Vec<u8> {
        frames::message(&FromNode::Pong { asked_at_ms: 1, at_ms: 2 }).unwrap()
    }

    #[test]
    fn the_loss_is_told_once_and_nothing_behind_it() {
        let (mut node, reader) = std::os::unix::net::UnixStream::pair().unwrap();
        let (told, heard) = mpsc::channel();
        let line = Line::open(reader, Breaks(100), move |heard| told.send(heard).unwrap());
        node.write_all(&[frames::MAGIC, &pong()].concat()).unwrap();
        assert!(matches!(heard.recv().unwrap(), Heard::Said(FromNode::Pong { .. })));
        let mut channel = line.open_stream(Stream::File { path: "x".into(), from: 0 }).unwrap();
        line.send(&ToNode::Observe { runs: vec![] });
        line.send(&ToNode::Observe { runs: vec![] });
        let Heard::Lost(why) = heard.recv().unwrap() else { panic!("it goes on") };
        assert_eq!(why, "failed to write to the node: broken pipe");
        assert_eq!(channel.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        // The other half breaks as well, and the node had more to say.
        node.write_all(&pong()).unwrap();
        drop((node, line));
        assert_eq!(heard.recv_timeout(Duration::from_secs(60)).unwrap_err(), mpsc::RecvTimeoutError::Disconnected);
    }

    #[test]
    fn a_node_that_sends_more_than_was_granted_is_lost() {
        let chunk = frames::chunk(1, &[0; frames::LONGEST_CHUNK]);
        let (mut node, reader) = std::os::unix::net::UnixStream::pair().unwrap();
        let (told, heard) = mpsc::channel();
        let line = Line::open(reader, io::sink(), move |heard| told.send(heard).unwrap());
        let _channel = line.open_stream(Stream::File { path: "x".into(), from: 0 }).unwrap();
        node.write_all(frames::MAGIC).unwrap();
        for _ in 0..5 {
            node.write_all(&chunk).unwrap();
        }
        let Heard::Lost(why) = heard.recv().unwrap() else { panic!("it goes on") };
        assert_eq!(why, "failed to read what the node says: channel 1 carries more than was granted");
    }
}
