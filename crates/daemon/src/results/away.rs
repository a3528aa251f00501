//! Results on another machine: its node says what there is, and sends each file over the line.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use nexus_node::left::{Plan, Sources, Trouble};
use nexus_node::line::{Channel, Stream};
use rustix::io::Errno;

use crate::backend::ssh::Remote;

/// Where results are that are not on this machine.
#[derive(Clone, Debug)]
pub struct Away(pub Remote);

impl Away {
    pub fn plan(&self, sources: &Sources) -> Result<Plan, Trouble> {
        let asked = self.0.open(Stream::Plan { sources: sources.clone() });
        let answer = asked.and_then(|channel| channel.answer::<Result<Plan, Trouble>>());
        // What a machine says is not believed: its names become paths here.
        answer.map_err(|error| unread(&sources.own, error))??.checked(&sources.own)
    }

    pub fn open(&self, path: &Path) -> Result<FileThere, Trouble> {
        let channel = self.0.open(Stream::File { path: path.to_path_buf(), from: 0 });
        Ok(FileThere(channel.map_err(|error| unread(path, error))?))
    }

    /// What is safe here is not needed there. One that stays lies in nobody's way.
    pub fn remove(&self, path: PathBuf) {
        let removed = self.0.open(Stream::Remove { path });
        let _ = removed.and_then(|mut channel| io::copy(&mut channel, &mut io::sink()));
    }
}

/// The bytes of a file there.
pub struct FileThere(Channel);

impl Read for FileThere {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(of_the_line)
    }
}

fn unread(path: &Path, error: io::Error) -> Trouble {
    Trouble::Read { path: path.to_path_buf(), source: of_the_line(error) }
}

/// A line that is lost is trouble that may pass.
fn of_the_line(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::ConnectionAborted | io::ErrorKind::NotConnected => Errno::HOSTUNREACH.into(),
        _ => error,
    }
}
