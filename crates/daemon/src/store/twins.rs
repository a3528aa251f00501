//! Which jobs are identical. Those that ended are found by an index. Those that have not are known in memory: an index of
//! them would go all over its pages for each new job, and cost more than all else that is stored of it.

use std::cell::OnceCell;

use nexus_api::jobs::JobSpec;
use nexus_core::alike::Alike;
use nexus_core::ids::JobId;
use rusqlite::{Connection, Row, params};

use super::known::known;
use super::read::{JOB, JobRow, Reader};
use super::{Store, StoreError};
use crate::identity::{Identity, are_identical};

/// Not by `IN`: that would gather the identities of all ended jobs first.
const ENDED: &str = "EXISTS (SELECT 1 FROM jobs WHERE identity = it AND ended_at IS NOT NULL)";

const LIVE: &str = "SELECT identity, id FROM jobs WHERE ended_at IS NULL AND identity IS NOT NULL";

/// What follows [`JOB`] for jobs of an identity.
const LIVE_TWINS: &str = "WHERE identity = ?1 AND jobs.ended_at IS NULL";
const ENDED_TWINS: &str = "WHERE identity = ?1 AND jobs.ended_at IS NOT NULL AND state = 'completed'";

/// Identities of jobs that have not ended. Nobody asks for them in a home where nothing is imported: they are read when
/// someone does, and kept in step with the disk from then on.
#[derive(Default)]
pub(super) struct Live(OnceCell<Alike>);

/// What a commit changes about them.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Came(Identity, JobId),
    Gone(Identity, JobId),
}

impl Live {
    /// They are on disk now.
    pub fn follow(&mut self, changes: &[Change]) {
        let Some(jobs) = self.0.get_mut() else { return };
        for change in changes {
            match *change {
                Change::Came(identity, job) => jobs.add(identity.0, job),
                Change::Gone(identity, job) => jobs.remove(identity.0, job),
            }
        }
    }

    fn read(&self, db: &Connection) -> rusqlite::Result<&Alike> {
        if let Some(jobs) = self.0.get() {
            return Ok(jobs);
        }
        let one = |row: &Row| Ok((Identity(row.get(0)?), row.get_ref(1)?.as_str()?.parse::<JobId>().ok()));
        let mut jobs = Alike::default();
        for found in db.prepare(LIVE)?.query_map([], one)? {
            if let (identity, Some(job)) = found? {
                jobs.add(identity.0, job);
            }
        }
        Ok(self.0.get_or_init(|| jobs))
    }
}

impl Store {
    /// Those of the identities that some job has, in order.
    pub fn known_identities(&self, identities: &[Identity]) -> Result<Vec<Identity>, StoreError> {
        let numbers: Vec<i64> = identities.iter().map(|identity| identity.0).collect();
        let fail = |source| self.read_error(source);
        let ended: Vec<i64> = known(&self.db, &numbers, ENDED).map_err(fail)?;
        let live = self.live.read(&self.db).map_err(fail)?;
        let live = identities.iter().copied().filter(|identity| live.has(identity.0));
        let mut found: Vec<Identity> = ended.into_iter().map(Identity).chain(live).collect();
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Jobs identical to this one that are queued, run or have completed, as far as the disk knows.
    pub fn twins(&self, identity: Identity, spec: &JobSpec) -> Result<Vec<JobRow>, StoreError> {
        let live = self.live.read(&self.db).map_err(|source| self.read_error(source))?;
        let reader = Reader::new(&self.db, &self.path);
        let mut rows = reader.ended_twins(identity, spec)?;
        for job in live.of(identity.0) {
            rows.extend(reader.job(job.as_str())?.filter(|row| are_identical(&row.spec, spec)));
        }
        rows.sort_unstable_by_key(|row| row.n);
        Ok(rows)
    }
}

impl Reader<'_> {
    /// The same for one who has not the memory of the store: every job that has not ended is looked at.
    pub fn twins(&self, identity: Identity, spec: &JobSpec) -> Result<Vec<JobRow>, StoreError> {
        let mut rows = self.ended_twins(identity, spec)?;
        let live = self.jobs(&format!("{JOB} {LIVE_TWINS}"), params![identity.0])?;
        rows.extend(live.into_iter().filter(|row| are_identical(&row.spec, spec)));
        rows.sort_unstable_by_key(|row| row.n);
        Ok(rows)
    }

