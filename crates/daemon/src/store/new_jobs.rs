//! New jobs on their way into their table: many in one statement, since what a statement costs by itself is felt where a
//! hundred thousand come at once.

use nexus_core::event::NewJob;
use nexus_core::ids::{JobId, SweepId};
use rusqlite::{CachedStatement, Statement, Transaction};

use super::write::NewRow;

/// Measured: fewer cost more, and twice as many are no faster.
const AT_ONCE: usize = 16;

const COLUMNS: usize = 15;

/// Those that are not in their table yet. Whoever reads it, or writes to what is there, [puts them in](Self::put) first.
pub(super) struct NewJobs<'a> {
    waiting: Vec<Row<'a>>,
    many: Option<CachedStatement<'a>>,
    one: Option<CachedStatement<'a>>,
}

struct Row<'a> {
    n: i64,
    new: &'a NewJob,
    row: &'a NewRow,
    of: Numbers,
}

/// Of what it shares with other jobs.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub env: i64,
    pub secrets: Option<i64>,
    pub spec: i64,
}

impl<'a> NewJobs<'a> {
    pub fn new() -> NewJobs<'a> {
        NewJobs { waiting: Vec::with_capacity(AT_ONCE), many: None, one: None }
    }

    pub fn add(
        &mut self,
        db: &'a Transaction<'a>,
        n: i64,
        (new, row): (&'a NewJob, &'a NewRow),
        of: Numbers,
    ) -> rusqlite::Result<()> {
        self.waiting.push(Row { n, new, row, of });
        if self.waiting.len() == AT_ONCE { self.put(db) } else { Ok(()) }
    }

    pub fn put(&mut self, db: &'a Transaction<'a>) -> rusqlite::Result<()> {
        let (statement, rows) = match self.waiting.len() {
            AT_ONCE => (&mut self.many, AT_ONCE),
            _ => (&mut self.one, 1),
        };
        if self.waiting.is_empty() {
            return Ok(());
        }
        let statement = match statement {
            Some(statement) => statement,
            none => none.insert(db.prepare_cached(&sql(rows))?),
        };
        for rows in self.waiting.chunks(rows) {
            for (place, row) in rows.iter().enumerate() {
                row.bind(statement, place * COLUMNS)?;
            }
            statement.raw_execute()?;
        }
        self.waiting.clear();
        Ok(())
    }
}

impl Row<'_> {
    /// To the parameters that follow the first so many.
    fn bind(&self, statement: &mut Statement, before: usize) -> rusqlite::Result<()> {
        let Row { n, new, row, of } = self;
        let spec = &row.spec;
        statement.raw_bind_parameter(before + 1, n)?;
        statement.raw_bind_parameter(before + 2, JobId::as_str(&new.id))?;
        statement.raw_bind_parameter(before + 3, if new.held { "held" } else { "queued" })?;
        statement.raw_bind_parameter(before + 4, spec.command.as_str())?;
        statement.raw_bind_parameter(before + 5, spec.own())?;
        statement.raw_bind_parameter(before + 6, &spec.common.name)?;
        statement.raw_bind_parameter(before + 7, &spec.common.project)?;
        statement.raw_bind_parameter(before + 8, new.priority)?;
        statement.raw_bind_parameter(before + 9, of.env)?;
        statement.raw_bind_parameter(before + 10, of.secrets)?;
        statement.raw_bind_parameter(before + 11, new.at.0)?;
        statement.raw_bind_parameter(before + 12, new.needs.same.0)?;
        statement.raw_bind_parameter(before + 13, row.identity.0)?;
        statement.raw_bind_parameter(before + 14, of.spec)?;
        statement.raw_bind_parameter(before + 15, row.sweep.map(|SweepId(sweep)| sweep))
    }
}

