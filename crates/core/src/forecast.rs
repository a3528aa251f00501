//! When waiting jobs start and running ones end, if nobody else comes: the queue as it is, played on through the very
//! decisions. A run takes as long as those of its command took on average, else as long as it says; one of which nobody
//! knows never ends here, and who waits for it has no time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

use crate::apply::{self, Command, Report};
use crate::decide::decide;
use crate::event::{Event, Needs, NewJob};
use crate::ids::{JobId, RunId};
use crate::job::Job;
use crate::policy::Policy;
use crate::request::Same;
use crate::run::Outcome;
use crate::sweep::{Counts, Sweep};
use crate::time::Time;
use crate::world::World;

/// What may be expected of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub start: Time,
    /// None where nobody knows how long it takes.
    pub end: Option<Time>,
    /// It follows from limits alone: it is no later, if nobody comes before it.
    pub at_latest: bool,
}

/// The running jobs and the first of the queue, apart from the World: whoever has it may take his time.
pub struct Forecast {
    world: World,
    policy: Policy,
    now: Time,
}

impl Forecast {
    /// Of the first `most` that wait. What is known of `more` commands is taken along.
    pub fn of(world: &World, policy: &Policy, now: Time, most: usize, more: &[Same]) -> Forecast {
        let active = world.active_runs().map(|run| run.id.job);
        let jobs: Vec<Job> = active.chain(first(world, most)).filter_map(|id| world.job(id)).cloned().collect();
        let sames: BTreeSet<_> = jobs.iter().map(|job| job.same).chain(more.iter().copied()).collect();
        let learned: Vec<_> = sames.into_iter().map(|same| (same, world.learned(same))).collect();
        let of_jobs: BTreeSet<_> = jobs.iter().filter_map(|job| job.sweep).collect();
        let sweeps = world.sweeps().filter(|(id, _)| of_jobs.contains(id));
        let sweeps: Vec<_> = sweeps.map(|(id, it)| (id, Sweep { counts: Counts::default(), ..it.clone() })).collect();
        let after_all = jobs.iter().map(|job| job.place.turn).max().unwrap_or(0).max(0) + 1;
        let mut played = World::restore(jobs, world.queue_pause(), after_all).with_learned(learned).with_sweeps(sweeps);
        played = played.with_paused_gpus(world.paused_cards()).with_machines(world.standings()).played();
        world.machines().for_each(|machine| played.record(&Event::MachineRead(machine.clone())));
        Forecast { world: played, policy: policy.clone(), now }
    }

    /// A job that is not there comes last.
    pub fn submit(&mut self, needs: Needs, priority: i32) -> JobId {
        let mut number = u64::from(u32::MAX);
        while self.world.job(JobId::from_number(8, number)).is_some() {
            number += 1;
        }
        let id = JobId::from_number(8, number);
        let new = NewJob { id, needs: needs.into(), sweep: None, priority, held: false, at: self.now };
        apply::command(&mut self.world, Command::Submit(vec![new]), self.now).expect("nothing refuses new jobs");
        id
    }

    pub fn play(mut self) -> BTreeMap<JobId, Expected> {
        let mut expected = BTreeMap::new();
        // By their time: which run ends, and whether that is a guess.
        let mut ends: BinaryHeap<Reverse<(Time, RunId, bool)>> = BinaryHeap::new();
        for run in self.world.active_runs() {
            let job = self.world.job(run.id.job).expect("a run has a job");
            let Some((end, guessed)) = self.end(job, run.planned_at) else { continue };
            expected.insert(job.id, Expected { start: run.planned_at, end: Some(end), at_latest: !guessed });
            ends.push(Reverse((end, run.id, guessed)));
        }
        let mut guessed = false;
        loop {
            for event in decide(&mut self.world, &self.policy, self.now) {
                let Event::Planned { run, at, .. } = event else { continue };
                let end = self.end(self.world.job(run.job).expect("a run has a job"), at);
                let at_latest = !guessed && end.is_none_or(|(_, guessed)| !guessed);
                expected.insert(run.job, Expected { start: at, end: end.map(|(at, _)| at), at_latest });
                ends.extend(end.map(|(at, guessed)| Reverse((at, run, guessed))));
            }
            let Some(Reverse((at, run, is_guess))) = ends.pop() else { return expected };
            (self.now, guessed) = (self.now.max(at), guessed || is_guess);
            let ended = Report::Ended { run, outcome: Outcome::Exited { code: 0 }, at: self.now };
            apply::report(&mut self.world, ended, &self.policy, self.now);
        }
    }

    /// When a run that began then ends, and whether that is a guess. One that is over its time ends now.
    fn end(&self, job: &Job, began: Time) -> Option<(Time, bool)> {
        let learned = self.world.learned(job.same);
        let past = [learned.mean(), learned.longest()].into_iter().flatten();
        let likely = past.map(|took| began.after(took)).find(|at| *at > self.now).map(|at| (at, true));
        likely.or_else(|| Some((began.after(job.limit?).max(self.now), false)))
    }
}

/// Those that stand first in the queue, in order.
fn first(world: &World, most: usize) -> Vec<JobId> {
    let lines: Vec<&BTreeSet<_>> = world.ready().values().flat_map(|spans| spans.values()).collect();
    let mut heads: BTreeSet<_> =
        lines.iter().enumerate().filter_map(|(line, jobs)| Some((*jobs.first()?, line))).collect();
    let mut first = Vec::new();
    while first.len() < most {
        let Some((head, line)) = heads.pop_first() else { break };
        first.push(head.1);
        let after = (Bound::Excluded(head), Bound::Unbounded);
        heads.extend(lines[line].range(after).next().map(|next| (*next, line)));
    }
    first
}
