//! What a submitter should know of jobs that were taken.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::GpuAmount;

/// Something of a submission that was taken otherwise than one may think.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum Note {
    /// A rule asks for more than one GPU and not for whole ones.
    RoundedUp { rule: String, asked: f64, gpus: GpuAmount },
    /// Of a service that knows more.
    #[serde(other)]
    Other,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Note::RoundedUp { rule, asked, gpus } => {
                write!(f, "{asked} GPUs by the rule {rule} are rounded up to {gpus}")
            }
            Note::Other => f.write_str("the service has a note that this nexus cannot read"),
        }
    }
}
