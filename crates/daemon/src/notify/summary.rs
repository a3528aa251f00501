//! Many notices made one.

use std::sync::Arc;

use nexus_api::jobs::State;
use nexus_api::notify::{About, Digest, FORMAT, FailedJob, Notice};
use nexus_core::time::Time;

use super::text;
use crate::clock;

/// Failures that are named; the others are counted.
const NAMED: usize = 10;

/// One that says what all of these say; alone, a notice stays what it is. None for none.
pub fn joined(notices: &[Arc<Notice>], now: Time) -> Option<Arc<Notice>> {
    let first = match notices {
        [] => return None,
        [one] => return Some(one.clone()),
        [first, ..] => first,
    };
    let since = first.digest.as_ref().map_or(&first.at, |digest| &digest.since).clone();
    let mut digest = Digest { since, ..Digest::default() };
    for notice in notices {
        add(&mut digest, notice);
    }
    let text = text::digest(&digest, &by_the_clock(&digest.since), &first.host);
    Some(Arc::new(Notice {
        format: FORMAT,
        event: About::Digest,
        text,
        host: first.host.clone(),
        at: clock::rfc3339(now),
        job: None,
        last_line: None,
        sweep: None,
        digest: Some(digest),
        standstill: None,
    }))
}

fn add(digest: &mut Digest, notice: &Notice) {
    if let Some(inner) = &notice.digest {
        digest.started += inner.started;
        digest.completed += inner.completed;
        digest.failed += inner.failed;
        digest.killed += inner.killed;
        digest.failures.extend(inner.failures.iter().cloned());
        digest.sweeps.extend(inner.sweeps.iter().cloned());
        digest.queue_empty = inner.queue_empty;
        digest.standstill = inner.standstill.clone().or(digest.standstill.take());
    }
    // What came after the queue was empty is no part of it.
    digest.queue_empty = match notice.event {
        About::QueueEmpty => true,
        About::Start => false,
        _ => digest.queue_empty,
    };
    digest.sweeps.extend(notice.sweep.clone());
    digest.standstill = notice.standstill.clone().or(digest.standstill.take());
    let Some(job) = &notice.job else { return digest.failures.truncate(NAMED) };
    match (notice.event, job.state) {
        (About::Start, _) => digest.started += 1,
        (_, State::Completed) => digest.completed += 1,
        (_, State::Failed) => {
            digest.failed += 1;
            digest.failures.push(FailedJob {
                id: job.id.clone(),
                name: job.name.clone(),
                command: job.command.clone(),
                exit_code: job.exit_code,
                detail: job.detail.clone(),
            });
        }
        _ => digest.killed += 1,
    }
    digest.failures.truncate(NAMED);
}

/// Hours and minutes of this machine's clock.
fn by_the_clock(rfc3339: &str) -> String {
    let stamp = clock::parse(rfc3339).map(clock::log_stamp);
    stamp.and_then(|stamp| Some(stamp.get(11..16)?.to_string())).unwrap_or_else(|| rfc3339.into())
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::Job;

    use super::*;
    use crate::notify::sample;

    fn of(event: About, state: State) -> Arc<Notice> {
        let job = Job { state, ..sample::failure().job.unwrap() };
        Arc::new(Notice { event, job: Some(job), ..sample::failure() })
    }

    #[test]
    fn notices_are_counted_and_digests_too() {
        let now = clock::now();
        assert_eq!(joined(&[], now), None);
        let one = of(About::End, State::Completed);
        assert_eq!(joined(std::slice::from_ref(&one), now), Some(one.clone()));
        let failed = of(About::Failure, State::Failed);
        let empty = Arc::new(Notice { event: About::QueueEmpty, job: None, ..sample::failure() });
        let started = of(About::Start, State::Running);
        let all = [one, started, failed.clone(), of(About::End, State::Killed), empty];
        let digest = joined(&all, now).unwrap();
        let counted = digest.digest.clone().unwrap();
        assert_eq!((counted.started, counted.completed, counted.failed, counted.killed), (1, 1, 1, 1));
        assert_eq!((counted.failures[0].id.as_str(), counted.queue_empty), ("abc", true));
        assert_eq!((digest.event, &digest.host), (About::Digest, &"box".to_string()));
        let twice = joined(&[vec![digest], vec![failed; 20]].concat(), now).unwrap().digest.clone().unwrap();
        assert_eq!((twice.completed, twice.failed, twice.failures.len()), (1, 21, NAMED));
        assert_eq!(twice.since, counted.since);
    }
}
