//! What a simulation comes to, in figures. Counts in whole milliseconds and thousandths of GPUs: the same anywhere.

use std::time::Duration;

use nexus_core::machine::Machine;
use nexus_core::replay::{Arrival, Ran};
use nexus_core::request::{Request, Vram, WHOLE_MILLI};
use serde::Serialize;

/// Scripts rely on these names. Means are over the jobs that ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    pub policy: &'static str,
    pub patience_seconds: f64,
    pub machines: usize,
    pub gpus: usize,
    pub jobs: usize,
    /// Those that no machine could ever have.
    pub never_fit: usize,
    /// From the first submission to the last end.
    pub makespan_seconds: f64,
    pub mean_wait_seconds: f64,
    pub p99_wait_seconds: f64,
    /// From submission to end.
    pub mean_completion_seconds: f64,
    pub gpu_use_percent: f64,
}

/// How well jobs that never end were packed. Scripts rely on these names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Packed {
    pub machines: usize,
    pub gpus: u64,
    pub pods: usize,
    pub fitted: usize,
    pub dropped: usize,
    /// Mean over the arrivals at full demand; at the end where there was none.
    pub not_allocated_percent: f64,
    /// So many arrivals made up that mean; 0 if demand never was full.
    pub arrivals_at_full_demand: u64,
    /// All that was asked for, of all GPUs.
    pub demand_percent: f64,
    pub milli_in_use: u64,
    pub milli: u64,
}

pub fn figures(machines: &[Machine], arrivals: &[Arrival], ran: &[Option<Ran>]) -> Figures {
    let largest_mib = machines.iter().flat_map(|machine| &machine.gpus).map(|gpu| gpu.memory_mib).max().unwrap_or(0);
    let gpus = machines.iter().map(|machine| machine.gpus.len()).sum();
    let mut waits: Vec<Duration> = Vec::with_capacity(ran.len());
    let (mut completion_millis, mut gpu_millis, mut last_end) = (0u128, 0u128, None);
    for (arrival, ran) in arrivals.iter().zip(ran) {
        let Some(ran) = ran else { continue };
        waits.push(ran.start.since(arrival.at));
        completion_millis += ran.end.since(arrival.at).as_millis();
        gpu_millis += ran.end.since(ran.start).as_millis() * u128::from(milli_of(&arrival.request, largest_mib));
        last_end = last_end.max(Some(ran.end));
    }
    waits.sort_unstable();
    let first = arrivals.iter().map(|arrival| arrival.at).min();
    let makespan = first.zip(last_end).map_or(Duration::ZERO, |(first, last)| last.since(first));
    let wait_millis: u128 = waits.iter().map(Duration::as_millis).sum();
    let all_millis = makespan.as_millis() * gpus as u128 * u128::from(WHOLE_MILLI);
    Figures {
        machines: machines.len(),
        gpus,
        jobs: arrivals.len(),
        never_fit: arrivals.len() - waits.len(),
        makespan_seconds: seconds(makespan.as_millis()),
        mean_wait_seconds: mean_seconds(wait_millis, waits.len()),
        p99_wait_seconds: seconds(percentile_99(&waits).as_millis()),
        mean_completion_seconds: mean_seconds(completion_millis, waits.len()),
        gpu_use_percent: percent(gpu_millis, all_millis),
        ..Figures::default()
    }
}

/// Thousandths of GPUs that a job has. Who shares by memory has its part of it, counted on the largest GPU.
fn milli_of(request: &Request, largest_mib: u64) -> u64 {
    let Some(share) = request.share else { return u64::from(request.gpus) * u64::from(WHOLE_MILLI) };
    let by_memory = match share.vram {
        Vram::Mib(mib) => (u64::from(mib) * u64::from(WHOLE_MILLI)).checked_div(largest_mib).unwrap_or(0),
        Vram::Unsaid | Vram::Learned(_) => 0,
    };
    u64::from(request.gpus) * by_memory.clamp(share.milli.into(), WHOLE_MILLI.into())
}

/// The shortest wait that 99 of 100 do not exceed.
fn percentile_99(sorted: &[Duration]) -> Duration {
    let rank = (sorted.len() * 99).div_ceil(100);
    rank.checked_sub(1).map_or(Duration::ZERO, |last| sorted[last])
}

fn seconds(millis: u128) -> f64 {
    millis as f64 / 1000.0
}

fn mean_seconds(millis: u128, count: usize) -> f64 {
    // To the millisecond: digits beyond it say nothing.
    millis.checked_div(count as u128).map_or(0.0, seconds)
}

/// With four digits behind the point; 0 of nothing.
pub fn percent(part: u128, whole: u128) -> f64 {
    let millionths = part.saturating_mul(1_000_000).checked_div(whole).unwrap_or(0);
    millionths as f64 / 10_000.0
}

#[cfg(test)]
mod tests {
    use nexus_core::machine::Gpu;
    use nexus_core::request::Share;
    use nexus_core::time::Time;

    use super::*;

    fn machine(gpus: u16) -> Machine {
        let gpu = |index| Gpu { index, memory_mib: 1000, ..Gpu::default() };
        Machine { gpus: (0..gpus).map(gpu).collect(), ..Machine::default() }
    }

    fn job(at: i64, start: i64, end: i64, request: Request) -> (Arrival, Option<Ran>) {
        let takes = Duration::from_millis((end - start) as u64);
        let ran = (end > 0).then_some(Ran { start: Time(start), end: Time(end) });
        (Arrival { at: Time(at), takes, limit: None, priority: 0, request }, ran)
    }

    #[test]
    fn waits_ends_and_use() {
        let request = |gpus, share| Request { gpus, share, ..Request::default() };
        let quarter = Share { milli: 0, vram: Vram::Mib(250) };
        let jobs = [
            job(10_000, 10_000, 20_000, request(2, None)),
            job(10_000, 20_000, 30_000, request(1, None)),
            job(15_000, 20_000, 30_000, request(1, Some(quarter))),
            job(15_000, 0, 0, request(9, None)),
        ];
        let (arrivals, ran): (Vec<_>, Vec<_>) = jobs.into_iter().unzip();
        let found = figures(&[machine(2)], &arrivals, &ran);
        let expected = Figures {
            machines: 1,
            gpus: 2,
            jobs: 4,
            never_fit: 1,
            makespan_seconds: 20.0,
            mean_wait_seconds: 5.0,
            p99_wait_seconds: 10.0,
            mean_completion_seconds: 15.0,
            gpu_use_percent: 81.25,
            ..Figures::default()
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_that_ran_is_nothing() {
        let (arrival, ran) = job(5, 0, 0, Request::default());
        let found = figures(&[machine(1)], &[arrival], &[ran]);
        assert_eq!((found.jobs, found.never_fit, found.makespan_seconds, found.gpu_use_percent), (1, 1, 0.0, 0.0));
    }

    #[test]
    fn one_in_a_hundred_waits_longer() {
        let waits = |count: u64| (1..=count).map(Duration::from_secs).collect::<Vec<_>>();
        for (count, expected) in [(1, 1), (99, 99), (100, 99), (200, 198), (1000, 990)] {
            assert_eq!(percentile_99(&waits(count)).as_secs(), expected, "{count}");
        }
    }
}
