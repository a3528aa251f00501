//! Sweeps: queued, in a list, in a row of the queue, and all that is known of one.

use jiff::Zoned;
use nexus_api::sweeps::{Plan, States, Sweep, SweepQueued};

use super::paint::Paint;
use super::table::Table;
use super::{text, time};

/// Column of the values: the longest key, its colon and a blank.
const VALUE_COLUMN: usize = 14;

/// `sweep lr-grid: 36 jobs queued (4×3×3: I, J, K)`
pub fn queued(queued: &SweepQueued, paint: Paint) -> String {
    let sweep = &queued.sweep;
    let jobs = text::counted(queued.ids.len() as u64, "job");
    format!("sweep {}: {jobs} queued{}\n", paint.id(&sweep.name), shape(sweep))
}

/// What to type next.
pub fn next(name: &str) -> String {
    format!("nexus sweep show {name} shows how it goes, nexus sweep csv {name} what came of it")
}

/// ` (4×3×3: I, J, K)`
fn shape(sweep: &Sweep) -> String {
    let Ok(lengths) = sweep.plan.lengths() else { return String::new() };
    let product: Vec<String> = lengths.iter().map(|(_, length)| length.to_string()).collect();
    let names: Vec<String> = match lengths.iter().any(|(names, _)| names.len() > 1) || lengths.is_empty() {
        true => sweep.params.clone(),
        false => lengths.into_iter().flat_map(|(names, _)| names).collect(),
    };
    let part = if sweep.plan.only.is_some() || sweep.plan.random.is_some() { "of " } else { "" };
    let product = if product.is_empty() { String::new() } else { format!("{part}{}: ", product.join("×")) };
    let copies = if sweep.copies > 1 { format!("; {} times", sweep.copies) } else { String::new() };
    format!(" ({product}{}{copies}){}", names.join(", "), drawn(&sweep.plan))
}

/// `, drawn by --seed 7`
pub fn drawn(plan: &Plan) -> String {
    plan.random.map(|random| format!(", drawn by --seed {}", random.seed)).unwrap_or_default()
}

/// `12R 30Q 4F`
pub fn states(states: &States) -> String {
    let letters = [
        (states.running, "R"),
        (states.copying, "CG"),
        (states.queued, "Q"),
        (states.held, "H"),
        (states.completed, "C"),
        (states.failed, "F"),
        (states.killed, "K"),
    ];
    let some = letters.into_iter().filter(|(count, _)| *count > 0).map(|(count, letter)| format!("{count}{letter}"));
    some.collect::<Vec<_>>().join(" ")
}

fn progress(sweep: &Sweep) -> String {
    match sweep.jobs {
        0 => "-".into(),
        jobs => format!("{}%", sweep.states.ended() * 100 / jobs),
    }
}

fn expected_end(sweep: &Sweep, now: &Zoned) -> String {
    sweep.expected_end.as_ref().map_or("-".into(), |end| time::clock(end, now))
}

pub fn ls(sweeps: &[Sweep], now: &Zoned, with_heads: bool, paint: Paint) -> String {
    let stopped = |sweep: &Sweep| if sweep.stopped.is_some() { "stopped" } else { "" }.to_string();
    Table::new()
        .column("NAME", Paint::id, sweeps.iter().map(|sweep| sweep.name.clone()))
        .column("JOBS", Paint::plain, sweeps.iter().map(|sweep| sweep.jobs.to_string()))
        .column("STATES", Paint::queue, sweeps.iter().map(|sweep| states(&sweep.states)))
        .column("DONE", Paint::plain, sweeps.iter().map(progress))
        .column("EXPECTED END", Paint::time, sweeps.iter().map(|sweep| expected_end(sweep, now)))
        .column("STOPPED", Paint::error, sweeps.iter().map(stopped))
        .column("COMMAND", Paint::command, sweeps.iter().map(|sweep| sweep.command.clone()))
        .render(with_heads, paint)
}

