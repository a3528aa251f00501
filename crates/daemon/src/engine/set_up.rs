//! Set-up: jobs that make machines ready for a class, on each machine one after the other. Who joins when is the World's
//! to say; what begins here goes on without whoever asked for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nexus_api::jobs::JobSpec;
use nexus_api::machines::SetUpBegun;
use nexus_api::problem::Problem;
use nexus_core::apply::{self, Command};
use nexus_core::ids::{JobId, MachineId};
use nexus_core::machine::SetUp;

use super::machines::AddMachine;
use super::submit::{Fresh, fresh};
use super::{Engine, Turn};
use crate::clock;

/// Its jobs can be told by this: `nexus ls --tag setup`.
const TAG: &str = "setup";

pub struct SetUpOrder {
    pub machines: Vec<AddMachine>,
    pub class: String,
    /// For each machine, in their order; at least one, and they name no other jobs.
    pub jobs: Vec<JobSpec>,
    /// Between the beginning of one machine and that of the next.
    pub stagger: Duration,
}

/// A machine that is to be set up, and whether it is new.
struct Chosen {
    id: MachineId,
    name: String,
    new: Option<AddMachine>,
}

impl Engine {
    pub(super) fn set_up(&mut self, order: SetUpOrder, turn: &mut Turn) -> Result<Vec<SetUpBegun>, Problem> {
        let SetUpOrder { machines, class, jobs, stagger } = order;
        // What can be refused is refused before anything is changed.
        self.has_room()?;
        let machines = self.chosen(machines, turn)?;
        let class = self.class(&class, turn);
        let mut begun = Vec::with_capacity(machines.len());
        let mut fresh = Vec::with_capacity(machines.len() * jobs.len());
        for Chosen { id, name, new } in machines {
            begun.push((id, SetUpBegun { machine: name.clone(), is_new: new.is_some(), jobs: vec![] }));
            fresh.extend(chain(&name, &jobs));
            if let Some(new) = new {
                self.take_in(id, new, None, turn)?;
            }
        }
        let (new, rows) = self.named(fresh, &[], turn)?;
        let ids = self.enter(new, rows, turn);
        let now = clock::now();
        for (place, ((machine, begun), ids)) in begun.iter_mut().zip(ids.chunks(jobs.len())).enumerate() {
            begun.jobs = ids.iter().map(JobId::to_string).collect();
            let (first, last) = (ids[0], ids[ids.len() - 1]);
            let begin = (place > 0 && !stagger.is_zero()).then(|| (first, now.after(stagger * place as u32)));
            let command = Command::SetUpMachine { machine: *machine, set_up: SetUp { class, last }, begin };
            let events = apply::command(&mut self.world, command, now);
            turn.batch.events.extend(events.map_err(|refusal| self.refused(refusal, "setup"))?);
        }
        Ok(begun.into_iter().map(|(_, begun)| begun).collect())
    }

    /// Those that are there already must be the same: a name leads to one address.
    fn chosen(&self, machines: Vec<AddMachine>, turn: &Turn) -> Result<Vec<Chosen>, Problem> {
        let (mut chosen, mut names) = (Vec::new(), BTreeSet::new());
        let mut known = self.pool.names.clone();
        for new in machines {
            let (name, address) = (new.name.clone(), new.address.as_ref().map(ToString::to_string));
            if !names.insert(name.clone()) {
                let want = "each machine once".into();
                return Err(Problem::BadField { field: "machines".into(), value: name, want });
            }
            let id = known.machine_or_next(&name);
            known.add_machine(&name, id);
            let coming = turn.batch.machines.iter().find(|row| row.id == id).map(|row| row.address.clone());
            let before = self.pool.member(id).map(|member| member.address.clone()).or(coming);
            let new = match before {
                None => Some(new),
                Some(before) if before == address => None,
                Some(before) => return Err(Problem::MachineExists { name, address: before }),
            };
            chosen.push(Chosen { id, name, new });
        }
        Ok(chosen)
    }
}

/// The jobs for one machine, each after the one before.
fn chain(machine: &str, jobs: &[JobSpec]) -> Vec<Fresh> {
    let mut specs = jobs.to_vec();
    for spec in &mut specs {
        (spec.request.machine, spec.request.class) = (Some(machine.to_string()), None);
        if !spec.tags.iter().any(|tag| tag == TAG) {
            spec.tags.push(TAG.into());
        }
    }
    let mut chain = fresh(specs);
    // Names among themselves, until they have ids: no id has a space in it.
    let step = |place: usize| format!("{machine} {place}");
    for (place, job) in chain.iter_mut().enumerate() {
        job.known_as = Some(step(place));
        Arc::make_mut(&mut job.spec.common).after.extend(place.checked_sub(1).map(step));
    }
    chain
}
