//! GPUs: bars of load and memory, how it was in the last minutes, and what is on each.

use nexus_api::service::{Gpu, Machine, Obstacle};
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::Sight;
use super::bars::{bar, chart};
use super::columns::{Column, Columns, cell};
use crate::render::gpus::{LOAD_STEPS, MEMORY_STEPS, obstacle, share};
use crate::render::paint::Paint;
use crate::render::{place, text};

/// One letter of a chart, in milliseconds: a few readings.
const SPAN_MS: i64 = 12_000;

/// Letters of bars and charts, and of the model, by how much room there is.
fn sizes(width: u16) -> (usize, usize, usize) {
    match width {
        0..100 => (6, 10, 12),
        100..130 => (10, 20, 20),
        _ => (16, 25, 30),
    }
}

pub fn columns(sight: &Sight, from: usize, count: usize) -> Columns {
    let look = sight.look;
    let all: Vec<(&Machine, &Gpu)> = sight.state.known.gpus().skip(from).take(count).collect();
    let several = sight.state.known.machines().len() > 1;
    let (bars, charts, letters) = sizes(sight.width);
    // Where nothing can be read there is nothing to draw: its size stands beside its name then.
    let is_read = sight.state.known.gpus().any(|(_, gpu)| gpu.used_mib.is_some() || gpu.load_percent.is_some());
    let index = |machine: &Machine, gpu: &Gpu| match several {
        true => format!("{}:{}", machine.name, gpu.index),
        false => gpu.index.to_string(),
    };
    let model = |gpu: &Gpu| if is_read { short_model(gpu) } else { place::model(gpu) };
    let past = |machine: &Machine, gpu: &Gpu| {
        let now = sight.now.timestamp().as_millisecond();
        chart(&sight.state.known.past.loads(&machine.name, gpu.index, charts, SPAN_MS, now))
    };
    let load_style = |gpu: &Gpu| look.by_height(gpu.load_percent.map(u64::from), LOAD_STEPS);
    let each = |draw: &dyn Fn(&Machine, &Gpu) -> Line<'static>| {
        all.iter().map(|(machine, gpu)| draw(machine, gpu)).collect::<Vec<_>>()
    };
    let or_nothing = |value: Option<String>| value.unwrap_or_default();
    let minutes = i64::try_from(charts).unwrap_or(0) * SPAN_MS / 60_000;
    Columns::new(vec![
        Column::new("GPU", each(&|machine, gpu| cell(&index(machine, gpu), look.strong()))).most(20),
        Column::new("MODEL", each(&|_, gpu| cell(&model(gpu), look.plain()))).most(if is_read { letters } else { 24 }),
        Column::new(
            "TEMP",
            each(&|_, gpu| cell(&or_nothing(gpu.temperature_c.map(|c| format!("{c}°C"))), look.time())),
        )
        .right(),
        Column::new("POWER", each(&|_, gpu| cell(&or_nothing(gpu.power_w.map(|w| format!("{w}W"))), look.time())))
            .right()
            .spare(1),
        Column::new("LOAD", each(&|_, gpu| cell(&load(gpu, bars), load_style(gpu)))),
        Column::new(
            "MEMORY",
            each(&|_, gpu| cell(&memory(gpu, bars), look.by_height(memory_percent(gpu), MEMORY_STEPS))),
        ),
        Column::new(&format!("LAST {minutes}m"), each(&|machine, gpu| cell_as_is(past(machine, gpu), load_style(gpu))))
            .most(charts)
            .spare(2),
        Column::new("JOBS", each(&|_, gpu| on_it(gpu, sight))),
    ])
    .least_last(12)
}

/// Blanks of a chart are part of it.
fn cell_as_is(content: String, style: Style) -> Line<'static> {
    match content.trim().is_empty() {
        true => Line::default(),
        false => Line::from(Span::styled(content, style)),
    }
}

fn short_model(gpu: &Gpu) -> String {
    if gpu.simulated { "simulated".into() } else { place::short_name(&gpu.name) }
}

fn load(gpu: &Gpu, cells: usize) -> String {
    gpu.load_percent.map(|load| format!("{} {load:>3}%", bar(load.into(), cells))).unwrap_or_default()
}

fn memory_percent(gpu: &Gpu) -> Option<u64> {
    (gpu.used_mib? * 100).checked_div(gpu.memory_mib)
}

/// `████░░ 19.5 of 24G`
fn memory(gpu: &Gpu, cells: usize) -> String {
    let (Some(used), Some(percent)) = (gpu.used_mib, memory_percent(gpu)) else { return String::new() };
    let all = (gpu.memory_mib + 512) / 1024;
    format!("{} {:>4.1}/{all}G", bar(percent, cells), used as f64 / 1024.0)
}

/// Its jobs, or that it is free, or why it is not.
fn on_it(gpu: &Gpu, sight: &Sight) -> Line<'static> {
    let look = sight.look;
    let mut words: Vec<Span<'static>> = Vec::new();
    for id in &gpu.jobs {
        let share = share(gpu, id).map(|share| format!(" ({share})")).unwrap_or_default();
        words.push(Span::styled(format!("{id}{share}"), look.id()));
    }
    if gpu.paused {
        words.push(Span::styled("paused", look.state()));
    }
    if let Some(said) = obstacle(gpu, Paint { on: false }) {
        let style = if matches!(gpu.obstacle, Some(Obstacle::Unreadable { .. })) { look.error() } else { look.state() };
        words.push(Span::styled(said, style));
    }
    if words.is_empty() {
        words.push(Span::styled("Available", look.available()));
    }
    let gaps = words.into_iter().flat_map(|word| [Span::raw(" "), word]).skip(1);
    Line::from(gaps.collect::<Vec<_>>())
}

/// What is said where there is none.
pub fn none(machines: &[Machine]) -> String {
    let error = machines.iter().find_map(|machine| machine.error.as_ref());
    match error {
        Some(error) => format!("GPUs cannot be read: {}; nexus doctor", text::first_line(error)),
        None => "no GPUs found; nexus add --gpus 0 \"command\" runs a job on the CPU".into(),
    }
}
