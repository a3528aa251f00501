//! nexus does here: the service. One engine owns the state; backends run jobs; HTTP answers clients.
//!
//! Prints nothing: what it has to say goes to service.log, to clients, or to whoever started it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make and read what they like"))]

pub mod activation;
mod backend;
mod backups;
mod blocking;
mod checks;
mod clock;
pub mod config;
mod digest;
mod engine;
mod events;
mod file_watch;
mod gpu_arg;
mod gpus;
mod home;
mod http;
mod identity;
mod ids;
mod import;
mod in_queue;
mod inbox;
mod launch;
mod metrics;
mod mirrors;
mod models;
mod names;
mod narrate;
mod notify;
mod open_sockets;
mod own_env;
mod panics;
mod pool;
mod queue_edit;
mod readings;
mod recovery;
mod reload;
mod results;
mod retention;
mod same;
mod script;
mod select;
mod service_log;
mod service_screen;
mod spec_changes;
mod start;
mod state_file;
mod store;
mod text_file;
mod trouble;
mod view;
mod watch_file;
mod web;
mod words;
mod workplace;

pub use digest::of_file as file_digest;
pub use recovery::{DatabaseState, Restored, backups_of, begin_anew, check_database, restore};
pub use start::{Options, check_config, run};

/// Readers of bytes from outside that are nobody's but this crate's: for `fuzz` and the tests beside it.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::backend::ssh::address::Address;
    pub use crate::gpu_arg::told;
    pub use crate::http::log_range::Range;
    pub use crate::models::Table;
    pub use crate::state_file::{Memory, paused};
    pub use crate::store::Behind;
}

#[cfg(test)]
mod pretend;
