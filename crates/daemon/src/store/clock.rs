//! The wall clock is set while runs are on their way: what is stored of their times moves with it.

use rusqlite::params;

use super::write::Writer;

impl Writer<'_> {
    /// Runs that have not ended, and waits that are not over. What has ended stays as it was written.
    pub(super) fn clock_set(&mut self, by_ms: i64) -> rusqlite::Result<()> {
        for (_, at) in self.begun.values_mut() {
            *at = at.shifted(by_ms);
        }
        self.run(
            "UPDATE runs SET planned_at = planned_at + ?1, started_at = started_at + ?1
             WHERE ended_at IS NULL
             AND n IN (SELECT n FROM jobs WHERE ended_at IS NULL AND state IN ('starting', 'running'))",
            params![by_ms],
        )?;
        self.run(
            "UPDATE jobs SET started_at = started_at + ?1 WHERE ended_at IS NULL AND state IN ('starting', 'running')",
            params![by_ms],
        )?;
        let waits = "UPDATE jobs SET not_before = not_before + ?1
                     WHERE ended_at IS NULL AND state IN ('queued', 'held') AND not_before IS NOT NULL";
        self.run(waits, params![by_ms]).map(drop)
    }
}
