//! Writes down, in one order, all that the service, its launcher and its shims do to the files below one folder, and
//! when they ask for it to be on the disk: what a power cut leaves can be worked out from it ([`crate::disk`]).
//!
//! The processes are traced (ptrace), system call by system call, so that calls which go by the C library, or around it,
//! are seen alike. Programs that are not the binary under test are let go when they are executed: what jobs write is
//! their own. What cannot be written down is refused by a panic of the recording: memory that is mapped and written to
//! (but for SQLite's `-shm`, which is made anew after a power cut), and files copied inside the kernel.

mod calls;
mod log;
mod tracer;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use log::Log;

/// A file or folder, whatever its name is. [`ROOT`] is the folder that is recorded.
pub type Node = usize;

pub const ROOT: Node = 0;

/// A name in a folder.
pub type Entry = (Node, OsString);

#[derive(Clone, Debug)]
pub enum Kind {
    Folder,
    File,
    Link(PathBuf),
}

#[derive(Clone, Debug)]
pub enum Change {
    /// A node that was not there before.
    Make {
        at: Entry,
        node: Node,
        kind: Kind,
    },
    /// Another name of a node.
    Name {
        at: Entry,
        node: Node,
    },
    Drop {
        at: Entry,
    },
    /// Within one folder.
    Move {
        from: Entry,
        to: Entry,
        node: Node,
    },
    /// Two names of one folder change places; each with the node that it has from then on.
    Swap {
        one: (Entry, Node),
        other: (Entry, Node),
    },
    Write {
        node: Node,
        at: u64,
        bytes: Vec<u8>,
    },
    Size {
        node: Node,
        bytes: u64,
    },
}

#[derive(Clone, Debug)]
pub enum Event {
    Change(Change),
    /// Somebody asks for a node to be on the disk. What comes later is not part of it.
    SyncBegins {
        sync: usize,
        node: Node,
    },
    /// It is.
    SyncEnds {
        sync: usize,
    },
    /// Something that the test wants to know the place of.
    Note(usize),
}

/// A recording of one folder, which is empty at its beginning but for what is none of its business.
pub struct Recording {
    log: Arc<Mutex<Log>>,
    tracers: Mutex<Vec<JoinHandle<()>>>,
}

impl Recording {
    pub fn of(root: &Path) -> Recording {
        let log = Arc::new(Mutex::new(Log::of(root)));
        Recording { log, tracers: Mutex::default() }
    }

    /// Runs a command and waits for its end. What it started and left behind is recorded as long as it lives.
    pub fn run(&self, mut command: Command) -> ExitStatus {
        let (told, ended) = mpsc::channel();
        let log = Arc::clone(&self.log);
        let binary = Path::new(command.get_program()).canonicalize().expect("the binary is there");
        // All of them belong to the thread that started the first.
        let tracer = std::thread::spawn(move || tracer::trace(&mut command, &binary, &log, &told));
        self.tracers.lock().expect("nobody panics with it").push(tracer);
        ended.recv().expect("the recorder goes on until the command has ended")
    }

    pub fn note(&self, number: usize) {
        self.log.lock().expect("the recorder goes on").push(Event::Note(number));
    }

    /// Waits until all that was recorded has ended; all that happened, in order.
    pub fn finish(self) -> Vec<Event> {
        for tracer in self.tracers.into_inner().expect("nobody panics with it") {
            tracer.join().expect("the recorder could write everything down");
        }
        let log = Arc::into_inner(self.log).expect("no tracer is left");
        log.into_inner().expect("no tracer panicked").events
    }
}
