//! New jobs on their way into their table: many in one statement, since what a statement costs by itself is felt where a
//! hundred thousand come at once.

use nexus_core::event::NewJob;
use nexus_core::ids::{JobId, SweepId};
use nexus_core::time::Time;
use rusqlite::{CachedStatement, Statement};

use super::batch::NewRow;
use super::together::Together;

/// Measured: fewer cost more, and twice as many are no faster.
const AT_ONCE: usize = 16;

/// Parameters that the rows of a statement have in common, and those of each row.
const IN_COMMON: usize = 9;
const OWN: usize = 6;

/// Who gives rows their numbers: the largest that is there and one more is found without a search, where that is the
/// number it should be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbered {
    BySqlite,
    ByUs,
}

/// Those that are not in their table yet. Whoever reads it, or writes to what is there, [puts them in](Self::put) first.
pub(super) struct NewJobs<'a> {
    waiting: Vec<Row<'a>>,
    /// The number of the last that went in, if any did.
    last: Option<i64>,
    many: Option<CachedStatement<'a>>,
    one: Option<CachedStatement<'a>>,
    /// A spec that jobs have in common, and how many came with it that are not counted yet.
    uses: (i64, i64),
}

struct Row<'a> {
    n: i64,
    new: &'a NewJob,
    row: &'a NewRow,
    in_common: InCommon,
}

/// What jobs that go in at once have in common, beside what their specs have.
#[derive(Clone, Copy, PartialEq, Eq)]
struct InCommon {
    of: Numbers,
    sweep: Option<SweepId>,
    priority: i32,
    held: bool,
    at: Time,
}

/// Of what it shares with other jobs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbers {
    pub env: i64,
    pub secrets: Option<i64>,
    /// Its name and its project are those of all that have it.
    pub spec: i64,
}

impl<'a> NewJobs<'a> {
    pub fn new() -> NewJobs<'a> {
        NewJobs { waiting: Vec::with_capacity(AT_ONCE), last: None, many: None, one: None, uses: (0, 0) }
    }

    pub fn add(
        &mut self,
        db: &'a Together<'a>,
        n: i64,
        (new, row): (&'a NewJob, &'a NewRow),
        of: Numbers,
    ) -> rusqlite::Result<()> {
        let in_common = InCommon { of, sweep: row.sweep, priority: new.priority, held: new.held, at: new.at };
        if self.waiting.first().is_some_and(|first| first.in_common != in_common) {
            self.insert(db)?;
        }
        if self.uses.0 != of.spec {
            self.count(db)?;
        }
        self.uses = (of.spec, self.uses.1 + 1);
        self.waiting.push(Row { n, new, row, in_common });
        if self.waiting.len() == AT_ONCE { self.insert(db) } else { Ok(()) }
    }

    pub fn put(&mut self, db: &'a Together<'a>) -> rusqlite::Result<()> {
        self.insert(db)?;
        self.count(db)
    }

    fn insert(&mut self, db: &'a Together<'a>) -> rusqlite::Result<()> {
        let Some(first) = self.waiting.first() else { return Ok(()) };
        let follows = self.last.is_some_and(|last| last + 1 == first.n);
        let (statement, rows, by) = match self.waiting.len() {
            AT_ONCE if follows => (&mut self.many, AT_ONCE, Numbered::BySqlite),
            _ => (&mut self.one, 1, Numbered::ByUs),
        };
        let statement = match statement {
            Some(statement) => statement,
            none => none.insert(db.prepare_cached(&sql(rows, by))?),
        };
        first.bind_common(statement)?;
        for rows in self.waiting.chunks(rows) {
            for (place, row) in rows.iter().enumerate() {
                row.bind_own(statement, IN_COMMON + place * OWN)?;
            }
            statement.raw_execute()?;
        }
        self.last = self.waiting.last().map(|last| last.n);
        debug_assert_eq!(self.last, Some(db.last_insert_rowid()));
        self.waiting.clear();
        Ok(())
    }

    /// A spec is there as long as a job has it.
    fn count(&mut self, db: &'a Together<'a>) -> rusqlite::Result<()> {
        let (spec, uses) = std::mem::take(&mut self.uses);
        if uses > 0 {
            db.prepare_cached("UPDATE specs SET uses = uses + ?2 WHERE n = ?1")?.execute([spec, uses])?;
        }
        Ok(())
    }
}

