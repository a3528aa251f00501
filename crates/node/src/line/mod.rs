//! A node on another machine, and the service's end of the line to it. The line is one pair of byte streams, over ssh
//! mostly; `docs/design/0010-the-line.md` says why it is as it is.
//!
//! ```text
//!   service: Line ── frames ──> node: serve ──> Node, Watcher (as the service has them for its own machine)
//!     ^  └ Channel, one per stream ──> a thread: logs, terminal, file, plan, …
//!     └──── reports, readings, bytes ──┘
//! ```
//! When the line ends the node does, and runs go on. The next node finds them by their directories.

mod about;
mod channel;
mod client;
mod copies;
mod frames;
mod lock;
mod log_copy;
mod logs;
mod outgoing;
pub mod serve;
mod starts;
mod streams;
mod terminal;
mod words;

pub use channel::Channel;
pub use client::{Heard, Line, LineSink};
pub use copies::copy_name;
pub use log_copy::LogCopy;
pub use words::{FromNode, Hello, Last, REACHED, Stream, ToNode, part_of};

/// Both ends of a line without a line, for `fuzz` and the tests beside it.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::channel::{Channels, Side};
    pub use super::frames::{Frame, MAGIC, chunk, find_magic, message, read};
    pub use super::outgoing::Outgoing;
}
