//! Each verb as a user types it, rightly and wrongly.

mod add;
mod add_after;
mod add_errors;
mod add_retries;
mod add_runs;
mod add_shares;
mod attach;
mod attach_errors;
mod attach_many;
mod automatic_start;
mod cancel;
mod checkpoints;
mod colours;
mod completions;
mod config;
mod config_jobs;
mod demo;
mod dispatch;
mod dispatch_errors;
mod dispatch_resume;
mod dispatch_signals;
mod doctor;
mod edit;
mod edit_job;
mod environments;
mod environments_conda;
mod first;
mod forget;
mod gpu_arg;
mod gpus;
mod help;
mod history;
mod hold;
mod jobs_file;
mod json;
mod kill;
mod logs;
mod logs_follow;
mod ls;
mod model_rules;
mod pause;
mod pause_gpus;
mod queue;
mod remove;
mod rerun;
mod restart;
mod run;
mod run_signals;
mod screens;
mod screens_service;
mod selectors;
mod service_log;
mod show;
mod start;
mod start_overrides;
mod status;
mod stop;
mod unique;
mod usage;
mod wait;
mod why;

/// Columns and rows of a terminal wide enough for all that is shown here.
const SCREEN: (u16, u16) = (120, 40);

/// Runs until it is ended.
const LONG: &str = "sleep 1000";