impl Row<'_> {
    fn bind_common(&self, statement: &mut Statement) -> rusqlite::Result<()> {
        let Row { row, in_common: InCommon { of, sweep, priority, held, at }, .. } = self;
        let common = &row.spec.common;
        statement.raw_bind_parameter(1, if *held { "held" } else { "queued" })?;
        statement.raw_bind_parameter(2, &common.name)?;
        statement.raw_bind_parameter(3, &common.project)?;
        statement.raw_bind_parameter(4, priority)?;
        statement.raw_bind_parameter(5, of.env)?;
        statement.raw_bind_parameter(6, of.secrets)?;
        statement.raw_bind_parameter(7, at.0)?;
        statement.raw_bind_parameter(8, of.spec)?;
        statement.raw_bind_parameter(9, sweep.map(|SweepId(sweep)| sweep))
    }

    /// To the parameters that follow the first so many.
    fn bind_own(&self, statement: &mut Statement, before: usize) -> rusqlite::Result<()> {
        let Row { n, new, row, .. } = self;
        statement.raw_bind_parameter(before + 1, n)?;
        statement.raw_bind_parameter(before + 2, JobId::as_str(&new.id))?;
        statement.raw_bind_parameter(before + 3, row.spec.command())?;
        statement.raw_bind_parameter(before + 4, row.spec.own())?;
        statement.raw_bind_parameter(before + 5, new.needs.same.0)?;
        statement.raw_bind_parameter(before + 6, row.identity.0)
    }
}

