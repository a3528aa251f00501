//! What one transaction writes: the events of many inputs, and rows that no event carries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use nexus_api::env::{Env, split_secrets};
use nexus_api::jobs::JobSpec;
use nexus_api::results::Found;
use nexus_core::event::Event;
use nexus_core::ids::{ClassId, JobId, MachineId, RunId, SweepId};
use nexus_core::request::GpuSet;

use super::left::Copied;
use super::machines::MachineRow;
use super::spec::NewSpec;
use super::{NewSweepRow, Submission, VariableChange, WatchChange};
use crate::identity::Identity;
use crate::service_log::Line;

/// What a commit needs beside the events.
#[derive(Default)]
pub struct Batch {
    pub events: Vec<Event>,
    /// The whole of each submitted job.
    pub new: BTreeMap<JobId, NewRow>,
    /// What each changed job is now.
    pub edited: BTreeMap<JobId, EditedRow>,
    /// Lines for service.log, told when the rest is on disk.
    pub notes: Vec<Line>,
    /// Ended jobs to delete.
    pub forgotten: Vec<JobId>,
    /// Runs whose directory was cleared.
    pub tidied: Vec<RunId>,
    pub meta: Vec<(&'static str, String)>,
    pub watches: Vec<WatchChange>,
    /// Sweeps that some of the new jobs belong to.
    pub sweeps: Vec<NewSweepRow>,
    /// What new jobs were queued under.
    pub submissions: Vec<Submission>,
    /// What the output of runs that end said of their results.
    pub found: BTreeMap<RunId, Found>,
    pub copied: Vec<Copied>,
    pub variables: Vec<VariableChange>,
    pub tags: Vec<TagChange>,
    /// Which GPUs do not exist.
    pub simulated: BTreeMap<MachineId, GpuSet>,
    /// Machines that are added, for their events.
    pub machines: Vec<MachineRow>,
    /// Classes that are named for the first time.
    pub classes: Vec<(ClassId, String)>,
    /// Where new runs keep their files.
    pub log_dir: PathBuf,
}

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && !self.has_rows()
    }

    /// Whether a commit of this batch changes the database. A commit that changes nothing does not show that the disk takes writes.
    pub fn writes(&self) -> bool {
        let is_live = |event: &Event| matches!(event, Event::MachineRead(_) | Event::DiskFull { .. } | Event::Stopping);
        self.has_rows() || !self.events.iter().all(is_live)
    }

    /// Whether there are rows that no event of this batch carries. Each field is named, so that a new field must be decided on.
    fn has_rows(&self) -> bool {
        #[rustfmt::skip]
        let Batch {
            // The rows of these events.
            events: _, new: _, edited: _, sweeps: _, submissions: _, found: _, simulated: _, machines: _, log_dir: _,
            // Lines that are not stored.
            notes: _,
            forgotten, tidied, meta, watches, copied, variables, tags, classes,
        } = self;
        let is_bare = forgotten.is_empty() && tidied.is_empty() && meta.is_empty() && watches.is_empty();
        !(is_bare && copied.is_empty() && variables.is_empty() && tags.is_empty() && classes.is_empty())
    }

    /// Whether this batch changes no waiting job and adds none. Each field is named, so that a new field must be decided on: a run is
    /// announced with the spec that was read before such a commit.
    pub fn is_of_runs(&self) -> bool {
        #[rustfmt::skip]
        let Batch {
            // Rows of runs and machines.
            notes: _, tidied: _, found: _, simulated: _, machines: _, classes: _, log_dir: _,
            // Sweeps and submissions come with new jobs.
            sweeps: _, submissions: _,
            events, new, edited, forgotten, meta, watches, copied, variables, tags,
        } = self;
        let jobs = new.is_empty() && edited.is_empty() && forgotten.is_empty() && tags.is_empty();
        let jobs = jobs && !events.iter().any(|event| matches!(event, Event::Orphaned { .. }));
        jobs && meta.is_empty() && watches.is_empty() && copied.is_empty() && variables.is_empty()
    }

    pub(super) fn ends(&self, job: JobId) -> bool {
        self.events.iter().any(|event| matches!(event, Event::JobEnded { job: ended, .. } if *ended == job))
    }
}

/// A tag that a job has from now on, or no more, ended or not.
pub struct TagChange {
    pub job: JobId,
    pub tag: String,
    pub take_off: bool,
}

pub struct NewRow {
    /// Its environment is empty: that lies beside it.
    pub spec: NewSpec,
    pub env: Arc<JobEnv>,
    pub identity: Identity,
    pub sweep: Option<SweepId>,
}

/// The environment of a job, or of many.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JobEnv {
    /// Stored for good.
    pub open: Env,
    /// Dropped when the last job that needs them has ended.
    pub secrets: Env,
}

impl JobEnv {
    pub fn of(env: Env) -> JobEnv {
        let (open, secrets) = split_secrets(env);
        JobEnv { open, secrets }
    }
}

/// A job that was changed.
pub struct EditedRow {
    /// Its environment is empty.
    pub spec: JobSpec,
    pub secret_names: Vec<String>,
    /// What is stored for good, and the secrets; none where they stay.
    pub env: Option<(Env, Env)>,
}
