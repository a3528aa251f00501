//! Any bytes on a line between service and node, and on the stream to the launcher: either end reads them up to what makes
//! no sense, takes no more memory than came, and reads again what it wrote.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use nexus_api::run_dir::{RunSpec, ShimMessage};
use nexus_node::line::fuzzing::{Channels, Frame, MAGIC, Outgoing, Side, chunk, find_magic, message, read};
use nexus_node::line::{Channel, FromNode, ToNode};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub fn hold(bytes: &[u8]) {
    let mut greeted = bytes;
    if find_magic(&mut greeted).is_ok() {
        let before = bytes.len() - greeted.len() - MAGIC.len();
        assert!(bytes[before..].starts_with(MAGIC) && !bytes[..before].windows(MAGIC.len()).any(|part| part == MAGIC));
    } else {
        greeted = bytes;
    }
    let mut service = End::new(Side::Service);
    service.begins();
    service.begins();
    service.hears(greeted, |end, word: FromNode| match word {
        FromNode::Grant { channel, bytes } => end.channels.granted(channel, bytes),
        FromNode::Closed { channel, error } => end.channels.closed(channel, error),
        _ => Ok(()),
    });
    let mut node = End::new(Side::Node);
    node.hears(greeted, |end, word: ToNode| match word {
        ToNode::Open { channel, .. } => end.accepts(channel),
        ToNode::Grant { channel, bytes } => end.channels.granted(channel, bytes),
        ToNode::Close { channel } => end.channels.closed(channel, None),
        _ => Ok(()),
    });
    to_launcher::<RunSpec>(bytes);
    to_launcher::<ShimMessage>(bytes);
}

/// One end, with nobody at the other.
struct End {
    channels: Arc<Channels>,
    open: HashMap<u32, Channel>,
    /// Came on each, and was not read: whoever reads more would wait.
    unread: HashMap<u32, usize>,
}

impl End {
    fn new(side: Side) -> End {
        let channels = Channels::new(Arc::new(Outgoing::default()), side);
        End { channels, open: HashMap::new(), unread: HashMap::new() }
    }

    fn begins(&mut self) {
        let channel = self.channels.begin().expect("there are numbers left");
        let number = u32::try_from(self.open.len()).expect("two are few") + 1;
        self.open.insert(number, channel);
    }

    fn accepts(&mut self, number: u32) -> io::Result<()> {
        let channel = self.channels.accept(number)?;
        self.open.insert(number, channel);
        Ok(())
    }

    fn hears<M: Serialize + DeserializeOwned>(
        &mut self,
        mut line: &[u8],
        take: impl Fn(&mut End, M) -> io::Result<()>,
    ) {
        while let Ok(Some(frame)) = read::<M>(&mut line) {
            let taken = match frame {
                Frame::Message(word) => {
                    is_written_as_read(&word);
                    take(self, word)
                }
                Frame::Bytes { channel, bytes } => {
                    assert!(chunk(channel, &bytes).ends_with(&bytes));
                    self.arrives(channel, &bytes)
                }
            };
            if taken.is_err() {
                break;
            }
        }
        self.channels.lose("the bytes have ended");
        assert_eq!(self.channels.count(), 0);
    }

    /// What was taken comes out again.
    fn arrives(&mut self, number: u32, bytes: &[u8]) -> io::Result<()> {
        self.channels.arrived(number, bytes)?;
        *self.unread.entry(number).or_default() += bytes.len();
        let waits = self.unread[&number];
        if let Some(mut channel) = self.open.get(&number).filter(|_| waits > 100) {
            let mut room = vec![0; waits];
            // One that was closed a moment ago has nothing.
            if let Ok(count) = channel.read(&mut room) {
                assert!(count <= waits);
            }
            self.unread.insert(number, 0);
        }
        Ok(())
    }
}

fn is_written_as_read<M: Serialize + DeserializeOwned>(word: &M) {
    let written = message(word).expect("what was read can be written");
    match read::<M>(&written[..]).expect("what was written can be read") {
        Some(Frame::Message(same)) => assert_eq!(json(word), json(&same)),
        _ => panic!("a message is a message"),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it is plain data")
}

fn to_launcher<M: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let (mut arrived, mut stream) = (bytes.to_vec(), bytes);
    while let Ok(Some(one)) = nexus_node::fuzzing::take::<M>(&mut arrived) {
        let other: M = nexus_node::fuzzing::read(&mut stream).expect("it came whole").expect("it is there");
        assert_eq!(json(&one), json(&other));
        assert_eq!(stream, arrived);
        let mut written = Vec::new();
        nexus_node::fuzzing::append(&mut written, &one).expect("what was read can be written");
        let same: M = nexus_node::fuzzing::take(&mut written).expect("it can be read").expect("it is there");
        assert_eq!(json(&one), json(&same));
    }
}
