//! What is read or written together. The words that begin and end it are planned once, like all others.

use std::ops::Deref;

use rusqlite::Connection;

/// Reads that see one state of the database.
pub const READ: &str = "BEGIN";

/// It writes sooner or later: one that has read first is not waited with for another's lock.
const WRITE: &str = "BEGIN IMMEDIATE";

/// Ends what was begun, and keeps what was written.
pub const KEEP: &str = "COMMIT";

/// Says a word that has no answer.
pub fn say(db: &Connection, word: &str) -> rusqlite::Result<()> {
    db.prepare_cached(word)?.execute([]).map(drop)
}

/// What is written is written whole when it is kept, and not at all when it is let go.
pub struct Together<'a>(&'a Connection);

impl<'a> Together<'a> {
    pub fn begin(db: &'a Connection) -> rusqlite::Result<Together<'a>> {
        say(db, WRITE).map(|()| Together(db))
    }

    /// Goes on with what was begun and [stays](Together::stay).
    pub fn begun(db: &'a Connection) -> Together<'a> {
        Together(db)
    }

    /// Neither kept nor let go: somebody goes on with it.
    pub fn stay(self) {
        std::mem::forget(self);
    }

    pub fn keep(self) -> rusqlite::Result<()> {
        say(self.0, KEEP)
    }
}

impl Deref for Together<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.0
    }
}

impl Drop for Together<'_> {
    /// A word to end it that failed may have ended it all the same.
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // Whatever is left of it, a connection that cannot go back fails at the next beginning.
            let _ = say(self.0, "ROLLBACK");
        }
    }
}