/// For so many rows. A job's turn is its number.
///
/// `OR FAIL`: rows that came before one that fails stay, and go with the transaction. Without it each statement would
/// have to be undone by itself, and SQLite keeps a copy of every page that it touches: twenty times the bytes of the jobs.
fn sql(rows: usize) -> String {
    let values = (0..rows).map(|row| {
        let first = row * COLUMNS + 1;
        let next: Vec<String> = (first..first + COLUMNS).map(|parameter| format!("?{parameter}")).collect();
        format!("(?{first}, {})", next.join(", "))
    });
    let values: Vec<String> = values.collect();
    format!(
        "INSERT OR FAIL INTO jobs (turn, n, id, state, command, spec, name, project, place_priority, env, secrets,
                                   submitted_at, same, identity, shared, sweep)
         VALUES {}",
        values.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nexus_api::command::Command;
    use nexus_api::jobs::JobSpec;
    use nexus_core::event::{Event, Needs};
    use nexus_core::time::Time;

    use super::super::{Batch, JobEnv, NewSpec, Store};
    use super::*;
    use crate::identity::identity;

    fn batch(numbers: impl Iterator<Item = u64>) -> Batch {
        let mut batch = Batch::default();
        let env = Arc::new(JobEnv::default());
        for number in numbers {
            let id = JobId::from_number(4, number);
            let spec = JobSpec::new(Command::Shell(format!("train {number}")), "/".into());
            let row =
                NewRow { identity: identity(&spec), spec: NewSpec::of(spec, None), env: env.clone(), sweep: None };
            let new = NewJob { id, needs: Needs::default(), sweep: None, priority: 0, held: false, at: Time(0) };
            batch.events.push(Event::submitted(new));
            batch.new.insert(id, row);
        }
        batch
    }

    #[test]
    fn one_that_cannot_be_stored_takes_all_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let has = |store: &Store, number| store.has_job(JobId::from_number(4, number).as_str()).unwrap();
        let many = 3 * AT_ONCE as u64;
        store.commit(&batch([many - 2].into_iter())).unwrap();
        assert!(store.commit(&batch(0..many)).is_err(), "one of them is there");
        assert!((0..many).all(|number| has(&store, number) == (number == many - 2)));
        store.commit(&batch(0..many - 2)).unwrap();
        assert!((0..many).all(|number| has(&store, number) == (number < many - 1)));
        assert_eq!(store.jobs_taken(), many - 1, "numbers go on without a gap");
    }

    #[test]
    fn those_that_are_known_are_found_among_many() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let stored = batch((0..200).step_by(3));
        store.commit(&stored).unwrap();
        let ids: Vec<JobId> = (0..200).map(|number| JobId::from_number(4, number)).collect();
        assert_eq!(store.known_ids(&ids).unwrap(), stored.new.keys().copied().collect::<Vec<_>>());
        let identities: Vec<_> = batch(0..200).new.values().map(|row| row.identity).collect();
        let known: Vec<_> = stored.new.values().map(|row| row.identity).collect();
        assert_eq!(store.known_identities(&identities).unwrap(), known);
    }

    #[test]
    fn a_wal_that_is_written_back_does_not_grow() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nexus.db");
        let mut store = Store::open(&path, false).unwrap();
        let mut after = |commits: std::ops::Range<u64>| {
            for number in commits {
                store.commit(&batch([number].into_iter())).unwrap();
                store.write_back();
            }
            path.with_extension("db-wal").metadata().unwrap().len()
        };
        let once = after(0..64);
        assert!(after(64..640) < 2 * once, "its pages are used again");
    }

    #[test]
    fn the_id_of_a_forgotten_job_is_not_given_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let id = JobId::from_number(4, 7);
        store.commit(&batch([7].into_iter())).unwrap();
        for _ in 0..2 {
            store.commit(&Batch { forgotten: vec![id], ..Batch::default() }).unwrap();
            assert!(!store.has_job(id.as_str()).unwrap());
            assert!(store.known_ids(&[id]).unwrap() == [id], "another job may have it");
            // Brought back from elsewhere.
            store.commit(&batch([7].into_iter())).unwrap();
        }
    }
}
