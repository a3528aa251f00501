//! What is deleted because nobody needs it any more: `nexus gc`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /v1/gc`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Collect {
    /// Ended jobs that ended longer ago are forgotten, with all that is theirs. Without it those that `retention.jobs`
    /// names, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than_seconds: Option<u64>,
    /// Nothing is deleted: what would be is told.
    #[serde(default)]
    pub dry_run: bool,
}

/// What was deleted, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Collected {
    /// Ended jobs, with their logs, results and checkpoints on this machine.
    pub jobs: Share,
    /// Folders of logs, results and checkpoints whose jobs are not in the history.
    pub folders: Share,
    /// Copies of folders (`--sync`) that no job names.
    pub copies: Share,
    /// Copies of the database behind the newest `retention.backups`.
    #[serde(default)]
    pub backups: Share,
    /// Databases that another took the place of over 30 days ago: of before `nexus backup restore`, `nexus start --new-database`,
    /// or an update.
    #[serde(default)]
    pub databases: Share,
    /// After how many seconds ended jobs are forgotten; null where none are.
    pub older_than_seconds: Option<u64>,
}

/// How many of something, and how much room they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Share {
    pub count: u64,
    pub bytes: u64,
}

impl Collected {
    /// One for each kind of thing.
    pub fn shares(&self) -> [Share; 5] {
        [self.jobs, self.folders, self.copies, self.backups, self.databases]
    }

    pub fn is_nothing(&self) -> bool {
        self.shares().iter().all(|share| share.count == 0)
    }
}
