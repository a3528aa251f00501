//! Ended jobs, newest last.

use jiff::Zoned;
use nexus_api::jobs::Job;

use super::paint::Paint;
use super::table::Table;
use super::{outcome, place, time};

pub fn history(jobs: &[Job], now: &Zoned, with_heads: bool, paint: Paint) -> String {
    Table::new()
        .column("ID", Paint::id, jobs.iter().map(|job| job.id.clone()))
        .column("STATE", state_colour, jobs.iter().map(outcome::state_words))
        .column("GPU", Paint::gpu, jobs.iter().map(|job| place::of_job(job).unwrap_or("-".into())))
        .column("RUNTIME", Paint::time, jobs.iter().map(runtime))
        .column("END", Paint::time, jobs.iter().map(|job| ended_at(job, now)))
        .column("NAME", Paint::plain, jobs.iter().map(|job| job.name.clone().unwrap_or_default()))
        .column("COMMAND", Paint::command, jobs.iter().map(|job| job.command.clone()))
        .render(with_heads, paint)
}

fn state_colour(paint: Paint, words: &str) -> String {
    match words {
        words if words.starts_with("completed") => paint.good(words),
        words if words.starts_with("failed") => paint.error(words),
        words => paint.state(words),
    }
}

fn runtime(job: &Job) -> String {
    match job.runtime_seconds {
        Some(seconds) if job.attempt > 0 => time::span(seconds.max(0.0) as u64),
        _ => "-".into(),
    }
}

fn ended_at(job: &Job, now: &Zoned) -> String {
    job.ended_at.as_ref().map_or("-".into(), |ended| time::clock(ended, now))
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::State;

    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    #[test]
    fn ends_in_columns() {
        let mut failed = samples::ended("abc", State::Failed, "exit");
        (failed.exit_code, failed.simulated) = (Some(1), true);
        let done = samples::ended("def", State::Completed, "");
        let mut removed = samples::ended("ghi", State::Killed, "removed");
        (removed.attempt, removed.runtime_seconds) = (0, None);
        removed.gpus.clear();
        removed.ended_at = Some("2024-10-20T10:00:00Z".into());
        assert_eq!(
            history(&[failed, done, removed], &samples::now(), true, PLAIN),
            "\
ID   STATE             GPU                RUNTIME  END               COMMAND
abc  failed (exit 1)   GPU 0 (simulated)  2m 10s   15:32             python train.py
def  completed         GPU 0              2m 10s   15:32             python train.py
ghi  killed (removed)  -                  -        2024-10-20 12:00  python train.py
"
        );
    }
}
