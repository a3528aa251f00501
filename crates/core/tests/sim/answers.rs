//! Whether a command was refused with reason, and whether a change of the queue became what was wished.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::apply::{Command, Edit, Refusal, Revision};
use nexus_core::event::Needs;
use nexus_core::ids::{JobId, MachineId};
use nexus_core::job::State;
use nexus_core::request::Request;
use nexus_core::world::World;

use crate::hardware::Hardware;

pub fn refused_rightly(world: &World, hardware: &Hardware, command: &Command, refusal: Refusal) {
    match refusal {
        Refusal::NotLive(job) => assert!(world.job(job).is_none(), "{job} is said not to live, and does"),
        Refusal::WrongState(job) => assert!(world.job(job).is_some(), "{job} is said to live, and does not"),
        Refusal::NoSuchGpus { missing, .. } => {
            let there = missing.iter().find(|index| hardware.exists(*index));
            assert!(!missing.is_empty() && there.is_none(), "GPU {there:?} of {missing:?} is there");
        }
        Refusal::NoSuchMachine(machine) => {
            let known = world.standings().any(|(known, _)| known == machine) || machine == MachineId::LOCAL;
            assert!(!known, "{machine:?} is said not to be there, and is");
        }
        Refusal::MachineBusy { machine, runs } => {
            let on_it = world.active_runs().filter(|run| run.lease.machine == machine).count();
            assert!(runs > 0 && runs == on_it, "{runs} of {on_it} runs are said to hold {machine:?}");
            let asked = matches!(command, Command::RemoveMachine { drain: false, kill: false, .. });
            assert!(asked, "{command:?} need not mind them");
        }
        Refusal::OwnMachine => {
            let own = matches!(command, Command::RemoveMachine { machine: MachineId::LOCAL, .. });
            assert!(own, "{command:?} does not remove the own host");
        }
        Refusal::Circular(job) => {
            let Command::Revise(revision) = command else { panic!("{command:?} makes no circle") };
            assert!(comes_after(job, job, world, revision), "{job} would not wait for itself: {revision:?}");
        }
    }
}

/// Whether a job would come after another, through however many.
fn comes_after(job: JobId, other: JobId, world: &World, revision: &Revision) -> bool {
    let needs = revision.edits.iter().filter_map(|edit| Some((edit.job, edit.needs.as_ref()?)));
    let edited: BTreeMap<JobId, &Needs> = needs.collect();
    let parents = |job: JobId| match edited.get(&job) {
        Some(needs) => needs.after.clone(),
        None => world.parents(job).to_vec(),
    };
    let mut reached: BTreeSet<JobId> = parents(job).iter().map(|parent| parent.job).collect();
    loop {
        let further: Vec<JobId> = reached.iter().flat_map(|job| parents(*job)).map(|parent| parent.job).collect();
        let before = reached.len();
        reached.extend(further);
        if reached.len() == before {
            return reached.contains(&other);
        }
    }
}

/// Removed jobs are gone, changed ones are as wished, the order is the one given, and nobody else was touched. Those
/// that end with a job that they were to come after are left to the rules.
pub fn revised_rightly(before: &World, after: &World, revision: &Revision) {
    let named: BTreeSet<JobId> = revision.jobs().chain(revision.order.iter().copied()).collect();
    for job in before.jobs().filter(|job| !named.contains(&job.id)) {
        let fails = after.job(job.id).is_none() && before.parents(job.id).iter().any(|parent| !parent.any_end);
        let now = after.job(job.id);
        assert!(fails || now == Some(job), "{} was not named, and changed: {job:?} became {now:?}", job.id);
    }
    assert!(revision.remove.iter().all(|job| after.job(*job).is_none()), "removed, yet alive: {revision:?}");
    for new in &revision.add {
        let may_fail = new.needs.failed_parent.is_some() || new.needs.after.iter().any(|parent| !parent.any_end);
        assert!(may_fail || after.job(new.id).is_some(), "added, and not there: {revision:?}");
    }
    // Who is to come after one that the same change takes out has failed.
    let fails = |needs: &Needs| needs.after.iter().any(|it| !it.any_end && revision.remove.contains(&it.job));
    let edited = revision.edits.iter().filter_map(|edit| Some((edit.job, edit.needs.as_ref()?)));
    let mut failing =
        edited.chain(revision.add.iter().map(|new| (new.id, &*new.needs))).filter(|(_, needs)| fails(needs));
    assert!(failing.all(|(job, _)| after.job(job).is_none()), "taken out, and waited for: {revision:?}");
    // Of several wishes for one job the last counts.
    let last: BTreeMap<JobId, &Edit> = revision.edits.iter().map(|edit| (edit.job, edit)).collect();
    for (id, edit) in last {
        let Some(job) = after.job(id) else { continue };
        if let Some(wanted) = &edit.needs {
            let retries = (job.retries.allowed, job.retries.on_timeout) == (wanted.retries, wanted.retry_on_timeout);
            // The limit of its sweep stays.
            let request = Request { within: job.request.within, ..wanted.request };
            assert!(retries && (job.request, job.same) == (request, wanted.same), "{edit:?} became {job:?}");
            assert_eq!(job.copies, wanted.copies, "{edit:?} became {job:?}");
            assert_eq!(job.raise, None, "{edit:?} became {job:?}");
            let live = wanted.after.iter().filter(|parent| after.job(parent.job).is_some());
            assert!(live.eq(after.parents(id)), "{edit:?}, and it comes after {:?}", after.parents(id));
        }
        assert!(edit.held.is_none_or(|held| held == (job.state == State::Held)), "{edit:?} became {job:?}");
        let placed = revision.order.contains(&id);
        let priority = edit.priority.map_or(job.place.priority, i64::from);
        assert!(placed || priority == job.place.priority, "{edit:?} became {job:?}");
    }
    let mut seen = BTreeSet::new();
    let order = revision.order.iter().filter(|job| seen.insert(**job));
    let places: Vec<_> = order.filter_map(|job| after.job(*job)).map(|job| job.place).collect();
    assert!(places.is_sorted_by(|one, next| one < next), "{revision:?} became {places:?}");
}
