//! When a job is expected to start and to end, and how sure that is: `by 14:05` at the latest, `~14:05` about then.

use jiff::Zoned;
use nexus_api::jobs::{Expected, Job};

use super::time;

/// Of one that waits; empty where nobody knows.
pub fn start(job: &Job, now: &Zoned) -> String {
    let waits = job.expected.as_ref().filter(|_| job.waiting.is_some());
    waits.map(|expected| sure(expected, &expected.start, now)).unwrap_or_default()
}

/// Of one that waits or runs.
pub fn end(job: &Job, now: &Zoned) -> Option<String> {
    let expected = job.expected.as_ref()?;
    Some(sure(expected, expected.end.as_ref()?, now))
}

fn sure(expected: &Expected, at: &str, now: &Zoned) -> String {
    let clock = time::clock(at, now);
    if expected.at_latest { format!("by {clock}") } else { format!("~{clock}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn what_is_sure_and_what_is_not() {
        let now = samples::now();
        let mut job = samples::queued("abc");
        assert_eq!((start(&job, &now), end(&job, &now)), (String::new(), None));
        let (from, to) = ("2024-10-24T15:50:00Z".to_string(), "2024-10-24T16:50:00Z".to_string());
        job.expected = Some(Expected { start: from.clone(), end: Some(to), at_latest: true });
        job.waiting = Some(nexus_api::jobs::Waiting::Next);
        assert_eq!((start(&job, &now), end(&job, &now)), ("by 17:50".into(), Some("by 18:50".into())));
        job.expected = Some(Expected { start: from, end: None, at_latest: false });
        assert_eq!((start(&job, &now), end(&job, &now)), ("~17:50".into(), None));
    }
}
