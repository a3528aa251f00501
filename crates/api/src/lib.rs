//! What nexus says: the types that cross a socket or lie on disk, apart from the types that decide.
//!
//! Every format has a number. A newer one is refused, older ones stay readable; frozen samples of each
//! are kept under `frozen/`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests make and read what they like"))]

pub mod amount;
pub mod backup;
pub mod command;
pub mod config;
pub mod csv;
pub mod edit;
pub mod env;
pub mod environ;
pub mod events;
pub mod export;
pub mod gc;
pub mod history_import;
pub mod import;
pub mod job_file;
pub mod jobs;
pub mod left;
pub mod log;
pub mod machines;
pub mod nearest;
mod note;
pub mod notify;
pub mod paths;
pub mod problem;
pub mod queue_text;
pub mod report;
pub mod results;
pub mod run_dir;
pub mod screens;
pub mod select;
pub mod service;
pub mod shell_words;
pub mod shown;
pub mod signals;
pub mod standstill;
pub mod strict;
pub mod sweeps;
pub mod template;
pub mod terminal;
pub mod values;
pub mod variables;
pub mod waiting;
pub mod web;
pub mod why;

/// Version of the HTTP interface, the first part of every path.
pub const API_PREFIX: &str = "/v1";
