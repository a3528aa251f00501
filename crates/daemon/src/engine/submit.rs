//! New jobs: their ids, and what of others they depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use nexus_api::env::Env;
use nexus_api::jobs::{JobSpec, State};
use nexus_api::problem::Problem;
use nexus_core::apply::{self, Command};
use nexus_core::event::{Event, Needs, NewJob, Parent};
use nexus_core::ids::JobId;
use nexus_core::job::End;
use nexus_core::request::Same;
use nexus_core::sweep::InSweep;
use nexus_core::world::World;
use nexus_node::threads;

use super::once::Once;
use super::{Engine, Turn};
use crate::identity::{Identity, are_identical, identity};
use crate::same::same;
use crate::store::{JobEnv, NewRow, NewSpec, parents};
use crate::{clock, home, words};

/// So many new jobs at once get ids that lie together.
const MANY: usize = 100;

impl Engine {
    pub(super) fn submit_once(
        &mut self,
        jobs: Vec<Fresh>,
        once: Option<Once>,
        turn: &mut Turn,
    ) -> Result<Vec<JobId>, Problem> {
        let Some(once) = once else { return self.submit(jobs, turn) };
        if let Some(done) = self.done_before(&once, turn)? {
            return Ok(done.ids);
        }
        let ids = self.submit(jobs, turn)?;
        self.remember(once, None, &ids, turn);
        Ok(ids)
    }

    fn submit(&mut self, jobs: Vec<Fresh>, turn: &mut Turn) -> Result<Vec<JobId>, Problem> {
        let (jobs, rows) = self.named(jobs, &[], turn)?;
        Ok(self.enter(jobs, rows, turn))
    }

