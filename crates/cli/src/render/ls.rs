//! Everything alive, in squeue's columns.

use jiff::Zoned;
use nexus_api::jobs::{Job, State};

use super::paint::Paint;
use super::reason::{self, Capacity};
use super::table::Table;
use super::{place, text, time};

/// squeue cuts names; the whole command stands in `queue` and `show`.
const NAME_COLUMNS: usize = 24;

pub fn ls(jobs: &[Job], user: &str, capacity: Capacity, now: &Zoned, paint: Paint) -> String {
    if jobs.is_empty() {
        return "JOBID  NAME  USER  ST  TIME  GPUS  NODELIST(REASON)\n".into();
    }
    Table::new()
        .column("JOBID", Paint::id, jobs.iter().map(|job| job.id.clone()))
        .column("NAME", Paint::command, jobs.iter().map(name))
        .column("USER", Paint::plain, jobs.iter().map(|_| user.to_string()))
        .column("ST", Paint::state, jobs.iter().map(|job| code(job).to_string()))
        .column("TIME", Paint::time, jobs.iter().map(|job| running_time(job, now)))
        .column("GPUS", Paint::plain, jobs.iter().map(|job| job.request.amount().to_string()))
        .column("NODELIST(REASON)", Paint::plain, jobs.iter().map(|job| node(job, capacity, now)))
        .render(true, paint)
}

/// squeue's two letters.
fn code(job: &Job) -> &'static str {
    match job.state {
        State::Starting if job.waiting.is_some() => "PD",
        State::Held | State::Queued => "PD",
        State::Starting => "CF",
        State::Running => "R",
        State::Copying => "CG",
        State::Completed => "CD",
        State::Failed => "F",
        State::Killed => "CA",
    }
}

fn name(job: &Job) -> String {
    let name = job.name.clone().unwrap_or_else(|| text::first_line(&job.command));
    text::cut(&name, NAME_COLUMNS)
}

/// `2:15:00` and `1-02:03:04`, as squeue writes it.
fn running_time(job: &Job, now: &Zoned) -> String {
    let seconds = job.started_at.as_ref().and_then(|started| time::seconds_since(started, now)).unwrap_or(0);
    let (days, hours, minutes, rest) = (seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match seconds {
        0..3600 => format!("{minutes}:{rest:02}"),
        3600..86400 => format!("{hours}:{minutes:02}:{rest:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{rest:02}"),
    }
}

fn node(job: &Job, capacity: Capacity, now: &Zoned) -> String {
    if matches!(job.state, State::Held | State::Queued) || job.waiting.is_some() {
        return format!("({})", reason::of_job(job, capacity, now));
    }
    let machine = job.machine.as_deref().unwrap_or("local");
    if let Some(slurm) = &job.slurm {
        return format!("{machine}:{}", slurm.nodes);
    }
    let simulated = if job.simulated { " (simulated)" } else { "" };
    match job.gpus.is_empty() {
        true => machine.to_string(),
        false => format!("{machine}:{}{simulated}", place::index_list(&job.gpus)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    #[test]
    fn columns_of_squeue() {
        let mut waits = samples::queued("def");
        waits.waiting = Some(samples::gpus_needed(1, [0, 2, 0, 0, 0]));
        waits.name = Some("日".repeat(300));
        let capacity = Capacity { gpus: 2, cpus: 8 };
        assert_eq!(
            ls(&[samples::running("abc", &[0, 1]), waits], "ann", capacity, &samples::now(), PLAIN),
            "\
JOBID  NAME                     USER  ST  TIME     GPUS  NODELIST(REASON)
abc    python train.py          ann   R   2:15:00  2     local:0,1
def    日日日日日日日日日日日…  ann   PD  0:00     1     (needs 1 GPU: 2 held by jobs)
"
        );
    }

    #[test]
    fn times_of_squeue() {
        let mut job = samples::running("abc", &[0]);
        job.started_at = Some("2024-10-23T13:41:56Z".into());
        assert_eq!(running_time(&job, &samples::now()), "1-02:03:04");
    }
}