pub fn show(sweep: &Sweep, now: &Zoned, paint: Paint) -> String {
    let mut lines = Lines(String::new());
    lines.add("Sweep", &paint.id(&sweep.name));
    lines.some("Project", sweep.project.as_deref());
    lines.add("Command", &paint.command(&text::hanging(&sweep.command, VALUE_COLUMN)));
    parameters(&mut lines, sweep);
    lines.some("Condition", sweep.plan.only.as_deref());
    if let Some(random) = sweep.plan.random {
        lines.add("Drawn", &format!("{} by --seed {}", random.count, random.seed));
    }
    if sweep.copies > 1 {
        lines.add("Copies", &format!("{} of each", sweep.copies));
    }
    lines.some("Values taken", (!sweep.extract.is_empty()).then(|| sweep.extract.join(" ")).as_deref());
    lines.some("At once", sweep.max_running.map(|most| format!("{most} at most")).as_deref());
    let states = states(&sweep.states);
    lines.add("Jobs", &format!("{}: {}", sweep.jobs, if states.is_empty() { "none" } else { states.as_str() }));
    lines.add("Done", &format!("{} of {} ({})", sweep.states.ended(), sweep.jobs, progress(sweep)));
    lines.add("Submitted", &paint.time(&time::clock(&sweep.submitted_at, now)));
    lines.some("Expected end", sweep.expected_end.as_ref().map(|end| paint.time(&time::clock(end, now))).as_deref());
    if let Some(why) = &sweep.stopped {
        let release = format!("nexus release sweep:{} lets the rest start", sweep.name);
        lines.add("Stopped", &format!("{}\n{}{release}", paint.error(&text::printable(why)), " ".repeat(VALUE_COLUMN)));
    }
    lines.0
}

/// Each with its values, as typed.
fn parameters(lines: &mut Lines, sweep: &Sweep) {
    let mut key = "Parameters";
    if let Some(table) = &sweep.plan.from {
        let rows = text::counted(table.rows.len() as u64, "row");
        lines.add(key, &format!("{} from a table of {rows}", text::printable(&table.names.join(", "))));
        key = "";
    }
    for axis in &sweep.plan.axes {
        lines.add(key, &text::printable(&format!("{}={}", axis.name, axis.values)));
        key = "";
    }
    if sweep.plan.zip {
        lines.add(key, "side by side, not each with each");
    }
}

struct Lines(String);

impl Lines {
    fn add(&mut self, key: &str, value: &str) {
        let key = if key.is_empty() { String::new() } else { format!("{key}:") };
        self.0.push_str(&format!("{key:VALUE_COLUMN$}{value}\n"));
    }

    fn some(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(key, &text::hanging(value, VALUE_COLUMN));
        }
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::sweeps::{Axis, Random};

    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    #[test]
    fn one_line_says_what_was_queued() {
        let line = |sweep: Sweep, jobs: usize| {
            queued(&SweepQueued { sweep, ids: vec!["abc".into(); jobs], notes: vec![] }, PLAIN)
        };
        let mut sweep = samples::sweep("lr-grid");
        assert_eq!(line(sweep.clone(), 10), "sweep lr-grid: 10 jobs queued (2×5: lr, seed)\n");
        sweep.copies = 2;
        assert_eq!(line(sweep.clone(), 20), "sweep lr-grid: 20 jobs queued (2×5: lr, seed; 2 times)\n");
        sweep.copies = 1;
        sweep.plan.only = Some("lr*seed<3".into());
        assert_eq!(line(sweep.clone(), 1), "sweep lr-grid: 1 job queued (of 2×5: lr, seed)\n");
        sweep.plan.random = Some(Random { count: 1, seed: 7 });
        sweep.plan.axes = vec![Axis { name: "lr".into(), values: "log:1e-4..1e-1".into() }];
        sweep.params = vec!["lr".into()];
        assert_eq!(line(sweep, 1), "sweep lr-grid: 1 job queued (lr), drawn by --seed 7\n");
    }

    #[test]
    fn sweeps_in_columns() {
        let mut done = samples::sweep("b");
        done.states = States { completed: 10, ..States::default() };
        done.expected_end = None;
        assert_eq!(
            ls(&[samples::sweep("lr-grid"), done], &samples::now(), true, PLAIN),
            "\
NAME     JOBS  STATES    DONE  EXPECTED END  COMMAND
lr-grid  10    2R 7Q 1F  10%   18:30         train --lr {lr} --seed {seed}
b        10    10C       100%  -             train --lr {lr} --seed {seed}
"
        );
    }

    #[test]
    fn all_that_is_known() {
        let mut sweep = samples::sweep("lr-grid");
        sweep.extract = vec!["loss".into()];
        sweep.max_running = Some(4);
        sweep.stopped = Some("the first 3 jobs all failed within 30 s: exit 1".into());
        assert_eq!(
            show(&sweep, &samples::now(), PLAIN),
            "\
Sweep:        lr-grid
Command:      train --lr {lr} --seed {seed}
Parameters:   lr=0.1,0.01
              seed=1..5
Values taken: loss
At once:      4 at most
Jobs:         10: 2R 7Q 1F
Done:         1 of 10 (10%)
Submitted:    15:00
Expected end: 18:30
Stopped:      the first 3 jobs all failed within 30 s: exit 1
              nexus release sweep:lr-grid lets the rest start
"
        );
    }
}
