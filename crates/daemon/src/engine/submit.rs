//! New jobs: their ids, and what of others they depend on.

use std::collections::BTreeSet;

use nexus_api::jobs::{JobSpec, State};
use nexus_api::problem::Problem;
use nexus_core::apply::{self, Command};
use nexus_core::event::{Event, Needs, NewJob, Parent};
use nexus_core::ids::JobId;
use nexus_core::job::End;
use nexus_core::request::{Share, Vram};

use super::{Engine, Turn};
use crate::store::{NewRow, StoreError, parents};
use crate::{clock, home, words};

impl Engine {
    pub(super) fn submit(&mut self, specs: Vec<JobSpec>, turn: &mut Turn) -> Result<Vec<JobId>, Problem> {
        let named = self.named(specs, turn)?;
        let ids = named.iter().map(|(job, _)| job.id).collect();
        let (jobs, rows): (Vec<NewJob>, Vec<NewRow>) = named.into_iter().unzip();
        turn.batch.new.extend(jobs.iter().map(|job| job.id).zip(rows));
        let events =
            apply::command(&mut self.world, Command::Submit(jobs), clock::now()).expect("nothing refuses new jobs");
        turn.batch.events.extend(events);
        Ok(ids)
    }

    /// New jobs with their ids, if there is room for any.
    pub(super) fn named(&mut self, specs: Vec<JobSpec>, turn: &Turn) -> Result<Vec<(NewJob, NewRow)>, Problem> {
        if self.world.stopping() {
            return Err(Problem::Stopping);
        }
        let free_bytes = self.disk_space();
        if free_bytes < home::DISK_RESERVE {
            return Err(Problem::DiskFull { path: self.home_dir.display().to_string(), free_bytes });
        }
        let mut named = Vec::with_capacity(specs.len());
        let mut fresh = BTreeSet::new();
        let now = clock::now();
        for (count, mut spec) in specs.into_iter().enumerate() {
            let needs = self.needs(&spec, turn)?;
            let taken = self.store.jobs_taken() + (turn.batch.new.len() + count) as u64;
            let id = self
                .ids
                .next(taken, |id| {
                    let in_memory = self.world.job(id).is_some() || fresh.contains(&id);
                    Ok(in_memory || turn.batch.new.contains_key(&id) || self.store.has_job(id.as_str())?)
                })
                .map_err(|error: StoreError| error.problem())?;
            fresh.insert(id);
            let (env, secrets) = nexus_api::env::split_secrets(std::mem::take(&mut spec.env));
            let job = NewJob { id, needs, priority: spec.priority, held: spec.hold, at: now };
            named.push((job, NewRow { spec, env, secrets }));
        }
        Ok(named)
    }

    /// All that scheduling needs of a spec: what it says, what was learned of its command, what became of the jobs
    /// that it comes after.
    pub(super) fn needs(&self, spec: &JobSpec, turn: &Turn) -> Result<Needs, Problem> {
        let mut needs = words::needs(spec);
        if let Some(Share { vram: Vram::Learned(same), .. }) = needs.request.share {
            needs.learned_mib = self.store.learned(same).map_err(|error| error.problem())?;
        }
        for (id, any_end) in parents(spec) {
            let no_such_job = || Problem::NoSuchJob { id: id.to_string() };
            let parent: JobId = id.parse().map_err(|_| no_such_job())?;
            if self.world.job(parent).is_some() {
                needs.after.push(Parent { job: parent, any_end });
            } else if !self.completed(parent, turn)?.ok_or_else(no_such_job)? && !any_end {
                needs.failed_parent = Some(parent);
            }
        }
        Ok(needs)
    }

    /// Whether an ended job completed; none if there is no such job. Its end may not be on disk yet.
    fn completed(&self, job: JobId, turn: &Turn) -> Result<Option<bool>, Problem> {
        let now = turn.batch.events.iter().find_map(|event| match event {
            Event::JobEnded { job: ended, end, .. } if *ended == job => Some(*end == End::Completed),
            _ => None,
        });
        if now.is_some() {
            return Ok(now);
        }
        let state = self.store.state(job).map_err(|error| error.problem())?;
        Ok(state.map(|(state, _)| state == State::Completed))
    }
}
