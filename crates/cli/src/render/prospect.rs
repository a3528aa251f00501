//! What a job that was just queued can expect, in one line.

use jiff::Zoned;
use nexus_api::jobs::{Job, State};

use super::expected;
use super::paint::Paint;
use super::place;
use super::reason::{self, Capacity};

/// `abc  position 3, needs 1 GPU: 2 held by jobs`
pub fn line(job: &Job, capacity: Capacity, now: &Zoned, paint: Paint) -> String {
    format!("{}  {}", paint.id(&job.id), of_job(job, capacity, now))
}

/// `starts now on GPU 0`
pub fn now_on(job: &Job, starts: &str) -> String {
    match job.request.amount().count() {
        0 => format!("{starts} now on the CPU"),
        _ => format!("{starts} now{}", place::on_place(job)),
    }
}

pub fn of_job(job: &Job, capacity: Capacity, now: &Zoned) -> String {
    match job.state {
        State::Starting | State::Running => now_on(job, "starts"),
        state if state.has_ended() => state.word().to_string(),
        _ => {
            let position = job.position.map(|position| format!("position {position}"));
            let reason = Some(reason::of_job(job, capacity, now)).filter(|reason| !reason.is_empty());
            let start = expected::start(job, now);
            let start = (!start.is_empty()).then(|| format!("starts {start}"));
            let parts: Vec<String> = position.into_iter().chain(reason).chain(start).collect();
            if parts.is_empty() { "queued".into() } else { parts.join(", ") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;
    use crate::render::samples;

    #[test]
    fn one_line_says_when_and_where() {
        let (capacity, now) = (Capacity { gpus: 2, cpus: 8 }, samples::now());
        let mut job = samples::queued("abc");
        job.position = Some(3);
        job.waiting = Some(samples::gpus_needed(1, [0, 2, 0, 0, 0]));
        assert_eq!(line(&job, capacity, &now, PLAIN), "abc  position 3, needs 1 GPU: 2 held by jobs");
        assert_eq!(line(&samples::running("abc", &[0]), capacity, &now, PLAIN), "abc  starts now on GPU 0");
        let mut held = samples::queued("abc");
        held.state = State::Held;
        assert_eq!(line(&held, capacity, &now, PLAIN), "abc  held: nexus release abc");
    }
}
