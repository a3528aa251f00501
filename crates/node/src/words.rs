//! What a node is asked, and what it has to say.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, atomic::AtomicBool};
use std::time::Duration;

use nexus_api::run_dir::{ExitRecord, RunSpec};
use nexus_core::ids::RunId;
use serde::{Deserialize, Serialize};

use crate::listeners::Listener;

/// Where a node listens and what it starts.
pub struct NodeConfig {
    /// Path of the socket on which shims report; its folder exists.
    pub reports: PathBuf,
    /// Program and arguments that end up in [`crate::launcher::main`].
    pub launcher: Vec<OsString>,
    /// Whether to use cgroups where they can be used.
    pub cgroups: bool,
    /// The lock of the service's home. The launcher keeps it open, and each shim until its marker is made: who
    /// gets the lock afterwards knows that no start is still on its way.
    pub guard: Option<Arc<File>>,
    /// How long a shim may stay silent after the moment at which it should have ended its run, or told the end.
    pub shim_patience: Duration,
}

impl NodeConfig {
    /// As a rule; tests set the variable `NEXUS_SHIM_PATIENCE` to fewer milliseconds.
    pub fn usual_shim_patience() -> Duration {
        let asked = std::env::var("NEXUS_SHIM_PATIENCE").ok().and_then(|text| text.parse().ok());
        Duration::from_millis(asked.unwrap_or(5_000))
    }
}

/// A run and its directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPlace {
    #[serde(with = "as_text")]
    pub run: RunId,
    pub dir: PathBuf,
}

/// When a run is to end: what its shim was told with the run, and since. A node that has not started the run itself knows it
/// from this, and ends the run should the shim stand still.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTerms {
    #[serde(with = "as_text")]
    pub run: RunId,
    pub time_limit_ms: Option<u64>,
    /// By the configuration of now. The node prefers what the shim says.
    pub grace_ms: u64,
}

/// What a node has to say of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    Started {
        #[serde(with = "as_text")]
        run: RunId,
        pid: u32,
        at_ms: i64,
    },
    Ended {
        #[serde(with = "as_text")]
        run: RunId,
        record: ExitRecord,
    },
    /// Seen by `observe`: nothing ever started in its directory.
    NotStarted {
        #[serde(with = "as_text")]
        run: RunId,
    },
    /// Seen by `observe`: nothing started yet, and it may at any time.
    Underway {
        #[serde(with = "as_text")]
        run: RunId,
    },
    /// `stop` found it unstarted and claimed its marker: it will never start.
    Claimed {
        #[serde(with = "as_text")]
        run: RunId,
    },
    /// The launch itself failed (fork, launcher gone, directory cannot be made).
    StartFailed {
        #[serde(with = "as_text")]
        run: RunId,
        error: String,
    },
    /// Its directory was cleared.
    Tidied {
        #[serde(with = "as_text")]
        run: RunId,
    },
    /// Its shim is dead without a record, or the machine was restarted, and all that it left is ended.
    Lost {
        #[serde(with = "as_text")]
        run: RunId,
        error: String,
    },
}

/// Called by the node's own threads; must not block.
pub type Sink = Box<dyn Fn(Report) + Send + Sync>;

/// What is asked of the keeper.
pub(crate) enum Request {
    Start(Vec<RunSpec>),
    /// A shim that had made ready for this run is told to begin.
    Begun {
        run: RunId,
        spec: Box<RunSpec>,
        by: Listener,
    },
    Observe(Vec<RunPlace>),
    Stop(Vec<RunPlace>),
    Terms(Vec<RunTerms>),
    /// Shims report here from now on.
    Listen {
        listener: OwnedFd,
        path: PathBuf,
    },
    /// No process is left of a run whose shim stands still.
    Emptied {
        run: RunId,
    },
    /// The end of such a run is recorded, and its shim is gone; without a record that was not to be done.
    Replaced {
        run: RunId,
        record: Option<Box<ExitRecord>>,
    },
    /// All that a lost run had left is ended.
    Cleared {
        run: RunId,
        error: String,
    },
    Close,
}

/// A way to the keeper's thread.
#[derive(Clone)]
pub(crate) struct Mailbox {
    pub sender: Sender<Request>,
    pub wake: Arc<OwnedFd>,
    /// Set when the node is closed: threads that wait for processes give up.
    pub closed: Arc<AtomicBool>,
}

impl Mailbox {
    pub fn post(&self, request: Request) {
        self.leave(request);
        self.wake();
    }

    /// Leaves it there for when the keeper wakes.
    pub fn leave(&self, request: Request) {
        // The keeper outlives every node; a thread that still clears up after that has nobody to tell.
        let _ = self.sender.send(request);
    }

    pub fn wake(&self) {
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}

/// A run's id on the line: `abc.2`.
pub(crate) mod as_text {
    use nexus_core::ids::RunId;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(run: &RunId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(run)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RunId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
