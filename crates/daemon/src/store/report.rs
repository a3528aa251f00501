//! Sums over many jobs, made where the rows are: specs are not read for them.

use nexus_api::report::{By, Group, Tag};
use nexus_core::time::Time;
use rusqlite::params;

use super::StoreError;
use super::read::{Filter, Reader};

/// Milliseconds in an hour.
const HOUR: f64 = 3_600_000.0;

/// GPUs × milliseconds over all attempts of a job; ?2 is now. A part counts as that part; what shares by memory alone
/// counts whole, since nobody knows which part that is.
const GPU_MS: &str = "(SELECT total(
        CASE gpus WHEN '' THEN 0 ELSE length(gpus) - length(replace(gpus, ',', '')) + 1 END
        * CASE WHEN milli > 0 THEN milli / 1000.0 ELSE 1.0 END
        * max(coalesce(runs.ended_at, ?2) - runs.started_at, 0))
    FROM runs WHERE runs.n = jobs.n AND runs.started_at IS NOT NULL)";

impl Reader<'_> {
    /// `only`: among the jobs of these numbers.
    pub fn sums(&self, by: By, filter: &Filter, only: Option<&[i64]>, now: Time) -> Result<Vec<Group>, StoreError> {
        let (key, join) = key(by);
        let words: Vec<String> = filter.states.iter().map(|state| format!("'{}'", state.word())).collect();
        let states = match words.as_slice() {
            [] => String::new(),
            words => format!("AND state IN ({})", words.join(", ")),
        };
        let sql = format!(
            "SELECT key, count(*), total(state = 'completed'), total(state = 'failed'), total(state = 'killed'),
                    total(gpu_ms)
             FROM (SELECT {key} AS key, state, {GPU_MS} AS gpu_ms FROM jobs {join}
                   WHERE coalesce(jobs.ended_at, submitted_at) >= ?1
                   AND (?3 IS NULL OR jobs.n IN (SELECT value FROM json_each(?3))) {states} {})
             GROUP BY key ORDER BY key IS NULL, key",
            filter.narrow.sql()
        );
        let since = filter.since.map_or(i64::MIN, |time| time.0);
        let only = only.map(|numbers| serde_json::to_string(numbers).expect("numbers are plain data"));
        let count = |row: &rusqlite::Row, column: usize| Ok::<u64, rusqlite::Error>(row.get::<_, f64>(column)? as u64);
        self.db
            .prepare_cached(&sql)
            .and_then(|mut sums| {
                let group = |row: &rusqlite::Row| {
                    Ok(Group {
                        key: row.get(0)?,
                        jobs: row.get::<_, i64>(1)?.unsigned_abs(),
                        completed: count(row, 2)?,
                        failed: count(row, 3)?,
                        killed: count(row, 4)?,
                        gpu_hours: row.get::<_, f64>(5)? / HOUR,
                    })
                };
                sums.query_map(params![since, now.0, only], group)?.collect()
            })
            .map_err(|source| self.fail(source))
    }

    pub fn tags(&self) -> Result<Vec<Tag>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT tag, total(ended_at IS NULL), total(ended_at IS NOT NULL)
                 FROM tags JOIN jobs ON jobs.n = tags.n GROUP BY tag ORDER BY tag",
            )
            .and_then(|mut found| {
                let tag = |row: &rusqlite::Row| {
                    let (live, ended): (f64, f64) = (row.get(1)?, row.get(2)?);
                    Ok(Tag { tag: row.get(0)?, live: live as u64, ended: ended as u64 })
                };
                found.query_map([], tag)?.collect()
            })
            .map_err(|source| self.fail(source))
    }
}

/// What is grouped by, and the table it stands in where that is another.
fn key(by: By) -> (&'static str, &'static str) {
    match by {
        By::Sweep => ("(SELECT sweeps.name FROM sweeps WHERE sweeps.n = jobs.sweep)", ""),
        By::Tag => ("tags.tag", "LEFT JOIN tags ON tags.n = jobs.n"),
        By::Machine => ("(SELECT machine FROM runs WHERE runs.n = jobs.n AND number = jobs.runs)", ""),
        By::Project => ("jobs.project", ""),
        By::Name => ("jobs.name", ""),
        By::Day => ("date(coalesce(jobs.ended_at, submitted_at) / 1000, 'unixepoch', 'localtime')", ""),
    }
}
