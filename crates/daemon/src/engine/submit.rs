//! New jobs: their ids, and what of others they depend on.

use std::collections::{BTreeMap, BTreeSet};

use nexus_api::jobs::{JobSpec, State};
use nexus_api::problem::Problem;
use nexus_core::apply::{self, Command};
use nexus_core::event::{Event, Needs, NewJob, Parent};
use nexus_core::ids::JobId;
use nexus_core::job::End;
use nexus_core::request::{Share, Vram};

use super::{Engine, Turn};
use crate::identity::{Identity, are_identical, identity};
use crate::store::{NewRow, StoreError, parents};
use crate::{clock, home, words};

impl Engine {
    pub(super) fn submit(&mut self, specs: Vec<JobSpec>, turn: &mut Turn) -> Result<Vec<JobId>, Problem> {
        let named = self.named(specs, &[], turn)?;
        let ids = named.iter().map(|(job, _)| job.id).collect();
        let (jobs, rows): (Vec<NewJob>, Vec<NewRow>) = named.into_iter().unzip();
        turn.batch.new.extend(jobs.iter().map(|job| job.id).zip(rows));
        let events =
            apply::command(&mut self.world, Command::Submit(jobs), clock::now()).expect("nothing refuses new jobs");
        turn.batch.events.extend(events);
        Ok(ids)
    }

    /// New jobs with their ids, if there is room for any. `leaving`: jobs that are taken out with the same change.
    pub(super) fn named(
        &mut self,
        mut specs: Vec<JobSpec>,
        leaving: &[JobId],
        turn: &Turn,
    ) -> Result<Vec<(NewJob, NewRow)>, Problem> {
        if self.world.stopping() {
            return Err(Problem::Stopping);
        }
        let free_bytes = self.disk_space();
        if free_bytes < home::DISK_RESERVE {
            return Err(Problem::DiskFull { path: self.home_dir.display().to_string(), free_bytes });
        }
        self.keep_unique(&specs, leaving, turn)?;
        let ids = self.fresh_ids(specs.len(), turn)?;
        follow_repeated_parents(&mut specs, &ids);
        let fresh: BTreeSet<JobId> = ids.iter().copied().collect();
        let mut named = Vec::with_capacity(specs.len());
        let now = clock::now();
        for (id, mut spec) in ids.into_iter().zip(specs) {
            let needs = self.needs(&spec, &fresh, turn)?;
            let (env, secrets) = nexus_api::env::split_secrets(std::mem::take(&mut spec.env));
            let job = NewJob { id, needs, priority: spec.priority, held: spec.hold, at: now };
            named.push((job, NewRow { spec, env, secrets }));
        }
        Ok(named)
    }

    fn fresh_ids(&mut self, count: usize, turn: &Turn) -> Result<Vec<JobId>, Problem> {
        let mut ids = Vec::with_capacity(count);
        let mut fresh = BTreeSet::new();
        for place in 0..count {
            let taken = self.store.jobs_taken() + (turn.batch.new.len() + place) as u64;
            let id = self
                .ids
                .next(taken, |id| {
                    let in_memory = self.world.job(id).is_some() || fresh.contains(&id);
                    Ok(in_memory || turn.batch.new.contains_key(&id) || self.store.has_job(id.as_str())?)
                })
                .map_err(|error: StoreError| error.problem())?;
            fresh.insert(id);
            ids.push(id);
        }
        Ok(ids)
    }

    /// All that scheduling needs of a spec: what it says, what was learned of its command, what became of the jobs
    /// that it comes after. `fresh`: jobs that come with it.
    pub(super) fn needs(&self, spec: &JobSpec, fresh: &BTreeSet<JobId>, turn: &Turn) -> Result<Needs, Problem> {
        let mut needs = words::needs(spec);
        if let Some(Share { vram: Vram::Learned(same), .. }) = needs.request.share {
            needs.learned_mib = self.store.learned(same).map_err(|error| error.problem())?;
        }
        for (id, any_end) in parents(spec) {
            let no_such_job = || Problem::NoSuchJob { id: id.to_string() };
            let parent: JobId = id.parse().map_err(|_| no_such_job())?;
            if self.world.job(parent).is_some() || fresh.contains(&parent) {
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

    /// Refuses specs that are to be the only ones of their kind and are not. Decided here, where one submission comes
    /// after the other, so that of two at once one is refused.
    fn keep_unique(&self, specs: &[JobSpec], leaving: &[JobId], turn: &Turn) -> Result<(), Problem> {
        if specs.iter().all(|spec| !spec.unique) {
            return Ok(());
        }
        let mut together: BTreeMap<Identity, Vec<&JobSpec>> = BTreeMap::new();
        for spec in specs {
            together.entry(identity(spec)).or_default().push(spec);
        }
        for spec in specs.iter().filter(|spec| spec.unique) {
            let alike = together[&identity(spec)].iter().filter(|other| are_identical(other, spec));
            if alike.count() > 1 {
                let want = "each job once, and two of these are identical".into();
                return Err(Problem::BadField { field: "unique".into(), value: spec.command.text(), want });
            }
            if let Some((id, state)) = self.twin(spec, leaving, turn)? {
                return Err(Problem::NotUnique { id: id.to_string(), state });
            }
        }
        Ok(())
    }

    /// A job identical to this one that waits, runs or has completed: on disk, or about to be.
    fn twin(&self, spec: &JobSpec, leaving: &[JobId], turn: &Turn) -> Result<Option<(JobId, State)>, Problem> {
        let is_live = |id: JobId| self.world.job(id).is_some() && !leaving.contains(&id);
        let new = turn.batch.new.iter().map(|(id, row)| (*id, &row.spec));
        let edited = turn.batch.edited.iter().map(|(id, row)| (*id, &row.spec));
        let coming = new.chain(edited).find(|(id, other)| is_live(*id) && are_identical(other, spec));
        if let Some((id, _)) = coming {
            return Ok(Some((id, State::Queued)));
        }
        for row in self.store.twins(spec).map_err(|error| error.problem())? {
            let Ok(id) = row.id.parse::<JobId>() else { continue };
            if turn.batch.forgotten.contains(&id) || turn.batch.edited.contains_key(&id) {
                continue;
            }
            let counts = match row.state.has_ended() {
                true => true,
                // It ended a moment ago, perhaps.
                false => is_live(id) || (!leaving.contains(&id) && self.completed(id, turn)? == Some(true)),
            };
            if counts {
                return Ok(Some((id, row.state)));
            }
        }
        Ok(None)
    }
}

/// Jobs that are repeated together keep their order: where one came after another of them, the new one comes after the
/// new other.
fn follow_repeated_parents(specs: &mut [JobSpec], ids: &[JobId]) {
    let new: BTreeMap<String, JobId> =
        specs.iter().zip(ids).filter_map(|(spec, id)| Some((spec.rerun_of.clone()?, *id))).collect();
    for spec in specs.iter_mut().filter(|spec| spec.rerun_of.is_some()) {
        for parent in spec.after.iter_mut().chain(&mut spec.after_any) {
            if let Some(id) = new.get(parent) {
                *parent = id.to_string();
            }
        }
    }
}
