//! Events as a client hears them (`GET /v1/events`, server-sent).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::State;
use crate::service::Gpu;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Rises with every event, from one service to the next too; 0 of what cannot be gone on from.
    pub number: u64,
    #[serde(flatten)]
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// GPUs of a machine as they were read just now; told only to those who ask for it, without a number.
    Readings {
        machine: String,
        /// Milliseconds since 1970.
        at: i64,
        gpus: Vec<GpuReading>,
    },
    /// Events were missed: read anew what you need.
    Missed,
    /// The service goes down.
    Stopping,
}

/// What changes with every reading of a GPU; null where it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GpuReading {
    pub index: u16,
    pub load_percent: Option<u8>,
    pub used_mib: Option<u64>,
    pub temperature_c: Option<u16>,
    pub power_w: Option<u32>,
}

impl GpuReading {
    pub fn of(gpu: &Gpu) -> GpuReading {
        let Gpu { index, load_percent, used_mib, temperature_c, power_w, .. } = *gpu;
        GpuReading { index, load_percent, used_mib, temperature_c, power_w }
    }
}
