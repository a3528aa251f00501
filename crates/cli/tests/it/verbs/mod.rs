//! Each verb as a user types it, rightly and wrongly.

mod add;
mod add_errors;
mod add_runs;
mod automatic_start;
mod cancel;
mod colours;
mod demo;
mod doctor;
mod edit;
mod edit_job;
mod first;
mod forget;
mod help;
mod history;
mod hold;
mod jobs_file;
mod json;
mod kill;
mod logs;
mod logs_follow;
mod ls;
mod pause;
mod queue;
mod remove;
mod rerun;
mod restart;
mod selectors;
mod service_log;
mod show;
mod start;
mod status;
mod stop;
mod usage;
mod wait;

/// Columns and rows of a terminal wide enough for all that is shown here.
const SCREEN: (u16, u16) = (120, 40);

/// Runs until it is ended.
const LONG: &str = "sleep 1000";
