//! Sweeps that are on, and the machines of the pool, in columns.

use nexus_api::machines::MachineState;
use nexus_api::service::Machine;
use nexus_api::sweeps::Sweep;
use ratatui_core::text::Line;

use super::Sight;
use super::bars::bar;
use super::columns::{Column, Columns, cell};
use crate::render::{slurm, sweep, text, time};

/// Letters of a bar of progress.
const PROGRESS: usize = 10;

pub fn sweeps(sight: &Sight, from: usize, count: usize) -> Columns {
    let look = sight.look;
    let all: Vec<&Sweep> = sight.state.known.sweeps(&sight.state.filter).skip(from).take(count).collect();
    let each =
        |of: &dyn Fn(&Sweep) -> String, style| all.iter().map(|sweep| cell(&of(sweep), style)).collect::<Vec<Line>>();
    let done = |sweep: &Sweep| {
        let percent = (sweep.states.ended() * 100).checked_div(sweep.jobs).unwrap_or(0);
        format!("{} {percent:>3}%", bar(percent, PROGRESS))
    };
    let ends = |sweep: &Sweep| sweep.expected_end.as_ref().map(|end| time::clock(end, sight.now)).unwrap_or_default();
    let stopped = |sweep: &Sweep| sweep.stopped.as_ref().map(|_| "stopped".to_string()).unwrap_or_default();
    Columns::new(vec![
        Column::new("NAME", each(&|sweep| sweep.name.clone(), look.id())).most(24),
        Column::new("DONE", each(&done, look.good())),
        Column::new("JOBS", each(&|sweep| sweep::states(&sweep.states), look.queue())).most(30),
        Column::new("", each(&stopped, look.error())),
        Column::new("ENDS", each(&ends, look.time())).spare(2),
        Column::new("COMMAND", each(&|sweep| sweep.command.clone(), look.plain())),
    ])
}

pub fn machines(sight: &Sight, from: usize, count: usize) -> Columns {
    let look = sight.look;
    let all: Vec<&Machine> = sight.state.known.machines().iter().skip(from).take(count).collect();
    let each = |of: &dyn Fn(&Machine) -> String, style| {
        all.iter().map(|machine| cell(&of(machine), style)).collect::<Vec<Line>>()
    };
    let state = |machine: &&Machine| {
        let state = machine.pool.as_ref().map_or(MachineState::Ready, |pool| pool.state);
        let style = match state {
            MachineState::Ready => look.available(),
            MachineState::Unreachable | MachineState::Quarantined => look.error(),
            _ => look.state(),
        };
        cell(state.word(), style)
    };
    let pool = |machine: &Machine| machine.pool.clone().unwrap_or_default();
    let jobs = |machine: &Machine| match pool(machine).jobs.len() {
        0 => String::new(),
        count => text::counted(count as u64, "job"),
    };
    let cpus = |machine: &Machine| if machine.cpus == 0 { String::new() } else { machine.cpus.to_string() };
    let about = |machine: &Machine| {
        let pool = pool(machine);
        [pool.detail, pool.hint].into_iter().flatten().collect::<Vec<_>>().join("; ")
    };
    Columns::new(vec![
        Column::new("MACHINE", each(&|machine| machine.name.clone(), look.strong())).most(24),
        Column::new("STATE", all.iter().map(state).collect()),
        Column::new("CLASS", each(&|machine| pool(machine).class.unwrap_or_default(), look.plain())).most(14).spare(2),
        Column::new("GPUS", each(&gpus, look.plain())).most(30),
        Column::new("CPUS", each(&cpus, look.plain())).right().spare(1),
        Column::new("ON IT", each(&jobs, look.id())),
        Column::new("", each(&about, look.state())),
    ])
}

/// `3 of 4 with jobs`
fn gpus(machine: &Machine) -> String {
    if let Some(slurm) = machine.pool.as_ref().and_then(|pool| pool.slurm.as_ref()) {
        return slurm::gpus(slurm);
    }
    let busy = machine.gpus.iter().filter(|gpu| !gpu.jobs.is_empty()).count();
    match machine.gpus.len() {
        0 => String::new(),
        all => format!("{busy} of {all} with jobs"),
    }
}