/// For so many rows. A job's turn is its number, whoever gives it.
///
/// `OR FAIL`: rows that came before one that fails stay, and go with the transaction. Without it each statement would
/// have to be undone by itself, and SQLite keeps a copy of every page that it touches: twenty times the bytes of the jobs.
fn sql(rows: usize, numbered: Numbered) -> String {
    let is_ours = numbered == Numbered::ByUs;
    let common: Vec<String> = (1..=IN_COMMON).map(|parameter| format!("?{parameter}")).collect();
    let values = (0..rows).map(|row| {
        let first = IN_COMMON + row * OWN + 1;
        let own: Vec<String> = (first..first + OWN).map(|parameter| format!("?{parameter}")).collect();
        let number = if is_ours { format!("?{first}, ") } else { String::new() };
        format!("({}, {number}{})", common.join(", "), own.join(", "))
    });
    let number = if is_ours { "n, " } else { "" };
    let values: Vec<String> = values.collect();
    format!(
        "INSERT OR FAIL INTO jobs (state, name, project, place_priority, env, secrets, submitted_at, shared, sweep,
                                   {number}turn, id, command, spec, same, identity)
         VALUES {}",
        values.join(", ")
    )
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use nexus_api::command::Command;
    use nexus_api::jobs::JobSpec;
    use nexus_core::event::Event;
    use nexus_core::time::Time;

    use super::super::{Batch, JobEnv, NewSpec, Store};
    use super::*;
    use crate::identity::identity;

    /// New jobs, each with its own command.
    pub(in crate::store) fn batch(numbers: impl Iterator<Item = u64>) -> Batch {
        let mut batch = Batch::default();
        let env = Arc::new(JobEnv::default());
        for number in numbers {
            let id = JobId::from_number(4, number);
            let spec = JobSpec::new(Command::Shell(format!("train {number}")), "/".into());
            let row =
                NewRow { identity: identity(&spec), spec: NewSpec::of(spec, None), env: env.clone(), sweep: None };
            let new = NewJob { id, needs: Arc::default(), sweep: None, priority: 0, held: false, at: Time(0) };
            batch.events.push(Event::Submitted(new));
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

    /// What somebody who reads the database finds of new jobs, and the store's own numbers.
    fn rows(store: &Store) -> (Vec<(i64, String, i64)>, u64) {
        let mut statement = store.db.prepare("SELECT n, id, turn FROM jobs ORDER BY n").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        (rows.map(Result::unwrap).collect(), store.jobs_taken())
    }

    fn jobs_of(batch: &Batch) -> Vec<NewJob> {
        batch
            .events
            .iter()
            .map(|event| if let Event::Submitted(new) = event { new.clone() } else { unreachable!() })
            .collect()
    }

    #[test]
    fn those_that_are_begun_with_are_kept_with_the_rest_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| Store::open(&dir.path().join(name), false).unwrap();
        let (mut begun, mut plain) = (open("begun.db"), open("plain.db"));
        let many = 3 * AT_ONCE as u64 + 5;
        let (first, mut second) = (batch(0..many), batch(many..2 * many));
        begun.begin(&jobs_of(&first), &first.new).unwrap();
        let other = open("begun.db");
        assert_eq!(rows(&other).0, [], "nobody sees them yet");
        begun.commit(&first).unwrap();
        plain.commit(&first).unwrap();
        assert_eq!(rows(&begun), rows(&plain));
        // What follows of the same batch finds them, and more new ones come after them.
        let held = *second.new.keys().last().unwrap();
        begun.begin(&jobs_of(&second), &second.new).unwrap();
        let more = batch(2 * many..2 * many + 3);
        second.events.push(Event::Held { job: held });
        second.events.extend(more.events);
        second.new.extend(more.new);
        begun.commit(&second).unwrap();
        plain.commit(&second).unwrap();
        assert_eq!(rows(&begun), rows(&plain));
        assert_eq!(begun.state(held).unwrap(), plain.state(held).unwrap());
        // One that is there: nothing was begun, and the commit says so.
        let bad = batch((2 * many..3 * many).rev());
        assert!(begun.begin(&jobs_of(&bad), &bad.new).is_err());
        assert!(begun.commit(&bad).is_err());
        // What follows fails: nothing is left of those before.
        let mut torn = batch(4 * many..5 * many);
        begun.begin(&jobs_of(&torn), &torn.new).unwrap();
        torn.events.extend(batch(0..1).events);
        torn.new.extend(batch(0..1).new);
        assert!(begun.commit(&torn).is_err());
        assert_eq!(rows(&begun), rows(&plain));
        let good = batch(6 * many..7 * many);
        begun.commit(&good).unwrap();
        plain.commit(&good).unwrap();
        assert_eq!(rows(&begun), rows(&plain));
    }

    #[test]
    fn the_number_of_a_forgotten_job_is_not_given_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let many = 3 * AT_ONCE as u64;
        store.commit(&batch(0..many)).unwrap();
        let newest = (many - 5..many).map(|number| JobId::from_number(4, number));
        store.commit(&Batch { forgotten: newest.collect(), ..Batch::default() }).unwrap();
        store.commit(&batch(many..2 * many)).unwrap();
        let numbers = "SELECT n, turn FROM jobs ORDER BY n";
        let mut statement = store.db.prepare(numbers).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let numbers: Vec<(i64, i64)> = rows.map(Result::unwrap).collect();
        let kept = (0..many - 5).chain(many..2 * many).map(|number| number as i64 + 1).map(|number| (number, number));
        assert_eq!(numbers, kept.collect::<Vec<_>>());
    }

    #[test]
    fn those_that_are_known_are_found_among_many() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        let stored = batch((0..200).step_by(3));
        store.commit(&stored).unwrap();
        let ids: Vec<JobId> = (0..200).map(|number| JobId::from_number(4, number)).collect();
        assert_eq!(store.known_ids(&ids).unwrap(), stored.new.keys().copied().collect::<Vec<_>>());
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
