//! What runs of each command were like.

use std::time::Duration;

use nexus_core::learned::Learned;
use nexus_core::request::Same;
use rusqlite::{Connection, Row, params};

/// Adds what further runs of a command were like.
pub(super) fn add(db: &Connection, same: Same, more: &Learned) -> rusqlite::Result<()> {
    if *more == Learned::default() {
        return Ok(());
    }
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    db.prepare_cached(
        "INSERT INTO learned (same, peak_mib, runs, total_ms, longest_ms) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (same) DO UPDATE SET
             peak_mib = max(peak_mib, excluded.peak_mib), runs = runs + excluded.runs,
             total_ms = total_ms + excluded.total_ms, longest_ms = max(longest_ms, excluded.longest_ms)",
    )?
    .execute(params![same.0, more.peak_mib, more.runs, millis(more.total), millis(more.longest)])?;
    Ok(())
}

pub(super) fn all(db: &Connection) -> rusqlite::Result<Vec<(Same, Learned)>> {
    let learned = |row: &Row| {
        let millis = |place| row.get::<_, i64>(place).map(|it| Duration::from_millis(it.unsigned_abs()));
        let (total, longest) = (millis(3)?, millis(4)?);
        Ok((Same(row.get(0)?), Learned { peak_mib: row.get(1)?, runs: row.get(2)?, total, longest }))
    };
    db.prepare("SELECT same, peak_mib, runs, total_ms, longest_ms FROM learned")?.query_map([], learned)?.collect()
}
