//! Events as a client hears them (`GET /v1/events`, server-sent).

use serde::{Deserialize, Serialize};

use crate::jobs::State;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Rises by one with every event of this service process.
    pub number: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// A job is in this state now (again, if it was moved).
    Job {
        id: String,
        state: State,
    },
    Queue {
        paused: bool,
    },
    Machine {
        name: String,
    },
    /// Events were missed: read anew what you need.
    Missed,
    /// The service goes down.
    Stopping,
}
