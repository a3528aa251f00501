//! Machines over ssh, on real sshd.

mod absences;
mod chaos;
mod jobs;
mod machines;
mod seed_003;
mod setup;
mod sync;
mod trouble;
