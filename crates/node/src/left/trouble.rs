//! Why results could not be copied, in words that name the path.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::paths;

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    #[error("{} cannot be read: {}", path.display(), plain(source))]
    Read {
        #[serde(with = "paths")]
        path: PathBuf,
        #[serde(with = "as_number")]
        source: io::Error,
    },
    #[error("{} cannot be written: {}", path.display(), plain(source))]
    Write {
        #[serde(with = "paths")]
        path: PathBuf,
        #[serde(with = "as_number")]
        source: io::Error,
    },
    #[error("{} does not exist, and nothing there has a name that begins so", path.display())]
    Missing {
        #[serde(with = "paths")]
        path: PathBuf,
    },
    #[error("{} leads out of the job's folder {}", path.display(), folder.display())]
    LeadsOut {
        #[serde(with = "paths")]
        path: PathBuf,
        #[serde(with = "paths")]
        folder: PathBuf,
    },
    #[error("{} is a symbolic link that leads nowhere", path.display())]
    LeadsNowhere {
        #[serde(with = "paths")]
        path: PathBuf,
    },
    #[error("{} is a symbolic link that leads out of {}", path.display(), folder.display())]
    LinkOut {
        #[serde(with = "paths")]
        path: PathBuf,
        #[serde(with = "paths")]
        folder: PathBuf,
    },
    #[error("{} is {what}, and no file that can be copied", path.display())]
    Special {
        #[serde(with = "paths")]
        path: PathBuf,
        what: Cow<'static, str>,
    },
    #[error("{} and {} would both become {}", one.display(), other.display(), name.display())]
    SameName {
        #[serde(with = "paths")]
        one: PathBuf,
        #[serde(with = "paths")]
        other: PathBuf,
        #[serde(with = "paths")]
        name: PathBuf,
    },
    #[error("{} contains the folder that it is to be copied to, {}", path.display(), to.display())]
    Within {
        #[serde(with = "paths")]
        path: PathBuf,
        #[serde(with = "paths")]
        to: PathBuf,
    },
    #[error("{} is no folder", path.display())]
    NoFolder {
        #[serde(with = "paths")]
        path: PathBuf,
    },
    #[error(
        "{count} of its RESULTS lines were too many or too long to be kept; NEXUS_RESULTS_DIR has room for any number"
    )]
    TooMany { count: u64 },
    #[error("stopped")]
    GivenUp,
}

impl Trouble {
    /// Whether another try may go better without anybody doing something to the files.
    pub fn may_pass(&self) -> bool {
        let (Trouble::Read { source, .. } | Trouble::Write { source, .. }) = self else { return false };
        let Some(errno) = source.raw_os_error().map(Errno::from_raw_os_error) else { return false };
        let full = [Errno::NOSPC, Errno::DQUOT, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::NOLCK];
        let busy = [Errno::AGAIN, Errno::INTR, Errno::BUSY, Errno::IO, Errno::STALE, Errno::TIMEDOUT, Errno::NOTCONN];
        let away = [Errno::HOSTDOWN, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::NETUNREACH, Errno::REMOTEIO];
        full.contains(&errno) || busy.contains(&errno) || away.contains(&errno)
    }
}

/// Without the number of the error, which says nothing to a reader.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_string(),
        None => text,
    }
}

/// An error of the system on the line: its number, or where it has none its words.
mod as_number {
    use std::io;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Told {
        Number(i32),
        Words(String),
    }

    pub fn serialize<S: Serializer>(error: &io::Error, serializer: S) -> Result<S::Ok, S::Error> {
        error.raw_os_error().map_or_else(|| Told::Words(error.to_string()), Told::Number).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<io::Error, D::Error> {
        Ok(match Told::deserialize(deserializer)? {
            Told::Number(number) => io::Error::from_raw_os_error(number),
            Told::Words(words) => io::Error::other(words),
        })
    }
}
