//! Turns facts into text. Pure: what is shown hangs on the arguments alone.

pub mod browsers;
pub mod config;
pub mod doctor;
pub mod edit;
pub mod expected;
pub mod failure;
pub mod gpus;
pub mod history;
pub mod import;
pub mod ls;
pub mod machines;
pub mod notify;
pub mod outcome;
pub mod paint;
pub mod place;
pub mod prospect;
pub mod queue;
pub mod reason;
pub mod results;
#[cfg(test)]
pub mod samples;
pub mod screens;
pub mod show;
pub mod simulate;
pub mod slurm;
pub mod status;
pub mod sweep;
pub mod sweep_csv;
pub mod table;
pub mod tags;
pub mod text;
pub mod time;
pub mod variables;
pub mod why;
