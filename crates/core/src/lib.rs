//! nexus decides here: which waiting job starts where, what an end means, why a job waits.
//!
//! Pure: no I/O, no clock, no chance, no order that changes from run to run (`clippy.toml` bans them).
//! The engine calls, always in this order: [`apply`] for each input, [`decide`] once a batch, then, when
//! all of it is on disk, [`reconcile`].

pub mod alike;
pub mod apply;
pub mod check;
pub mod decide;
pub mod event;
pub mod explain;
pub mod forecast;
mod fragment;
pub mod free;
pub mod ids;
pub mod job;
pub mod learned;
pub mod machine;
mod packing;
pub mod policy;
pub mod reconcile;
pub mod replay;
pub mod request;
pub mod run;
pub mod standstill;
mod streak;
pub mod sweep;
pub mod time;
pub mod turns;
pub mod waiting;
pub mod world;