    /// Puts jobs that have their ids in the queue.
    pub(super) fn enter(&mut self, jobs: Vec<NewJob>, rows: Vec<NewRow>, turn: &mut Turn) -> Vec<JobId> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        turn.add_rows(&ids, rows);
        turn.add_events(submitted(&mut self.world, jobs));
        ids
    }

    /// Those that are coming, before anything else is done.
    pub(super) fn let_in(&mut self, turn: &mut Turn) {
        if !turn.coming.is_empty() {
            let jobs = std::mem::take(&mut turn.coming);
            turn.add_events(submitted(&mut self.world, jobs));
        }
    }

    /// The same at the end of a turn: they are written while the World takes them in. Where they cannot be, the commit that
    /// follows tries again and says why.
    pub(super) fn let_in_and_begin(&mut self, turn: &mut Turn) {
        if turn.coming.is_empty() {
            return;
        }
        debug_assert!(turn.batch.events.is_empty(), "those that are coming are the first");
        let jobs = std::mem::take(&mut turn.coming);
        let (world, store, written, rows) = (&mut self.world, &mut self.store, jobs.clone(), &turn.batch.new);
        let events = std::thread::scope(|scope| {
            // No thread is to be had: then they are written later.
            let _ = threads::start_scoped(scope, "nexus-new-jobs", || store.begin(&written, rows));
            submitted(world, jobs)
        });
        turn.add_events(events);
    }

    /// New jobs with their ids, if there is room for any. `leaving`: jobs that are taken out with the same change.
    pub(super) fn named(
        &mut self,
        mut fresh: Vec<Fresh>,
        leaving: &[JobId],
        turn: &mut Turn,
    ) -> Result<(Vec<NewJob>, Vec<NewRow>), Problem> {
        self.has_room()?;
        self.keep_unique(&fresh, leaving, turn)?;
        let ids = self.fresh_ids(fresh.len(), turn)?;
        follow_parents(&mut fresh, &ids);
        let (mut new, mut rows) = (Vec::with_capacity(fresh.len()), Vec::with_capacity(fresh.len()));
        let now = clock::now();
        let mut last: Option<InCommon> = None;
        for (id, Fresh { mut spec, env, identity, same, .. }) in ids.iter().copied().zip(fresh) {
            let variables = self.find_variables(&spec, &env)?;
            let mut common = match last.take() {
                Some(last) if Arc::ptr_eq(&last.asked, &spec.common) && last.taken.variables == variables => last,
                _ => self.in_common(spec.common, variables, same, &ids, turn)?,
            };
            if common.same != same {
                (common.needs, common.same) = (self.needs(&common.taken, same, &ids, turn)?.into(), same);
            }
            spec.common = common.taken.clone();
            let (needs, sweep) = (common.needs.clone(), common.sweep);
            new.push(NewJob { id, needs, sweep, priority: spec.common.priority, held: spec.common.hold, at: now });
            rows.push(NewRow { spec, env, identity, sweep: sweep.map(|sweep| sweep.id) });
            last = Some(common);
        }
        Ok((new, rows))
    }

    /// `together`: the ids of jobs that come with it.
    fn in_common(
        &mut self,
        asked: Arc<JobSpec>,
        variables: Vec<String>,
        same: Same,
        together: &[JobId],
        turn: &mut Turn,
    ) -> Result<InCommon, Problem> {
        self.know_places(&asked.request, turn)?;
        let needs = self.needs(&asked, same, together, turn)?.into();
        let sweep = match &asked.sweep {
            Some(name) => self.in_sweep(name, turn)?,
            None => None,
        };
        let mut taken = asked.clone();
        if taken.variables != variables || taken.sweep.is_some() != sweep.is_some() {
            let taken = Arc::make_mut(&mut taken);
            taken.variables = variables;
            taken.sweep.take_if(|_| sweep.is_none());
        }
        Ok(InCommon { asked, taken, sweep, needs, same })
    }

    /// For jobs, any at all.
    pub(super) fn has_room(&self) -> Result<(), Problem> {
        if self.world.stopping() {
            return Err(Problem::Stopping);
        }
        match self.disk_space() {
            free_bytes if free_bytes < home::DISK_RESERVE => {
                Err(Problem::DiskFull { path: self.home.dir.display().to_string(), free_bytes })
            }
            _ => Ok(()),
        }
    }

    /// What is left where the database and the logs are. A file system out of inodes has no room either.
    pub(super) fn disk_space(&self) -> u64 {
        let free = |dir| home::disk_free(dir).unwrap_or(u64::MAX);
        free(&self.home.dir).min(free(&self.specs.log_dir))
    }

    /// In order: those of many jobs go into the indices one beside the other.
    pub(super) fn fresh_ids(&mut self, count: usize, turn: &Turn) -> Result<Vec<JobId>, Problem> {
        if count >= MANY {
            return self.many_fresh_ids(count, turn);
        }
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let taken = self.store.jobs_taken() + turn.batch.new.len() as u64;
            let mut drawn: Vec<JobId> = (ids.len()..count).map(|before| self.ids.next(taken + before as u64)).collect();
            drawn.sort_unstable();
            // Jobs that are in memory alone came with this turn.
            let known = self.store.known_ids(&drawn).map_err(|error| error.problem())?;
            drawn.retain(|id| known.binary_search(id).is_err() && !turn.batch.new.contains_key(id));
            ids.extend(drawn);
            // Some may have come twice: there are others for those.
            ids.sort_unstable();
            ids.dedup();
        }
        Ok(ids)
    }

    /// From stretches of which it is known at a look which ids are taken: not each is looked for by itself.
    fn many_fresh_ids(&mut self, count: usize, turn: &Turn) -> Result<Vec<JobId>, Problem> {
        let before = self.store.jobs_taken() + turn.batch.new.len() as u64;
        self.ids.catch_up(before, |id| self.world.job(id).is_some());
        let mut ids: Vec<JobId> = Vec::with_capacity(count);
        while ids.len() < count {
            let stretch = self.ids.stretch(before + ids.len() as u64);
            if !self.ids.remembers(&stretch) {
                let (first, last) = stretch.ends();
                let given = self.store.ids_between((first, last)).map_err(|error| error.problem())?;
                let coming = turn.batch.new.range(first..=last).map(|(id, _)| id).chain(&ids);
                self.ids.remember(&stretch, given.iter().chain(coming).copied());
            }
            let some = self.ids.some_of(&stretch, stretch.at_once.min(count - ids.len()));
            ids.extend(some);
        }
        ids.sort_unstable();
        self.ids.gave(&ids, before + count as u64);
        Ok(ids)
    }

    /// All that scheduling needs of a spec: what it says, and what became of the jobs that it comes after. `fresh`: jobs that come
    /// with it, in order.
    pub(super) fn needs(&self, spec: &JobSpec, same: Same, fresh: &[JobId], turn: &Turn) -> Result<Needs, Problem> {
        let mut needs = words::needs(spec, same, &self.pool.names);
        for (id, any_end) in parents(spec) {
            let no_such_job = || Problem::NoSuchJob { id: id.to_string() };
            let parent: JobId = id.parse().map_err(|_| no_such_job())?;
            if self.world.job(parent).is_some() || fresh.binary_search(&parent).is_ok() {
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
    pub(super) fn keep_unique(&self, fresh: &[Fresh], leaving: &[JobId], turn: &Turn) -> Result<(), Problem> {
        if fresh.iter().all(|fresh| !fresh.spec.common.unique) {
            return Ok(());
        }
        let coming = Coming::of(turn);
        let mut together: BTreeMap<Identity, Vec<&NewSpec>> = BTreeMap::new();
        for Fresh { spec, identity, .. } in fresh {
            together.entry(*identity).or_default().push(spec);
        }
        for Fresh { spec, identity, .. } in fresh.iter().filter(|fresh| fresh.spec.common.unique) {
            let alike = &together[identity];
            if alike.len() > 1 && alike.iter().filter(|other| is_identical(other, spec)).count() > 1 {
                let want = "each job once, and two of these are identical".into();
                return Err(Problem::BadField { field: "unique".into(), value: spec.command().to_string(), want });
            }
            if let Some(twin) = self.twin((*identity, &spec.whole()), &coming, leaving, turn, &|_| Ok(true))? {
                return Err(Problem::NotUnique { id: twin.id.to_string(), state: twin.state });
            }
        }
        Ok(())
    }

    /// A job identical to this one that waits, runs or has completed and fits: on disk, or about to be.
    pub(super) fn twin(
        &self,
        (identity, spec): (Identity, &JobSpec),
        coming: &Coming,
        leaving: &[JobId],
        turn: &Turn,
        fits: &dyn Fn(&Twin) -> Result<bool, Problem>,
    ) -> Result<Option<Twin>, Problem> {
        let is_live = |id: JobId| self.world.job(id).is_some() && !leaving.contains(&id);
        for id in coming.0.get(&identity).into_iter().flatten().copied().filter(|id| is_live(*id)) {
            let edited = turn.batch.edited.get(&id).map(|row| (row.spec.clone(), row.secret_names.clone()));
            let new =
                || turn.batch.new.get(&id).map(|row| (row.spec.whole(), row.env.secrets.keys().cloned().collect()));
            if let Some((other, secret_names)) = edited.or_else(new).filter(|(other, _)| are_identical(other, spec)) {
                let twin = Twin { id, state: State::Queued, spec: other, secret_names };
                if fits(&twin)? {
                    return Ok(Some(twin));
                }
            }
        }
        for row in self.store.twins(identity, spec).map_err(|error| error.problem())? {
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
                let spec = JobSpec { tags: row.tags, hold: row.state == State::Held, ..row.spec };
                let twin = Twin { id, state: row.state, spec, secret_names: row.secret_names };
                if fits(&twin)? {
                    return Ok(Some(twin));
                }
            }
        }
        Ok(None)
    }
}

fn submitted(world: &mut World, jobs: Vec<NewJob>) -> Vec<Event> {
    apply::command(world, Command::Submit(jobs), clock::now()).expect("nothing refuses new jobs")
}

/// A job to be.
#[derive(Clone)]
pub struct Fresh {
    /// Its environment is empty: that lies beside it.
    pub spec: NewSpec,
    pub env: Arc<JobEnv>,
    pub identity: Identity,
    pub same: Same,
    /// What it is called among those that come with it and come after it: the job it repeats, say.
    pub known_as: Option<String>,
}

/// Specs that have the same environment share one.
pub fn fresh(specs: Vec<JobSpec>) -> Vec<Fresh> {
    let mut last: Option<(Env, Arc<JobEnv>)> = None;
    let mut common: Option<Arc<JobSpec>> = None;
    let shared = |mut spec: JobSpec| {
        let env = std::mem::take(&mut spec.env);
        let (identity, same, known_as) = (identity(&spec), same(&spec), spec.rerun_of.clone());
        let spec = NewSpec::of(spec, common.as_ref());
        common = Some(spec.common.clone());
        if let Some((_, env)) = last.as_ref().filter(|(before, _)| *before == env) {
            return Fresh { spec, env: env.clone(), identity, same, known_as };
        }
        let stored = Arc::new(JobEnv::of(env.clone()));
        last = Some((env, stored.clone()));
        Fresh { spec, env: stored, identity, same, known_as }
    };
    specs.into_iter().map(shared).collect()
}

/// What those jobs have in common that come one after the other.
struct InCommon {
    asked: Arc<JobSpec>,
    /// With what the engine says of it.
    taken: Arc<JobSpec>,
    sweep: Option<InSweep>,
    needs: Arc<Needs>,
    /// Of the last of them.
    same: Same,
}

pub(super) fn is_identical(one: &NewSpec, other: &NewSpec) -> bool {
    one.is(other) || are_identical(&one.whole(), &other.whole())
}

/// A job identical to one that is asked for.
pub(super) struct Twin {
    pub id: JobId,
    pub state: State,
    pub spec: JobSpec,
    pub secret_names: Vec<String>,
}

/// Jobs of this turn, which are not on disk yet.
pub(super) struct Coming(BTreeMap<Identity, Vec<JobId>>);

impl Coming {
    pub fn of(turn: &Turn) -> Coming {
        let new = turn.batch.new.iter().map(|(id, row)| (*id, row.identity));
        let edited = turn.batch.edited.iter().map(|(id, row)| (*id, identity(&row.spec)));
        let mut coming: BTreeMap<Identity, Vec<JobId>> = BTreeMap::new();
        for (id, identity) in new.chain(edited) {
            coming.entry(identity).or_default().push(id);
        }
        Coming(coming)
    }

    pub fn have(&self, identity: Identity) -> bool {
        self.0.contains_key(&identity)
    }
}

/// Jobs that come together keep their order: where one came after another of them, the new one comes after the new
/// other.
fn follow_parents(fresh: &mut [Fresh], ids: &[JobId]) {
    let new: BTreeMap<String, JobId> =
        fresh.iter().zip(ids).filter_map(|(fresh, id)| Some((fresh.known_as.clone()?, *id))).collect();
    if new.is_empty() {
        return;
    }
    rename_parents(fresh, &new);
}

/// Parents of these names are those jobs.
pub(super) fn rename_parents(fresh: &mut [Fresh], known: &BTreeMap<String, JobId>) {
    for Fresh { spec, .. } in fresh.iter_mut().filter(|fresh| fresh.known_as.is_some()) {
        if parents(&spec.common).all(|(name, _)| !known.contains_key(name)) {
            continue;
        }
        let common = Arc::make_mut(&mut spec.common);
        for parent in common.after.iter_mut().chain(&mut common.after_any) {
            if let Some(id) = known.get(parent) {
                *parent = id.to_string();
            }
        }
    }
}
