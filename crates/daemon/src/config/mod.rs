//! `config.toml`: what it may say, and what holds when it says nothing.
//!
//! ```text
//!   text ── entries ──> read ──> Settings { config, lines } ──> view: what is shown, what changed
//!             └── change: a key set or unset in the text, everything else as it was
//! ```
//! Each section's keys stand in a file of their own; `keys` has them all.

mod change;
mod entries;
mod file;
mod given;
mod gpus;
mod jobs;
mod key;
mod keys;
mod log;
mod models;
mod notify;
mod outside;
mod overrides;
mod paths;
mod queue;
mod read;
mod retention;
mod template;
mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nexus_api::jobs::Session;
use nexus_api::run_dir::ResourceLimits;
use nexus_core::policy::Policy;

use crate::models::Rule;
use crate::notify::Settings as NotifySettings;
use crate::service_log::{Level, Limits};

pub use change::{NotChanged, known, set, unset};
pub use entries::Fault;
pub use file::{ConfigFile, Locked};
pub use gpus::{GpuConfig, GpuUse, Visible};
pub use models::models_trouble;
pub use overrides::Overrides;
pub use read::{Settings, read};
pub use template::template;
pub use view::{Change, changes, view};

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub log_dir: Option<PathBuf>,
    pub jobs_file: Option<PathBuf>,
    pub state_file: Option<PathBuf>,
    pub session: Session,
    pub shell: String,
    /// Shell lines before every command.
    pub prelude: Option<String>,
    /// A program and its arguments that every command is run with.
    pub runner: Vec<String>,
    pub env_file: Option<PathBuf>,
    pub pass_env: Vec<String>,
    pub grace: Duration,
    pub tty: bool,
    pub limits: ResourceLimits,
    pub policy: Policy,
    /// Of this machine.
    pub gpus: GpuConfig,
    /// `[gpus]`: of every machine that has nothing else of its own.
    pub usual_gpus: GpuConfig,
    /// `[machine.NAME.gpus]` over [`Config::usual_gpus`].
    pub machines: BTreeMap<String, GpuConfig>,
    pub models_file: Option<PathBuf>,
    pub rules: Vec<Rule>,
    pub csv_gpu_arg: String,
    pub ssh_args: Vec<String>,
    pub web_port: u16,
    pub web_session: Duration,
    pub log: Limits,
    pub notify: NotifySettings,
    /// How long ended jobs are kept; none for ever.
    pub keep_jobs: Option<Duration>,
    /// How many copies of the database are kept, of those that are named by time.
    pub keep_backups: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            log_dir: None,
            jobs_file: None,
            state_file: None,
            session: Session::Builtin,
            shell: "bash".into(),
            prelude: None,
            runner: vec![],
            env_file: None,
            pass_env: vec![],
            grace: Duration::from_secs(10),
            tty: true,
            limits: ResourceLimits::default(),
            policy: Policy::default(),
            gpus: GpuConfig::default(),
            usual_gpus: GpuConfig::default(),
            machines: BTreeMap::new(),
            models_file: None,
            rules: vec![],
            csv_gpu_arg: "--cuda".into(),
            ssh_args: vec![],
            web_port: 4004,
            web_session: Duration::from_secs(12 * 3600),
            log: Limits { level: Level::Info, max_size: 50 << 20, keep: 5 },
            notify: NotifySettings::default(),
            keep_jobs: None,
            keep_backups: 5,
        }
    }
}

impl Config {
    pub fn gpus_of(&self, machine: &str) -> &GpuConfig {
        self.machines.get(machine).unwrap_or(&self.usual_gpus)
    }

    /// Takes from `old` what a running service cannot change: the keys that say so of themselves, as a test holds.
    pub fn keep_until_restart(&mut self, old: &Config) {
        self.log_dir.clone_from(&old.log_dir);
        self.jobs_file.clone_from(&old.jobs_file);
    }
}

#[cfg(test)]
mod tests;
