//! Pending jobs: place, id, reason, whole command. A sweep of which many wait may be one row.

use std::collections::{HashMap, HashSet};

use jiff::Zoned;
use nexus_api::jobs::Job;
use nexus_api::sweeps::Sweep;

use super::expected;
use super::paint::Paint;
use super::reason::{self, Capacity};
use super::sweep;
use super::table::Table;

/// A sweep of which more jobs wait is one row.
const MOST_ROWS_OF_A_SWEEP: usize = 5;

/// What is shown of a job, or of many.
pub struct Row {
    position: String,
    id: String,
    priority: i32,
    name: String,
    reason: String,
    expected: String,
    command: String,
}

pub fn queue(rows: &[Row], with_heads: bool, paint: Paint) -> String {
    let prioritised = rows.iter().any(|row| row.priority != 0);
    let priority = |row: &Row| if prioritised { row.priority.to_string() } else { String::new() };
    Table::new()
        .column("POS", Paint::queue, rows.iter().map(|row| row.position.clone()))
        .column("ID", Paint::id, rows.iter().map(|row| row.id.clone()))
        .column("PRIO (LOW FIRST)", Paint::plain, rows.iter().map(priority))
        .column("NAME", Paint::plain, rows.iter().map(|row| row.name.clone()))
        .column("REASON", Paint::state, rows.iter().map(|row| row.reason.clone()))
        .column("START", Paint::time, rows.iter().map(|row| row.expected.clone()))
        .column("COMMAND", Paint::command, rows.iter().map(|row| row.command.clone()))
        .render(with_heads, paint)
}

/// A row for each job.
pub fn rows(jobs: &[Job], capacity: Capacity, now: &Zoned) -> Vec<Row> {
    jobs.iter().map(|job| row(job, capacity, now)).collect()
}

/// How many jobs of each sweep wait.
fn waiting(jobs: &[Job]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for name in jobs.iter().filter_map(|job| job.sweep.as_deref()) {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// Whether a sweep has too many rows.
pub fn can_collapse(jobs: &[Job]) -> bool {
    waiting(jobs).values().any(|count| *count > MOST_ROWS_OF_A_SWEEP)
}

/// The same with one row for a sweep of which many wait, in the place of its first job.
pub fn collapsed(jobs: &[Job], sweeps: &[Sweep], capacity: Capacity, now: &Zoned) -> Vec<Row> {
    let waiting = waiting(jobs);
    let mut shown = HashSet::new();
    let mut rows = Vec::new();
    for job in jobs {
        let many = job.sweep.as_deref().filter(|name| waiting[name] > MOST_ROWS_OF_A_SWEEP);
        let Some(name) = many else {
            rows.push(row(job, capacity, now));
            continue;
        };
        if shown.insert(name) {
            let sweep = sweeps.iter().find(|sweep| sweep.name == name);
            rows.push(row_of_sweep(job, name, waiting[name], sweep, row(job, capacity, now)));
        }
    }
    rows
}

/// What its first job waits for, most others do.
fn row_of_sweep(job: &Job, name: &str, waiting: usize, sweep: Option<&Sweep>, first: Row) -> Row {
    let states = sweep.map_or(format!("{waiting}Q"), |sweep| sweep::states(&sweep.states));
    let stopped = sweep.is_some_and(|sweep| sweep.stopped.is_some());
    let reason = match (stopped, first.reason.is_empty()) {
        (true, _) => format!("{states}, stopped: nexus sweep show {name}"),
        (false, true) => states,
        (false, false) => format!("{states}, {}", first.reason.replace(&job.id, &format!("sweep:{name}"))),
    };
    let command = sweep.map_or(first.command, |sweep| sweep.command.clone());
    Row { id: format!("sweep:{name}"), reason, command, ..first }
}

fn row(job: &Job, capacity: Capacity, now: &Zoned) -> Row {
    Row {
        position: job.position.map_or("-".into(), |position| position.to_string()),
        id: job.id.clone(),
        priority: job.priority,
        name: job.name.clone().unwrap_or_default(),
        reason: reason::of_job(job, capacity, now),
        expected: expected::start(job, now),
        command: job.command.clone(),
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::State;

    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    #[test]
    fn the_queue_in_its_order() {
        let mut first = samples::queued("abc");
        first.position = Some(1);
        first.waiting = Some(samples::gpus_needed(2, [1, 3, 0, 0, 0]));
        let mut second = samples::queued("def");
        second.state = State::Held;
        second.command = "echo 1\necho 2".into();
        let capacity = Capacity { gpus: 4, cpus: 8 };
        assert_eq!(
            queue(&rows(&[first, second], capacity, &samples::now()), true, PLAIN),
            "\
POS  ID   REASON                                COMMAND
1    abc  needs 2 GPUs: 1 free, 3 held by jobs  python train.py
-    def  held: nexus release def               echo 1
                                                echo 2
"
        );
    }

    #[test]
    fn a_command_is_whole_however_long() {
        let mut job = samples::queued("abc");
        job.command = "é".repeat(5000);
        let text = queue(&rows(&[job.clone()], Capacity { gpus: 1, cpus: 1 }, &samples::now()), false, PLAIN);
        assert!(text.contains(&job.command));
    }

    #[test]
    fn a_sweep_of_which_many_wait_is_one_row() {
        let mut jobs = vec![samples::queued("abc")];
        for place in 0..6 {
            let mut job = samples::queued("def");
            (job.sweep, job.position) = (Some("lr-grid".into()), Some(place + 2));
            job.waiting = Some(samples::gpus_needed(1, [0, 2, 0, 0, 0]));
            jobs.push(job);
        }
        for _ in 0..5 {
            let mut job = samples::queued("ghj");
            job.sweep = Some("few".into());
            jobs.push(job);
        }
        assert!(can_collapse(&jobs) && !can_collapse(&jobs[7..]));
        let capacity = Capacity { gpus: 2, cpus: 8 };
        let shown = collapsed(&jobs, &[samples::sweep("lr-grid")], capacity, &samples::now());
        assert_eq!(shown.len(), 7);
        assert_eq!(
            queue(&shown[..2], true, PLAIN),
            "\
POS  ID             REASON                                 COMMAND
-    abc                                                   python train.py
2    sweep:lr-grid  2R 7Q 1F, needs 1 GPU: 2 held by jobs  train --lr {lr} --seed {seed}
"
        );
        assert_eq!(rows(&jobs, capacity, &samples::now()).len(), 12);
    }
}
