//! What a new format needs of old rows and SQL alone cannot tell.

use rusqlite::Transaction;

use super::spec::StoredSpec;
use crate::identity::identity;

/// The identity of every job. One whose spec cannot be read has none.
pub fn identities(db: &Transaction) -> rusqlite::Result<()> {
    let mut found = Vec::new();
    let mut specs = db.prepare("SELECT n, spec FROM jobs")?;
    let mut rows = specs.query([])?;
    while let Some(row) = rows.next()? {
        if let Ok(stored) = serde_json::from_str::<StoredSpec>(row.get_ref(1)?.as_str()?) {
            found.push((row.get::<_, i64>(0)?, identity(&stored.spec)));
        }
    }
    let mut fill = db.prepare("UPDATE jobs SET identity = ?2 WHERE n = ?1")?;
    for (n, identity) in found {
        fill.execute([n, identity.0])?;
    }
    Ok(())
}
