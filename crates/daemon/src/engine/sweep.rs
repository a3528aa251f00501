//! A sweep on its way into the queue: all of its jobs, or none.

use std::sync::Arc;

use nexus_api::jobs::JobSpec;
use nexus_api::problem::Problem;
use nexus_api::sweeps::Plan;
use nexus_core::event::{Needs, NewJob};
use nexus_core::ids::{JobId, SweepId};
use nexus_core::request::Same;
use nexus_core::sweep::InSweep;

use super::once::Once;
use super::submit::Fresh;
use super::{Engine, Turn};
use crate::clock;
use crate::identity::Identity;
use crate::store::{JobEnv, NewRow, NewSpec, NewSweepRow};

/// A sweep whose jobs were made and checked.
pub struct SweepOrder {
    /// None = one that is made up.
    pub name: Option<String>,
    pub project: Option<String>,
    pub command: String,
    pub params: Vec<String>,
    pub extract: Vec<String>,
    pub plan: Plan,
    pub copies: u32,
    pub max_running: Option<u32>,
    pub stop_after: u32,
    pub jobs: Vec<SweepJob>,
    /// Of all of them.
    pub same: Same,
}

/// One of its jobs to be. There are many of them: each is as small as it can be.
pub struct SweepJob {
    pub spec: NewSpec,
    pub env: Arc<JobEnv>,
    pub identity: Identity,
}

/// What those jobs have in common that come one after the other.
struct InCommon {
    asked: Arc<JobSpec>,
    /// With what the engine says of it.
    taken: Arc<JobSpec>,
    needs: Arc<Needs>,
}

impl Engine {
    /// Its name and its jobs.
    pub(super) fn sweep_once(
        &mut self,
        order: SweepOrder,
        once: Option<Once>,
        turn: &mut Turn,
    ) -> Result<(String, Vec<JobId>), Problem> {
        let Some(once) = once else { return self.sweep(order, turn) };
        if let Some(done) = self.done_before(&once, turn)? {
            return Ok((done.sweep.unwrap_or_default(), done.ids));
        }
        let (name, ids) = self.sweep(order, turn)?;
        self.remember(once, Some(&name), &ids, turn);
        Ok((name, ids))
    }

    fn sweep(&mut self, order: SweepOrder, turn: &mut Turn) -> Result<(String, Vec<JobId>), Problem> {
        let name = self.sweep_name(order.name, turn)?;
        let next = self.store.next_sweep().map_err(|error| error.problem())? + turn.batch.sweeps.len() as i64;
        let (max_running, stop_after) = (order.max_running, order.stop_after);
        let (jobs, same) = (order.jobs, order.same);
        let row = NewSweepRow {
            of: InSweep { id: SweepId(next), max_running, stop_after },
            name: name.clone(),
            project: order.project,
            command: order.command,
            params: order.params,
            extract: order.extract,
            plan: order.plan,
            copies: order.copies,
            jobs: jobs.len() as u64,
            at: clock::now(),
        };
        let noun = if jobs.len() == 1 { "job" } else { "jobs" };
        let line = format!("Added sweep {name}, {} {noun}: {}", jobs.len(), row.command);
        let (new, rows) = self.read_together(|engine| engine.named_in(&row, jobs, same, turn))?;
        turn.batch.sweeps.push(row);
        turn.batch.notes.push(line.into());
        Ok((name, self.enter(new, rows, turn)))
    }

    /// Its jobs with their ids, if there is room for any.
    fn named_in(
        &mut self,
        sweep: &NewSweepRow,
        jobs: Vec<SweepJob>,
        same: Same,
        turn: &Turn,
    ) -> Result<(Vec<NewJob>, Vec<NewRow>), Problem> {
        self.has_room()?;
        if jobs.iter().any(|job| job.spec.common.unique) {
            let fresh = |SweepJob { spec, env, identity }: &SweepJob| Fresh {
                spec: spec.clone(),
                env: env.clone(),
                identity: *identity,
                same,
                known_as: None,
            };
            self.keep_unique(&jobs.iter().map(fresh).collect::<Vec<_>>(), &[], turn)?;
        }
        let ids = self.fresh_ids(jobs.len(), turn)?;
        let (mut new, mut rows) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        let now = clock::now();
        let mut last: Option<InCommon> = None;
        for (id, SweepJob { mut spec, env, identity }) in ids.into_iter().zip(jobs) {
            let variables = self.variables_of(&spec, &env);
            let common = match last.take() {
                Some(last) if Arc::ptr_eq(&last.asked, &spec.common) && last.taken.variables == variables => last,
                _ => {
                    let taken = JobSpec { sweep: Some(sweep.name.clone()), variables, ..JobSpec::clone(&spec.common) };
                    let needs = self.needs(&taken, same, &[], turn)?.into();
                    InCommon { asked: spec.common, taken: Arc::new(taken), needs }
                }
            };
            spec.common = common.taken.clone();
            let (priority, held) = (spec.common.priority, spec.common.hold);
            new.push(NewJob { id, needs: common.needs.clone(), sweep: Some(sweep.of), priority, held, at: now });
            rows.push(NewRow { spec, env, identity, sweep: Some(sweep.of.id) });
            last = Some(common);
        }
        Ok((new, rows))
    }

    fn sweep_name(&self, asked: Option<String>, turn: &Turn) -> Result<String, Problem> {
        let is_taken = |name: &str| -> Result<bool, Problem> {
            let known = self.store.in_sweep(name).map_err(|error| error.problem())?;
            Ok(known.is_some() || turn.batch.sweeps.iter().any(|row| row.name == name))
        };
        if let Some(name) = asked {
            let want = format!("a name that no sweep has; nexus sweep show {name} shows that one");
            return match is_taken(&name)? {
                false => Ok(name),
                true => Err(Problem::BadField { field: "name".into(), value: name, want }),
            };
        }
        let next = self.store.next_sweep().map_err(|error| error.problem())?;
        for number in next.. {
            let name = format!("s{number}");
            if !is_taken(&name)? {
                return Ok(name);
            }
        }
        unreachable!("some number is free")
    }

    /// The sweep that a new job belongs to; none where that was forgotten.
    pub(super) fn in_sweep(&self, name: &str, turn: &Turn) -> Result<Option<InSweep>, Problem> {
        match turn.batch.sweeps.iter().find(|row| row.name == name) {
            Some(row) => Ok(Some(row.of)),
            None => self.store.in_sweep(name).map_err(|error| error.problem()),
        }
    }
}
