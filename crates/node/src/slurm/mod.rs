//! Runs on a cluster: nexus submits, Slurm places. This is the part on the login node, in the place of [`crate::Node`];
//! `docs/design/0011-slurm.md` says why it is so.
//!
//! ```text
//!   start ──> waiting ── batch on disk, sbatch ──> submitted ── Slurm starts it ──> `nexus __slurm`: the shim
//!                                 └ unclear: found again by its comment                    │ run directory, news
//!   squeue: its reason, its end ──> settled by the record of the shim first, by Slurm's word second <──┘
//! ```
//! The run directories lie where login node and compute nodes both see them. `started` lets one shim through, whoever
//! submits or requeues it how often. That Slurm does not answer means nothing but that.

mod batch;
mod compute;
mod judge;
mod keeper;
pub mod parse;
mod queue;
mod real;
mod reason;
mod shape;
mod site;
mod submit;
mod submitter;
mod terminal;
mod tools;
mod words;

pub use batch::Batch;
pub use compute::main as on_compute_node;
pub use keeper::{Ask, Keeper};
pub use parse::{Exit, State, Word};
pub use reason::meaning;
pub use shape::Shape;
pub use site::{Cancel, Site, Submission};
pub use submitter::Submitter;
pub use terminal::main as on_terminal;
pub(crate) use terminal::reach as reach_terminal;
pub use words::{Cluster, Options, Said, SlurmNews, Told};
