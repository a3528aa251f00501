//! Runs jobs on one machine. Forbids what does not belong where jobs live: runtimes, databases, HTTP.
//!
//! ```text
//!   Node (in the service) ──> launcher ── forks ──> shim, one per run ── forks, execs ──> the command
//!      ^────────────── messages, pidfd, run directory ──┘
//! ```
//! Shims outlive both others. The run directory (`nexus_api::run_dir`) is all that is needed to find them again.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make and read what they like"))]

#[cfg(test)]
mod alone;
pub mod carriage;
pub mod cgroup;
mod deadline;
mod frame;
pub mod gpu;
pub mod groups;
pub mod home;
pub mod inspect;
mod keeper;
mod kernel_log;
mod last_line;
mod launch;
pub mod launcher;
pub mod left;
mod leftovers;
pub mod line;
mod listeners;
pub mod lock_holder;
mod login;
pub mod logs;
pub mod memory;
mod memory_group;
mod node;
mod order;
pub mod own_file;
pub mod processes;
pub mod rendezvous;
mod reports;
pub mod run_file;
pub mod screens;
mod shim;
mod signals;
pub mod slurm;
pub mod socket_folder;
pub mod socket_watch;
pub mod sockets;
mod subreaper;
pub mod system_file;
pub mod threads;
mod tidy;
pub mod trust;
pub mod turns;
pub mod users;
pub mod viewer;
mod words;

pub use cgroup::Containment;
pub use last_line::{kept_said, last_line, last_lines};
pub use node::{Node, NodeError, ReportsPlace};
pub use shim::link_job;
pub use signals::ignore_file_size_signal;
pub use users::own_home;
pub use words::{NodeConfig, Report, RunPlace, RunTerms, Sink};

/// Readers of bytes from outside that are nobody's but this crate's: for `fuzz` and the tests beside it.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::frame::{append, read, take};
    pub use crate::order::Order;
}
