//! A sweep on its way into the queue: all of its jobs, or none.

use nexus_api::problem::Problem;
use nexus_api::sweeps::Plan;
use nexus_core::ids::{JobId, SweepId};
use nexus_core::sweep::InSweep;

use super::once::Once;
use super::submit::Fresh;
use super::{Engine, Turn};
use crate::clock;
use crate::store::NewSweepRow;

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
    pub jobs: Vec<Fresh>,
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
        let mut jobs = order.jobs;
        for job in &mut jobs {
            job.spec.sweep = Some(name.clone());
        }
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
        turn.batch.sweeps.push(row);
        let named = self.read_together(|engine| engine.named(jobs, &[], turn));
        let named = named.inspect_err(|_| drop(turn.batch.sweeps.pop()))?;
        turn.batch.notes.push(line);
        Ok((name, self.enter(named, turn)))
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
