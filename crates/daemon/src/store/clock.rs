//! The wall clock is set while runs are on their way: what is stored of their times moves with it.

use nexus_core::event::Event;
use rusqlite::params;

use super::write::Writer;

impl Writer<'_> {
    /// Runs that have not ended, and waits that are not over. What has ended stays as it was written. The World has the
    /// same rules.
    pub(super) fn clock_set(&mut self, event: &Event) -> rusqlite::Result<()> {
        let Event::ClockSet { by_ms, latest_start, latest_retry } = event else { return Ok(()) };
        for (_, at) in self.begun.values_mut().filter(|(_, at)| at.shifted(*by_ms) <= *latest_start) {
            *at = at.shifted(*by_ms);
        }
        self.run(
            "UPDATE runs SET planned_at = planned_at + ?1, started_at = started_at + ?1
             WHERE ended_at IS NULL
             AND n IN (SELECT n FROM jobs WHERE ended_at IS NULL AND state IN ('starting', 'running'))
             AND max(planned_at, coalesce(started_at, planned_at)) + ?1 <= ?2",
            params![by_ms, latest_start.0],
        )?;
        self.run(
            "UPDATE jobs SET started_at =
                 (SELECT started_at FROM runs WHERE runs.n = jobs.n AND runs.number = jobs.runs)
             WHERE ended_at IS NULL AND state IN ('starting', 'running')",
            [],
        )?;
        let waits = "UPDATE jobs SET not_before = min(not_before + ?1, max(not_before, ?2))
                     WHERE ended_at IS NULL AND state IN ('queued', 'held') AND not_before IS NOT NULL";
        self.run(waits, params![by_ms, latest_retry.0]).map(drop)
    }
}
