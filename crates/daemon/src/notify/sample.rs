//! Notices that are about no job of anybody's: one to try things out with, and what a job's fields are.

use nexus_api::command::Command;
use nexus_api::jobs::{Job, JobSpec};
use nexus_api::notify::{About, FORMAT, Notice};

use crate::store::JobRow;
use crate::{clock, view};

/// One that somebody asked for, to see whether notices arrive.
pub fn test(host: &str) -> Notice {
    Notice {
        format: FORMAT,
        event: About::Test,
        text: format!("[{host}] a test of nexus: notices arrive"),
        host: host.into(),
        at: clock::rfc3339(clock::now()),
        job: None,
        last_line: None,
        sweep: None,
        digest: None,
        standstill: None,
    }
}

/// Has every field that a job has.
pub fn job() -> Job {
    let spec = JobSpec::new(Command::Shell("python train.py".into()), "/".into());
    let around = view::Surroundings { log_dir: "/".as_ref(), now: clock::now(), waiting: &Default::default() };
    view::job(JobRow::planned("abc".into(), spec, around.now), None, &around)
}

#[cfg(test)]
pub fn failure() -> Notice {
    let job = Job {
        state: nexus_api::jobs::State::Failed,
        reason: Some("exit".into()),
        detail: Some("it exited with code 1".into()),
        exit_code: Some(1),
        tags: vec!["a".into(), "b".into()],
        runtime_seconds: Some(184.2),
        ..job()
    };
    Notice { event: About::Failure, job: Some(job), last_line: Some("ValueError: no".into()), ..test("box") }
}
