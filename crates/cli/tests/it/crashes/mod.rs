//! The service dies, restarts, is upgraded; the machine reboots. Jobs do not notice.

mod boot;
mod gate;
mod launching;
mod readopt;
mod shims;
mod storm;
