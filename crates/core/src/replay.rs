//! Replays a workload in virtual time: every decision is that of a living queue.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use crate::apply::{self, Command, Report};
use crate::decide::decide;
use crate::event::{Event, Needs, NewJob};
use crate::ids::{JobId, RunId};
use crate::job::Place;
use crate::machine::Machine;
use crate::policy::Policy;
use crate::request::{Request, Same, WHOLE_MILLI};
use crate::run::Outcome;
use crate::time::Time;
use crate::world::World;

/// A job of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Time,
    /// How long it runs.
    pub takes: Duration,
    /// How long it says that it runs at most, if it says.
    pub limit: Option<Duration>,
    pub priority: i32,
    pub request: Request,
}

/// Who goes first among those of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Who came first.
    Fifo,
    /// Who takes the least: its run time by its GPUs.
    ShortFirst,
}

/// When a job ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    pub start: Time,
    pub end: Time,
}

/// When each of them runs; none for one that no machine could ever have.
pub fn replay(machines: &[Machine], arrivals: &[Arrival], order: Order, policy: &Policy) -> Vec<Option<Ran>> {
    let mut world = world_of(machines);
    let mut ran: Vec<Option<Ran>> = vec![None; arrivals.len()];
    let mut coming: Vec<usize> = (0..arrivals.len()).collect();
    coming.sort_by_key(|number| arrivals[*number].at);
    let mut coming = coming.into_iter().peekable();
    let mut ends: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
    let next_end = |ends: &BinaryHeap<Reverse<(Time, usize)>>| ends.peek().map(|Reverse((at, _))| *at);
    loop {
        let next_arrival = coming.peek().map(|number| arrivals[*number].at);
        let Some(now) = next_arrival.into_iter().chain(next_end(&ends)).min() else { return ran };
        while next_end(&ends) == Some(now) {
            let Some(Reverse((_, number))) = ends.pop() else { break };
            let run = RunId { job: id(number), number: 1 };
            let ended = Report::Ended { run, outcome: Outcome::Exited { code: 0 }, at: now };
            apply::report(&mut world, ended, policy, now);
        }
        while let Some(number) = coming.next_if(|number| arrivals[*number].at == now) {
            enter(&mut world, number, &arrivals[number], order);
        }
        for event in decide(&mut world, policy, now) {
            let Event::Planned { run, .. } = event else { continue };
            let number = number(run.job);
            let end = now.after(arrivals[number].takes);
            ran[number] = Some(Ran { start: now, end });
            ends.push(Reverse((end, number)));
        }
    }
}

/// Whether there was room for each as it came. None of them ends, and what finds no room is dropped.
pub fn pack(machines: &[Machine], requests: &[Request]) -> Vec<bool> {
    let mut counts: BTreeMap<Request, u64> = BTreeMap::new();
    requests.iter().for_each(|request| *counts.entry(*request).or_default() += 1);
    let mut world = world_of(machines).with_requests(&counts);
    let (policy, now) = (Policy::default(), Time::default());
    let started = |(number, request): (usize, &Request)| {
        let arrival = Arrival { at: now, takes: Duration::MAX, limit: None, priority: 0, request: *request };
        enter(&mut world, number, &arrival, Order::Fifo);
        let starts = !decide(&mut world, &policy, now).is_empty();
        if !starts {
            apply::command(&mut world, Command::Remove(vec![id(number)]), now).expect("it waits");
        }
        starts
    };
    requests.iter().enumerate().map(started).collect()
}

fn world_of(machines: &[Machine]) -> World {
    let mut world = World::default().with_joins();
    for machine in machines {
        world.record(&Event::MachineRead(machine.clone()));
    }
    world
}

fn enter(world: &mut World, number: usize, arrival: &Arrival, order: Order) {
    // Each is a command of its own: nothing is learned of one from another.
    let same = Same(number as i64);
    let needs = Needs { request: arrival.request, limit: arrival.limit, same, ..Needs::default() };
    let Arrival { priority, at, .. } = *arrival;
    let new = NewJob { id: id(number), needs: needs.into(), sweep: None, priority, held: false, at };
    apply::command(world, Command::Submit(vec![new]), arrival.at).expect("nothing refuses new jobs");
    if order == Order::ShortFirst {
        let place = Place { priority: i64::from(arrival.priority), turn: gpu_time(arrival) };
        world.record(&Event::Placed { job: id(number), place });
    }
}

/// Milliseconds by thousandths of a GPU; a job without one counts as if it had the least part of it.
fn gpu_time(arrival: &Arrival) -> i64 {
    let milli = arrival.request.share.map_or(WHOLE_MILLI, |share| share.milli);
    let milli = i64::from(milli) * i64::from(arrival.request.gpus);
    i64::try_from(arrival.takes.as_millis()).unwrap_or(i64::MAX).saturating_mul(milli.max(1))
}

/// Ids of as many letters as can be: their order is that of the numbers.
const LETTERS: usize = 8;

fn id(number: usize) -> JobId {
    JobId::from_number(LETTERS, number as u64)
}

fn number(id: JobId) -> usize {
    id.number() as usize
}
