//! Real workloads in virtual time, where the data is at hand: `NEXUS_TRACES`, or `shared/traces` beside the project.

use std::path::PathBuf;
use std::time::Duration;

use nexus_core::ids::MachineId;
use nexus_core::machine::{Gpu, Machine};
use nexus_core::policy::Policy;
use nexus_core::replay::{Arrival, Order, Ran, replay};
use nexus_core::request::Request;
use nexus_core::time::Time;

fn trace(name: &str) -> Option<String> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("NEXUS_TRACES").map_or_else(beside, PathBuf::from);
    let text = std::fs::read_to_string(folder.join(name)).ok();
    if text.is_none() {
        println!("skipped: no {name} in {}", folder.display());
    }
    text
}

/// Eight machines of eight GPUs.
fn machines() -> Vec<Machine> {
    let gpu = |index| Gpu { index, memory_mib: 16_000, free_mib: 16_000, ..Gpu::default() };
    let machine = |id| Machine { id: MachineId(id), gpus: (0..8).map(gpu).collect(), ..Machine::default() };
    (0..8).map(machine).collect()
}

fn philly(text: &str) -> Vec<Arrival> {
    let arrival = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |place: usize| cells[place].parse::<u64>().expect("a number");
        let takes = Duration::from_micros(number(3) * number(8) * 1015);
        let at = Time(number(2) as i64);
        let request = Request { gpus: number(1) as u16, ..Request::default() };
        Arrival { at, takes, limit: Some(takes), priority: 0, request }
    };
    text.lines().skip(1).map(arrival).collect()
}

/// Seconds from submission to end on average, and until all have ended.
fn figures(arrivals: &[Arrival], ran: &[Option<Ran>]) -> (u64, u64) {
    let ends = || arrivals.iter().zip(ran).map(|(arrival, ran)| (arrival.at, ran.expect("all run").end));
    let total: Duration = ends().map(|(at, end)| end.since(at)).sum();
    let makespan = ends().map(|(_, end)| end).max().expect("some ran").since(Time(0));
    (total.as_secs() / arrivals.len() as u64, makespan.as_secs())
}

/// No worse than what was published for first come, first served with backfill, and for the shortest first.
#[test]
fn jobs_of_philly_are_done_as_soon_as_is_known() {
    let Some(text) = trace("philly/trace3.csv") else { return };
    let arrivals = philly(&text);
    let mean = |order| figures(&arrivals, &replay(&machines(), &arrivals, order, &Policy::default())).0;
    let (fifo, short_first) = (mean(Order::Fifo), mean(Order::ShortFirst));
    assert!(fifo <= 441_324, "{fifo} s on average");
    assert!(short_first <= 240_000, "{short_first} s on average, the shortest first");
}

/// All are there from the start: they end within a hundredth of the least time there is.
#[test]
fn a_full_queue_of_philly_leaves_hardly_a_gap() {
    let Some(text) = trace("philly/trace1_pr.csv") else { return };
    let arrivals = philly(&text);
    let (_, makespan) = figures(&arrivals, &replay(&machines(), &arrivals, Order::Fifo, &Policy::default()));
    assert!(makespan <= 21_885_533 * 101 / 100, "{makespan} s");
}
