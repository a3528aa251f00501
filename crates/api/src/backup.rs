//! Copies of the database: `nexus backup`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /v1/backups`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeBackup {
    /// A file that does not exist yet, with its absolute path. Without it the copy goes into `backups/` of the home, is named by
    /// the time, and is deleted when `retention.backups` newer ones are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// A copy of the database. It holds what the database holds: environments and variables, with their secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backup {
    pub path: String,
    pub bytes: u64,
    pub made_at: String,
}
