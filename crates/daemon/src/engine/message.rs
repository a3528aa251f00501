//! What the engine is asked and told.

use std::time::Duration;

use nexus_api::machines::SetUpBegun;
use nexus_api::problem::Problem;
use nexus_api::results::Found;
use nexus_core::apply::{Command, Report};
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::policy::Policy;
use nexus_core::request::GpuSet;
use nexus_core::time::Time;
use nexus_core::world::World;
use nexus_node::gpu::Reading;
use nexus_node::gpu::peers::PeerNews;
use tokio::sync::oneshot;

use super::import::{ImportOrder, Settled};
use super::machines::AddMachine;
use super::once::Once;
use super::remnants::{Gone, Remnant};
use super::revise::Revision;
use super::set_up::SetUpOrder;
use super::submit::Fresh;
use super::sweep::SweepOrder;
use super::taken::Taken;
use crate::backend::ssh::News;
use crate::config::Config;
use crate::pool::Pool;
use crate::results::Ended;
use crate::service_log::Line;
use crate::store::{PastJob, Took, VariableChange, WatchChange};

/// Makes what is to be kept, a key and a value, from the ids of new jobs.
pub type NoteOf = Box<dyn FnOnce(&[JobId]) -> (&'static str, String) + Send>;

pub type Reply<T> = oneshot::Sender<Result<T, Problem>>;

/// Asked of what the engine knows.
pub type Question = Box<dyn FnOnce(&World, &Pool, &Policy) + Send>;

pub enum Message {
    /// A note may be kept beside the jobs, made from their ids: both are on disk, or neither.
    Submit {
        jobs: Vec<Fresh>,
        note: Option<NoteOf>,
        once: Option<Once>,
        reply: Reply<Taken>,
    },
    /// Changes of the queue that belong together. The answer names the jobs that were added.
    Revise {
        revision: Revision,
        reply: Reply<Vec<JobId>>,
    },
    /// A sweep with all its jobs. The answer has its name.
    Sweep {
        order: Box<SweepOrder>,
        once: Option<Once>,
        reply: Reply<(String, Vec<JobId>)>,
    },
    /// Entries of a file. The answer says what became of each.
    Import {
        order: ImportOrder,
        reply: Reply<Vec<Settled>>,
    },
    /// A file that is watched from now on, or no more.
    Watch {
        change: WatchChange,
        line: String,
        reply: Reply<()>,
    },
    /// Ended jobs of elsewhere, for the history. The answer says what became of each.
    TakeOver {
        jobs: Vec<PastJob>,
        reply: Reply<Vec<Took>>,
    },
    /// A variable that is set, or no more.
    Variable {
        change: VariableChange,
        reply: Reply<()>,
    },
    /// Gives jobs a tag, or takes it off, all of them or none.
    Tag {
        ids: Vec<JobId>,
        tag: String,
        take_off: bool,
        reply: Reply<()>,
    },
    /// A value to keep; nobody waits for it.
    Keep {
        key: &'static str,
        value: String,
    },
    /// What a service of another user on this machine says.
    Peer(PeerNews),
    /// Lines for service.log.
    Note(Vec<Line>),
    /// `skip_unfit`: jobs that the command does not fit are left out, unless none is left. The answer names
    /// the jobs it was done to.
    Command {
        command: Command,
        verb: &'static str,
        skip_unfit: bool,
        reply: Reply<Vec<JobId>>,
    },
    /// Pauses that somebody wrote into the state file, and a note of what was read there: both are on disk, or neither.
    FilePauses {
        pause: GpuSet,
        resume: GpuSet,
        note: (&'static str, String),
        reply: Reply<()>,
    },
    /// Delete ended jobs; their log folders are the caller's to remove.
    Forget {
        ids: Vec<JobId>,
        by: Forgetter,
        reply: Reply<()>,
    },
    /// What forgotten jobs left on other machines, by the names of those.
    Remnants(Vec<(String, Remnant)>),
    /// A machine has done what it could about that.
    RemnantsGone(Gone),
    SimulateGpus {
        count: u16,
        reply: Reply<()>,
    },
    /// Failures up to this time were looked at.
    Looked {
        until: Time,
    },
    Report(Report),
    /// A run ended, what its output said of its results, and how much of that is missing in its logs.
    Ended {
        run: RunId,
        report: Report,
        found: Found,
        lost_output_bytes: u64,
        /// How long it ran, where its record says so.
        took: Option<Duration>,
    },
    /// A copy of results came to its end.
    Copied(Ended),
    /// The GPUs of this machine as they are.
    Gpus(Reading),
    /// The directory of an ended run was cleared.
    Tidied(RunId),
    /// Settings that are in force from now on.
    Config(Box<Config>),
    /// Lines for service.log.
    Log(Vec<Line>),
    /// What is heard of a machine of the pool.
    Machine {
        machine: MachineId,
        news: News,
    },
    /// One more machine.
    AddMachine {
        new: Box<AddMachine>,
        reply: Reply<()>,
    },
    /// Jobs make machines ready for a class.
    SetUpMachines {
        order: Box<SetUpOrder>,
        reply: Reply<Vec<SetUpBegun>>,
    },
    /// Machines go to another class. What runs on them goes on.
    MoveMachines {
        machines: Vec<MachineId>,
        class: String,
        reply: Reply<()>,
    },
    /// The database is damaged, as somebody found who reads it.
    Damaged(Problem),
    /// A question about live facts.
    Ask(Question),
}

/// Who has jobs forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgetter {
    User,
    /// They are older than jobs are kept.
    Age,
}
