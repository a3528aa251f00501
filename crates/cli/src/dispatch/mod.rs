//! Seed 002's dispatcher: a file of commands, each of them a job, and a file that says what became of each. Described in
//! `docs/dispatcher.md`.
//!
//! No line is lost and none is run twice, whenever the dispatcher is killed: a new job is held, then written down and
//! on disk, then released.
//!
//! ```text
//!   lines of the file that are not written down ──> held ──> written down as pending ──> released
//!   at the next start:          held and not written down: removed      held and written down: released
//! ```

mod config;
mod follow;
mod jobs_file;
mod plan;
mod queue;
mod record;
mod seat;
mod settings;
mod status;

pub use self::plan::plan;
pub use self::seat::run;
pub use self::settings::{Asked, DispatchArgs, Settings};
pub use self::status::status;
