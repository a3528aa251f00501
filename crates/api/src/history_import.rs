//! Ended jobs of an export on their way into this home's history, each under its own id.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::edit::LineError;

/// Lines of one request. They are written in one transaction, for which everybody else waits.
pub const MOST_LINES: usize = 10_000;

/// Answer to `POST /v1/history?first_line=N`, whose body is lines of [`Exported`](crate::export::Exported) jobs that
/// have ended, as they stand in the file from line N on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakenOver {
    /// Jobs that are in the history now and were not before.
    pub taken: u64,
    /// Jobs that were there; they stay as they are.
    pub known: u64,
    /// Lines that were left out, and why.
    pub refused: Vec<LineError>,
}
