//! Which of many are there already. Asked for in order and many at a time: what a statement costs by itself is felt where a hundred thousand jobs come at once.

use nexus_core::ids::JobId;
use rusqlite::types::FromSql;
use rusqlite::{Connection, Row, ToSql};

use super::{Store, StoreError};

/// Asked for with one statement.
const AT_ONCE: usize = 64;

/// All ids that jobs ever had.
const IDS: &str = "it IN (SELECT id FROM jobs) OR it IN (SELECT id FROM retired)";

impl Store {
    /// Those of the ids that were ever given, in their order.
    pub fn known_ids(&self, ids: &[JobId]) -> Result<Vec<JobId>, StoreError> {
        let texts: Vec<&str> = ids.iter().map(JobId::as_str).collect();
        let found: Vec<String> = known(&self.db, &texts, IDS).map_err(|source| self.read_error(source))?;
        Ok(found.iter().filter_map(|id| id.parse().ok()).collect())
    }

    /// Ids that were ever given, from one to another.
    pub fn ids_between(&self, (first, last): (JobId, JobId)) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM jobs WHERE id BETWEEN ?1 AND ?2
                   UNION ALL SELECT id FROM retired WHERE id BETWEEN ?1 AND ?2";
        let id = |row: &Row| Ok(row.get_ref(0)?.as_str()?.parse::<JobId>().ok());
        self.db
            .prepare_cached(sql)
            .and_then(|mut found| found.query_map([first.as_str(), last.as_str()], id)?.collect())
            .map(|ids: Vec<Option<JobId>>| ids.into_iter().flatten().collect())
            .map_err(|source| self.read_error(source))
    }
}

pub(super) fn known<T: ToSql, F: FromSql>(db: &Connection, asked: &[T], which: &str) -> rusqlite::Result<Vec<F>> {
    let mut found = Vec::new();
    let (many, few) = asked.split_at(asked.len() - asked.len() % AT_ONCE);
    for (some, at_once) in [(many, AT_ONCE), (few, 1)].into_iter().filter(|(some, _)| !some.is_empty()) {
        let mut statement = db.prepare_cached(&sql(at_once, which))?;
        for part in some.chunks(at_once) {
            let rows = statement.query_map(rusqlite::params_from_iter(part), |row| row.get(0))?;
            found.extend(rows.collect::<rusqlite::Result<Vec<F>>>()?);
        }
    }
    Ok(found)
}

pub(super) fn sql(at_once: usize, which: &str) -> String {
    let values = vec!["(?)"; at_once].join(", ");
    format!("WITH asked (it) AS (VALUES {values}) SELECT it FROM asked WHERE {which}")
}
