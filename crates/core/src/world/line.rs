//! Those that may start, in their order: by what they need, and by how long they take as far as is known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::World;
use crate::ids::JobId;
use crate::job::{Job, Place};
use crate::learned::Learned;
use crate::request::Same;

/// Jobs of one request, by how long they take.
pub(crate) type Bucket = BTreeMap<Span, BTreeSet<(Place, JobId)>>;

/// How long jobs take at most, as far as is known before they run: those of one span have one answer, or nearly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Span {
    /// They say so: fewer milliseconds than two to this power, and at least half as many.
    Said(u32),
    /// As long as others of this command took.
    Past(Same),
    Unknown,
}

impl Span {
    fn said(limit: Duration) -> Span {
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Span::Said(u64::BITS - millis.leading_zeros())
    }

    /// Whether some of it may take no longer than `window`.
    pub fn may_be_within(self, window: Duration) -> bool {
        matches!((self, Span::said(window)), (Span::Said(one), Span::Said(most)) if one <= most)
    }
}

impl World {
    /// A run reached so much memory, and took so long if it completed.
    pub fn learn(&mut self, same: Same, peak_mib: u32, took: Option<Duration>) {
        if self.is_played || peak_mib == 0 && took.is_none() {
            return;
        }
        let known = self.learned.entry(same).or_default();
        let is_first = known.runs == 0 && took.is_some();
        known.add(peak_mib, took);
        if is_first {
            self.again(self.unknown.of(same.0).collect());
        }
    }

    /// How long these take is known from now on: they stand elsewhere.
    pub(super) fn again(&mut self, ids: Vec<JobId>) {
        for id in ids {
            let job = self.jobs[&id].clone();
            self.drop_from(&job, Span::Unknown);
            self.line_up(&job);
        }
    }

    /// The longest that a run of the job takes: as it says, or as it was so far.
    pub fn longest(&self, job: &Job) -> Option<Duration> {
        job.limit.or_else(|| self.learned.get(&job.same)?.longest())
    }

    /// What earlier runs of a command were like.
    pub fn learned(&self, same: Same) -> Learned {
        self.learned.get(&same).copied().unwrap_or_default()
    }

    pub(super) fn span(&self, job: &Job) -> Span {
        match job.limit {
            Some(limit) => Span::said(limit),
            None if self.learned.get(&job.same).is_some_and(|known| known.runs > 0) => Span::Past(job.same),
            None => Span::Unknown,
        }
    }

    /// Its place among those that may start.
    pub(super) fn line_up(&mut self, job: &Job) {
        let span = self.span(job);
        if span == Span::Unknown {
            self.unknown.add(job.same.0, job.id);
        }
        self.ready.entry(job.request).or_default().entry(span).or_default().insert((job.place, job.id));
    }

    /// The first of those that may start, among jobs that ask for as much as this one and take as long.
    pub fn first_like(&self, job: &Job) -> Option<JobId> {
        self.ready.get(&job.request)?.get(&self.span(job))?.first().map(|(_, id)| *id)
    }

    pub(super) fn drop_from(&mut self, job: &Job, span: Span) {
        if span == Span::Unknown {
            self.unknown.remove(job.same.0, job.id);
        }
        let Some(bucket) = self.ready.get_mut(&job.request) else { return };
        if let Some(jobs) = bucket.get_mut(&span) {
            jobs.remove(&(job.place, job.id));
            if jobs.is_empty() {
                bucket.remove(&span);
            }
        }
        if bucket.is_empty() {
            self.ready.remove(&job.request);
        }
    }
}
