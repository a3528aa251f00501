//! nexus decides here: which waiting job starts where, what an end means, why a job waits.
//!
//! Pure: no I/O, no clock, no chance, no order that changes from run to run (`clippy.toml` bans them).

pub mod event;
pub mod ids;
pub mod job;
pub mod machine;
pub mod policy;
pub mod request;
pub mod run;
pub mod time;
pub mod waiting;
