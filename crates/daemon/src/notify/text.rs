//! Notices in words: what happened in the first line, then what somebody who is away wants to know.

use nexus_api::jobs::{Job, State};
use nexus_api::notify::{Digest, EndedSweep, FailedJob};
use nexus_api::standstill::Standstill;
use nexus_api::values;

use super::form::shortened;

/// Letters of a command, and of a line that a job printed. What is left out is in the job's own fields.
const LETTERS: usize = 300;

/// Reasons of a standstill that are named; the rest is counted.
const REASONS: usize = 5;

/// Of each failure in a digest.
const FEW_LETTERS: usize = 100;

pub fn started(job: &Job, host: &str) -> String {
    format!("[{host}] job {} started{}\n{}", called(job), place(job), shortened(&job.command, LETTERS))
}

pub fn ended(job: &Job, last_line: Option<&str>, host: &str) -> String {
    let how = match (job.state, job.detail.as_deref()) {
        (State::Completed, _) | (_, None) => String::new(),
        (_, Some(detail)) => format!(": {detail}"),
    };
    let ran = job.runtime_seconds.map(|seconds| format!(" after {}", runtime(seconds))).unwrap_or_default();
    let said = last_line.map(|line| format!("\n{}", shortened(line, LETTERS))).unwrap_or_default();
    let command = shortened(&job.command, LETTERS);
    format!("[{host}] job {} {}{}{ran}{how}\n{command}{said}", called(job), job.state.word(), place(job))
}

pub fn sweep(sweep: &EndedSweep, host: &str) -> String {
    let command = shortened(&sweep.command, LETTERS);
    format!(
        "[{host}] sweep {} has ended: {}\n{command}",
        sweep.name,
        counts(sweep.completed, sweep.failed, sweep.killed)
    )
}

pub fn queue_empty(host: &str) -> String {
    format!("[{host}] the queue is empty: nothing runs, and nothing waits")
}

/// Every reason, with what to type.
pub fn blocked(standstill: &Standstill, host: &str) -> String {
    format!("[{host}] {}{}", standstill.title, reasons(standstill))
}

fn reasons(standstill: &Standstill) -> String {
    let named = standstill.reasons.iter().take(REASONS).map(|it| format!("\n{}\n  {}", it.text, it.hint));
    let more = standstill.reasons.len().saturating_sub(REASONS);
    let more = (more > 0).then(|| format!("\nand {more} more: nexus doctor"));
    named.chain(more).collect()
}

/// `since`: by the clock of this machine.
pub fn digest(digest: &Digest, since: &str, host: &str) -> String {
    let started = if digest.started > 0 { format!("{} started, ", digest.started) } else { String::new() };
    let counted = counts(digest.completed, digest.failed, digest.killed);
    let mut text = format!("[{host}] since {since}: {started}{counted}");
    for sweep in &digest.sweeps {
        let counted = counts(sweep.completed, sweep.failed, sweep.killed);
        text.push_str(&format!("\nsweep {} has ended: {counted}", sweep.name));
    }
    for failed in &digest.failures {
        text.push_str(&format!("\n{}", failure(failed)));
    }
    let more = digest.failed.saturating_sub(digest.failures.len() as u64);
    if more > 0 {
        text.push_str(&format!("\nand {more} more failed"));
    }
    if let Some(standstill) = &digest.standstill {
        text.push_str(&format!("\n{}{}", standstill.title, reasons(standstill)));
    }
    if digest.queue_empty {
        text.push_str("\nthe queue is empty");
    }
    text
}

fn failure(job: &FailedJob) -> String {
    let name = job.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let detail = job.detail.as_deref().unwrap_or("it failed");
    format!("{}{name}: {detail}: {}", job.id, shortened(&job.command.replace('\n', " "), FEW_LETTERS))
}

/// What a terminal would show of a line: without colours and what else is no letter.
pub fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\x1b' && letters.next_if_eq(&'[').is_some() {
            // To its last letter.
            letters.by_ref().find(|end| ('@'..='~').contains(end));
        } else if !letter.is_control() || letter == '\t' {
            text.push(letter);
        }
    }
    text
}

fn counts(completed: u64, failed: u64, killed: u64) -> String {
    let killed = if killed > 0 { format!(", {killed} killed") } else { String::new() };
    format!("{completed} completed, {failed} failed{killed}")
}

fn called(job: &Job) -> String {
    match &job.name {
        Some(name) => format!("{} ({name})", job.id),
        None => job.id.clone(),
    }
}

/// Of the service's own host it goes without saying.
fn place(job: &Job) -> String {
    let machine = job.machine.as_ref().filter(|machine| *machine != "local");
    let machine = machine.map(|machine| format!(" of {machine}")).unwrap_or_default();
    let gpus: Vec<String> = job.gpus.iter().map(u16::to_string).collect();
    match gpus.as_slice() {
        [] if machine.is_empty() => String::new(),
        [] => machine.replacen(" of ", " on ", 1),
        [one] => format!(" on GPU {one}{machine}"),
        many => format!(" on GPUs {}{machine}", many.join(",")),
    }
}

/// To the second, or to the minute where that is enough.
fn runtime(seconds: f64) -> String {
    let seconds = seconds.round().max(0.0) as u64;
    values::limit(if seconds < 3600 { seconds } else { seconds / 60 * 60 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::sample;

    #[test]
    fn a_job_is_told_of_in_a_few_lines() {
        let failed = sample::failure().job.unwrap();
        assert_eq!(
            ended(&failed, Some("ValueError: no"), "box"),
            "[box] job abc failed after 3m4s: it exited with code 1\npython train.py\nValueError: no"
        );
        let completed = Job {
            state: State::Completed,
            name: Some("night".into()),
            gpus: vec![0, 3],
            machine: Some("far".into()),
            runtime_seconds: Some(8130.0),
            ..sample::job()
        };
        assert_eq!(
            ended(&completed, None, "box"),
            "[box] job abc (night) completed on GPUs 0,3 of far after 2h15m\npython train.py"
        );
        let job = Job { gpus: vec![1], machine: Some("local".into()), ..sample::job() };
        assert_eq!(started(&job, "box"), "[box] job abc started on GPU 1\npython train.py");
    }

    #[test]
    fn colours_are_left_out() {
        assert_eq!(plain("\x1b[1;31mno\x1b[0m module\x07 [é]\x1b[3"), "no module [é]");
    }

    #[test]
    fn a_digest_counts_and_names_the_failures() {
        let ended =
            EndedSweep { name: "s1".into(), command: "t {x}".into(), jobs: 3, completed: 3, failed: 0, killed: 0 };
        let failures = vec![FailedJob {
            id: "abd".into(),
            name: None,
            command: "python\ntrain.py".into(),
            exit_code: Some(1),
            detail: Some("it exited with code 1".into()),
        }];
        let many = Digest {
            completed: 12,
            failed: 3,
            killed: 1,
            failures,
            sweeps: vec![ended],
            queue_empty: true,
            ..Digest::default()
        };
        assert_eq!(
            digest(&many, "14:30", "box"),
            "[box] since 14:30: 12 completed, 3 failed, 1 killed\nsweep s1 has ended: 3 completed, 0 failed\n\
             abd: it exited with code 1: python train.py\nand 2 more failed\nthe queue is empty"
        );
    }
}
