//! How jobs ended, in words.

use jiff::Zoned;
use nexus_api::jobs::{Job, State};
use nexus_api::service::RecentFailure;

use super::paint::Paint;
use super::{place, text, time};
use crate::signals;

/// `exit 1`, `signal 9 (KILL)`, else the reason word.
pub fn cause(reason: &str, exit_code: Option<i32>, signal: Option<i32>) -> String {
    match (reason, exit_code, signal) {
        ("exit", Some(code), _) => format!("exit {code}"),
        ("signal", _, Some(signal)) => signals::described(signal),
        (word, _, _) => word.to_string(),
    }
}

/// `completed`, `failed (exit 1)`, `killed (user)`
pub fn state_words(job: &Job) -> String {
    match &job.reason {
        Some(reason) if job.state != State::Completed => {
            format!("{} ({})", job.state.word(), cause(reason, job.exit_code, job.signal))
        }
        _ if job.state == State::Completed && job.results_state == "failed" => "completed (results not copied)".into(),
        _ => job.state.word().to_string(),
    }
}

pub fn painted_state(job: &Job, paint: Paint) -> String {
    let words = state_words(job);
    match job.state {
        State::Completed => paint.good(&words),
        State::Failed => paint.error(&words),
        _ => paint.state(&words),
    }
}

/// `abc 3m ago, exit 1: ModuleNotFoundError: No module named 'foo'`
pub fn failure(failure: &RecentFailure, now: &Zoned, paint: Paint) -> String {
    let ago = match time::seconds_since(&failure.ended_at, now) {
        Some(seconds) => format!("{} ago", time::rough(seconds)),
        None => failure.ended_at.clone(),
    };
    let mut words = cause(&failure.reason, failure.exit_code, failure.signal);
    // Of an exit or a signal the detail repeats what stands there already.
    let detail = failure.detail.as_ref().filter(|_| !matches!(failure.reason.as_str(), "exit" | "signal"));
    if let Some(said) = failure.last_line.as_ref().or(detail) {
        words.push_str(&format!(": {}", text::first_line(said.trim())));
    }
    format!("{} {}, {}", paint.id(&failure.id), paint.time(&ago), paint.error(&words))
}

/// One line on how a job ended: `killed abc on GPU 0 after 2h 15m: python train.py`
pub fn ended(job: &Job, paint: Paint) -> String {
    let what = match job.state {
        State::Killed => "killed".to_string(),
        _ => state_words(job),
    };
    format!(
        "{what} {}{}{}: {}",
        paint.id(&job.id),
        place::on_place(job),
        after(job, paint),
        paint.command(&text::first_line(&job.command))
    )
}

/// How and why: `failed (timeout) abc on GPU 0 after 2s: it ran longer than its limit of 2s`
pub fn end_and_detail(job: &Job, paint: Paint) -> String {
    let detail = job.detail.as_deref().map(|detail| format!(": {}", text::first_line(detail))).unwrap_or_default();
    let (state, id) = (painted_state(job, paint), paint.id(&job.id));
    format!("{state} {id}{}{}{detail}", place::on_place(job), after(job, paint))
}

fn after(job: &Job, paint: Paint) -> String {
    match job.runtime_seconds {
        Some(seconds) if job.attempt > 0 => {
            format!(" after {}", paint.time(&time::span(seconds.max(0.0) as u64)))
        }
        _ => String::new(),
    }
}

/// One line on what was done to a job: `removed abc: python train.py`
pub fn done(what: &str, job: &Job, paint: Paint) -> String {
    format!("{what} {}: {}", paint.id(&job.id), paint.command(&text::first_line(&job.command)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    #[test]
    fn a_killed_job_is_named() {
        let mut job = samples::ended("abc", State::Killed, "user");
        job.runtime_seconds = Some(8100.4);
        assert_eq!(ended(&job, PLAIN), "killed abc on GPU 0 after 2h 15m: python train.py");
        job.state = State::Failed;
        job.reason = Some("signal".into());
        job.signal = Some(11);
        assert_eq!(ended(&job, PLAIN), "failed (signal 11 (SEGV)) abc on GPU 0 after 2h 15m: python train.py");
        job.attempt = 0;
        job.gpus.clear();
        job.state = State::Killed;
        assert_eq!(ended(&job, PLAIN), "killed abc: python train.py");
    }

    #[test]
    fn an_end_has_its_reason() {
        let mut job = samples::ended("abc", State::Failed, "timeout");
        job.detail = Some("it ran longer than its limit of 130 seconds".into());
        let told = "failed (timeout) abc on GPU 0 after 2m 10s: it ran longer than its limit of 130 seconds";
        assert_eq!(end_and_detail(&job, PLAIN), told);
    }

    #[test]
    fn states_carry_their_cause() {
        let mut job = samples::ended("abc", State::Failed, "exit");
        job.exit_code = Some(3);
        assert_eq!(state_words(&job), "failed (exit 3)");
        assert_eq!(state_words(&samples::ended("abc", State::Killed, "removed")), "killed (removed)");
        assert_eq!(state_words(&samples::ended("abc", State::Failed, "gpu-oom")), "failed (gpu-oom)");
    }

    #[test]
    fn a_failure_says_its_last_words() {
        let seen = samples::failure("abc");
        assert_eq!(
            failure(&seen, &samples::now(), PLAIN),
            "abc 3m ago, exit 1: ModuleNotFoundError: No module named 'foo'"
        );
        let silent = RecentFailure { last_line: None, detail: Some("it exited with code 1".into()), ..seen };
        assert_eq!(failure(&silent, &samples::now(), PLAIN), "abc 3m ago, exit 1");
        let lost = RecentFailure { reason: "lost".into(), detail: Some("the machine restarted".into()), ..silent };
        assert_eq!(failure(&lost, &samples::now(), PLAIN), "abc 3m ago, lost: the machine restarted");
    }
}
