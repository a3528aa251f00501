//! Machines over ssh, on real sshd.

mod chaos;
mod jobs;
mod machines;
mod trouble;
