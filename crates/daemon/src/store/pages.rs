//! Jobs page by page: the next begins behind the last row of the one before, however long the way there is.

use nexus_api::jobs::State;
use rusqlite::params;

use super::read::{Filter, JOB, JobRow, Reader};
use super::{StoreError, narrow::literal};

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    Nothing,
    /// A waiting job: its place, and how many stand up to it.
    Waiting {
        priority: i64,
        turn: i64,
        position: u64,
    },
    /// A job that ended then.
    Ended {
        at: i64,
        n: i64,
    },
}

impl Behind {
    /// `position`: how many rows stand up to this one.
    pub fn of(row: &JobRow, position: u64) -> Behind {
        match row.ended_at {
            Some(at) => Behind::Ended { at: at.0, n: row.n },
            None => Behind::Waiting { priority: row.place.0, turn: row.place.1, position },
        }
    }

    pub fn position(&self) -> u64 {
        match self {
            Behind::Waiting { position, .. } => *position,
            Behind::Nothing | Behind::Ended { .. } => 0,
        }
    }

    pub fn text(&self) -> String {
        match self {
            Behind::Nothing => String::new(),
            Behind::Waiting { priority, turn, position } => format!("w.{priority}.{turn}.{position}"),
            Behind::Ended { at, n } => format!("e.{at}.{n}"),
        }
    }

    pub fn read(text: &str) -> Option<Behind> {
        let words: Vec<&str> = text.split('.').collect();
        match words.as_slice() {
            [""] => Some(Behind::Nothing),
            ["w", priority, turn, position] => Some(Behind::Waiting {
                priority: priority.parse().ok()?,
                turn: turn.parse().ok()?,
                position: position.parse::<u32>().ok()?.into(),
            }),
            ["e", at, n] => Some(Behind::Ended { at: at.parse().ok()?, n: n.parse().ok()? }),
            _ => None,
        }
    }
}

impl Reader<'_> {
    /// The queue in its order.
    pub fn waiting_behind(&self, behind: &Behind, filter: &Filter) -> Result<Vec<JobRow>, StoreError> {
        let (priority, turn) = match behind {
            Behind::Waiting { priority, turn, .. } => (*priority, *turn),
            Behind::Nothing | Behind::Ended { .. } => (i64::MIN, i64::MIN),
        };
        let sql = format!(
            "{JOB} WHERE jobs.ended_at IS NULL AND state IN ({}) AND (place_priority, turn) > (?1, ?2)
             AND submitted_at >= ?3 {} ORDER BY place_priority, turn LIMIT ?4",
            words(&filter.states),
            filter.narrow.sql()
        );
        self.jobs(&sql, params![priority, turn, since(filter), limit(filter)])
    }

    /// The newest first.
    pub fn ended_behind(&self, behind: &Behind, filter: &Filter) -> Result<Vec<JobRow>, StoreError> {
        let (at, n) = match behind {
            Behind::Ended { at, n } => (*at, *n),
            Behind::Nothing | Behind::Waiting { .. } => (i64::MAX, i64::MAX),
        };
        let walk = |of_state: &str| {
            format!(
                "{JOB} WHERE jobs.ended_at IS NOT NULL {of_state} AND (jobs.ended_at, jobs.n) < (?1, ?2)
                 AND jobs.ended_at >= ?3 {} ORDER BY jobs.ended_at DESC, jobs.n DESC LIMIT ?4",
                filter.narrow.sql()
            )
        };
        let parameters = || params_of(at, n, filter);
        if filter.states.len() == ENDS {
            return self.jobs(&walk(""), parameters());
        }
        // Each along an index of its own: one that is rare is not looked for among all.
        let mut rows = Vec::new();
        for state in &filter.states {
            rows.extend(self.jobs(&walk(&format!("AND state = {}", literal(state.word()))), parameters())?);
        }
        rows.sort_by_key(|row| std::cmp::Reverse((row.ended_at, row.n)));
        rows.truncate(usize::try_from(limit(filter)).unwrap_or(usize::MAX));
        Ok(rows)
    }

    /// Ids of the queue from one place to another, both among them.
    pub fn waiting_between(&self, first: (i64, i64), last: (i64, i64)) -> Result<Vec<String>, StoreError> {
        self.db
            .prepare_cached(
                "SELECT id FROM jobs WHERE ended_at IS NULL AND state IN ('queued', 'held')
                 AND (place_priority, turn) >= (?1, ?2) AND (place_priority, turn) <= (?3, ?4)
                 ORDER BY place_priority, turn",
            )
            .and_then(|mut statement| {
                statement.query_map(params![first.0, first.1, last.0, last.1], |row| row.get(0))?.collect()
            })
            .map_err(|source| self.fail(source))
    }
}

/// States that are ends.
const ENDS: usize = 3;

fn params_of(at: i64, n: i64, filter: &Filter) -> [i64; 4] {
    [at, n, since(filter), limit(filter)]
}

fn since(filter: &Filter) -> i64 {
    filter.since.map_or(i64::MIN, |time| time.0)
}

fn limit(filter: &Filter) -> i64 {
    filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

fn words(states: &[State]) -> String {
    states.iter().map(|state| literal(state.word())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_are_written() {
        for behind in [
            Behind::Nothing,
            Behind::Waiting { priority: -5, turn: 7, position: 200 },
            Behind::Ended { at: 1_700_000_000_000, n: -3 },
        ] {
            assert_eq!(Behind::read(&behind.text()), Some(behind));
        }
        for text in ["x", "w.1", "w.1.2.-3", "e.1.2.3", "e.a.b", ".", "w.1.2.99999999999"] {
            assert_eq!(Behind::read(text), None, "{text}");
        }
    }
}
