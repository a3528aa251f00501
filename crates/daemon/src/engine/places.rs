//! What a run is started with, and where its files are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nexus_api::run_dir::{RunSpec, log_dir_of, of_run, project_link};
use nexus_core::apply::Report;
use nexus_core::event::Event;
use nexus_core::ids::{MachineId, RunId};
use nexus_core::run::{Lease, Outcome};
use nexus_node::RunPlace;

use super::{Engine, Message};
use crate::clock;
use crate::store::Batch;

impl Engine {
    pub(super) fn run_spec(&mut self, run: RunId, lease: &Lease, machine: MachineId) -> Result<RunSpec, String> {
        let launch = self.store.launch(run, &self.specs.log_dir).map_err(|error| error.problem().to_string())?;
        let launch = launch.ok_or("its record is gone")?;
        if launch.hidden.len() < launch.spec.variables.len() {
            return Err("a variable that it needs is gone".into());
        }
        let site = self.pool.site(machine, lease).ok_or("there is no line to its machine")?;
        Ok(self.specs.run_spec(run, lease, launch, &site))
    }

    /// Tells the service's own host of runs that will be started there once this batch is on disk, and what they will be
    /// started with. Only where nothing in the batch could change that.
    pub(super) fn announce(&mut self, batch: &Batch) -> BTreeMap<RunId, RunSpec> {
        if !batch.is_of_runs() {
            return BTreeMap::new();
        }
        let mut announced = BTreeMap::new();
        for event in &batch.events {
            // What a later attempt is told of the one before may be in this very batch.
            if let Event::Planned { run: run @ RunId { number: 1, .. }, lease, .. } = event
                && lease.machine == MachineId::LOCAL
                && !lease.driver
                && let Ok(spec) = self.run_spec(*run, lease, MachineId::LOCAL)
            {
                announced.insert(*run, spec);
            }
        }
        if let Some(here) = self.pool.member(MachineId::LOCAL) {
            announced.values_mut().for_each(|spec| here.backend.announce(spec));
        }
        announced
    }

    /// When one of these runs ends, a job that is like it may be next: what that needs is read while nobody waits for it.
    pub(super) fn look_ahead(&mut self, batch: &Batch) {
        let planned = batch.events.iter().rev().find_map(|event| match event {
            Event::Planned { run, lease, .. } if lease.machine == MachineId::LOCAL => Some(run.job),
            _ => None,
        });
        let next = planned.and_then(|job| self.world.first_like(self.world.job(job)?));
        // What a later attempt is told of the one before is not there yet.
        if let Some(job) = next.filter(|job| self.world.job(*job).is_some_and(|job| job.runs == 0)) {
            self.store.look_ahead(RunId { job, number: 1 }, &self.specs.log_dir);
        }
    }

    /// What a run is started with: as announced, or as it is on disk.
    pub(super) fn begun_with(
        &mut self,
        run: RunId,
        lease: &Lease,
        machine: MachineId,
        announced: &mut BTreeMap<RunId, RunSpec>,
    ) -> Result<RunSpec, String> {
        let Some(spec) = announced.remove(&run) else { return self.run_spec(run, lease, machine) };
        if cfg!(test) {
            assert_eq!(self.run_spec(run, lease, machine).as_ref(), Ok(&spec), "nothing has changed it meanwhile");
        }
        Ok(spec)
    }

    pub(super) fn start_failed(&self, run: RunId, error: String) {
        let outcome = Outcome::MachineError { error };
        let report = Report::Ended { run, outcome, at: clock::now() };
        self.outbox.send(Message::Report(report)).expect("the engine holds the receiving end");
    }

    /// The run's directory on the machine that it is on; none while that is not known.
    pub(super) fn run_place(&self, run: RunId, machine: MachineId) -> Option<RunPlace> {
        let dir = match machine {
            MachineId::LOCAL => self.dir_here(run),
            other => of_run(&self.pool.member(other)?.logs()?, run.job.as_str(), run.number),
        };
        Some(RunPlace { run, dir })
    }

    /// Where its logs are on this machine, or are brought to.
    pub(super) fn dir_here(&self, run: RunId) -> PathBuf {
        let stored = self.store.run_dir(run).ok().flatten();
        stored.unwrap_or_else(|| of_run(&self.specs.log_dir, run.job.as_str(), run.number))
    }

    /// Where a job of a project is found by that, whose run has this directory here.
    pub(super) fn link_to(&self, dir: &Path, run: RunId) -> Option<PathBuf> {
        // Without it the logs are found by the job's id all the same.
        let (project, name) = self.store.project_of(run.job).ok().flatten()?;
        let log_dir = log_dir_of(dir, run.job.as_str())?;
        Some(project_link(log_dir, &project, name.as_deref(), run.job.as_str()))
    }
}