    /// Those that have completed.
    fn ended_twins(&self, identity: Identity, spec: &JobSpec) -> Result<Vec<JobRow>, StoreError> {
        let mut rows = self.jobs(&format!("{JOB} {ENDED_TWINS}"), params![identity.0])?;
        rows.retain(|row| are_identical(&row.spec, spec));
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::command::Command;
    use nexus_core::event::Event;
    use nexus_core::job::{End, Failure};
    use nexus_core::time::Time;

    use super::super::new_jobs::tests::batch;
    use super::super::{Batch, EditedRow};
    use super::*;
    use crate::identity::identity;

    fn id(number: u64) -> JobId {
        JobId::from_number(4, number)
    }

    fn spec(number: u64) -> JobSpec {
        JobSpec::new(Command::Shell(format!("train {number}")), "/".into())
    }

    fn ended(number: u64, end: End) -> Batch {
        Batch { events: vec![Event::JobEnded { job: id(number), end, at: Time(1) }], ..Batch::default() }
    }

    fn edited(number: u64, spec: JobSpec) -> Batch {
        let row = EditedRow { spec, secret_names: vec![], env: None };
        let events = vec![Event::Edited { job: id(number), needs: None }];
        Batch { events, edited: [(id(number), row)].into(), ..Batch::default() }
    }

    /// Of each number the jobs that are said to be identical: as the store knows it, which must be as a reader finds it.
    fn twins(store: &Store, numbers: std::ops::Range<u64>) -> Vec<Vec<String>> {
        let ids = |rows: Vec<JobRow>| rows.into_iter().map(|row| row.id).collect::<Vec<_>>();
        let found = |number| {
            let spec = spec(number);
            let known = ids(store.twins(identity(&spec), &spec).unwrap());
            let read = Reader::new(&store.db, &store.path).twins(identity(&spec), &spec).unwrap();
            assert_eq!(known, ids(read), "{number}");
            known
        };
        numbers.map(found).collect()
    }

    fn known(store: &Store, numbers: std::ops::Range<u64>) -> usize {
        let mut identities: Vec<Identity> = numbers.map(|number| identity(&spec(number))).collect();
        identities.sort_unstable();
        store.known_identities(&identities).unwrap().len()
    }

    #[test]
    fn identical_jobs_are_found_whatever_became_of_them_and_however_it_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        let mut store = Store::open(&path, false).unwrap();
        // What comes before anybody asks is read then, and what comes later is followed.
        store.commit(&batch(0..6)).unwrap();
        assert_eq!(known(&store, 0..20), 6);
        store.commit(&batch(6..10)).unwrap();
        store.commit(&ended(0, End::Completed)).unwrap();
        store.commit(&ended(1, End::Failed(Failure::Exit { code: 1 }))).unwrap();
        store.commit(&ended(9, End::Completed)).unwrap();
        // Now there are two of 3.
        store.commit(&edited(2, spec(3))).unwrap();
        let expected: Vec<Vec<String>> = [&[0][..], &[], &[], &[2, 3], &[4], &[9], &[]]
            .map(|jobs| jobs.iter().map(|number| id(*number).to_string()).collect())
            .into();
        for life in ["the first", "the next"] {
            let mut found = twins(&store, 0..5);
            found.extend(twins(&store, 9..11));
            assert_eq!(found, expected, "{life}");
            assert_eq!(known(&store, 0..20), 9, "{life}: one that failed counts as known, and 2 is gone");
            store = Store::open(&path, false).unwrap();
        }
    }

    #[test]
    fn nobody_goes_through_all_that_ended() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let ended = super::super::known::sql(1, ENDED);
        for (sql, by) in [
            (ended, "USING INDEX jobs_by_identity (identity=?)"),
            (format!("{JOB} {ENDED_TWINS}"), "USING INDEX jobs_by_identity (identity=?)"),
            (format!("{JOB} {LIVE_TWINS}"), "SCAN jobs USING INDEX jobs_live"),
            (LIVE.to_string(), "SCAN jobs USING INDEX jobs_live"),
        ] {
            let mut explained = store.db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let parameters = vec![0; explained.parameter_count()];
            let steps = explained.query_map(rusqlite::params_from_iter(parameters), |row| row.get(3)).unwrap();
            let steps: Vec<String> = steps.collect::<Result<_, _>>().unwrap();
            let of_jobs: Vec<&String> = steps.iter().filter(|step| step.contains(" jobs ")).collect();
            assert!(of_jobs.len() == 1 && of_jobs[0].ends_with(by), "{sql}: {steps:?}");
        }
    }

    #[test]
    fn nothing_is_known_of_what_was_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        store.commit(&batch([3].into_iter())).unwrap();
        assert_eq!(known(&store, 0..10), 1);
        assert!(store.commit(&batch(0..10)).is_err(), "one of them is there");
        assert_eq!(known(&store, 0..10), 1);
    }

    #[test]
    fn what_specs_have_in_common_goes_with_the_last_that_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let uses = |store: &Store| -> Option<i64> {
            let mut rows = store.db.prepare("SELECT uses FROM specs").unwrap();
            let uses = rows.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<Vec<_>>>().unwrap();
            assert!(uses.len() <= 1);
            uses.first().copied()
        };
        store.commit(&batch(0..40)).unwrap();
        store.commit(&batch(40..41)).unwrap();
        assert_eq!(uses(&store), Some(41));
        // One that comes and is changed in one go never counts for long.
        let mut both = batch(41..42);
        let Batch { events, edited: rows, .. } = edited(41, spec(50));
        both.events.extend(events);
        both.edited = rows;
        store.commit(&both).unwrap();
        store.commit(&edited(7, spec(51))).unwrap();
        assert_eq!(uses(&store), Some(40));
        let parent = id(99);
        let orphaned = Event::Orphaned { job: id(8), parent };
        store.commit(&Batch { events: vec![orphaned], ..Batch::default() }).unwrap();
        assert_eq!(uses(&store), Some(39));
        for number in 0..42 {
            store.commit(&Batch { forgotten: vec![id(number)], ..Batch::default() }).unwrap();
            assert_eq!(uses(&store).is_some(), number < 40, "{number}");
        }
        let left: i64 = store.db.query_row("SELECT count(*) FROM envs", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0, "their environment goes too");
    }
}
