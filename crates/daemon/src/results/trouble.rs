//! Why results could not be copied, in words that name the path.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error("{} cannot be read: {}", path.display(), plain(source))]
    Read { path: PathBuf, source: io::Error },
    #[error("{} cannot be written: {}", path.display(), plain(source))]
    Write { path: PathBuf, source: io::Error },
    #[error("{} does not exist, and nothing there has a name that begins so", path.display())]
    Missing { path: PathBuf },
    #[error("{} leads out of the job's folder {}", path.display(), folder.display())]
    LeadsOut { path: PathBuf, folder: PathBuf },
    #[error("{} is a symbolic link that leads nowhere", path.display())]
    LeadsNowhere { path: PathBuf },
    #[error("{} is a symbolic link that leads out of {}", path.display(), folder.display())]
    LinkOut { path: PathBuf, folder: PathBuf },
    #[error("{} is {what}, and no file that can be copied", path.display())]
    Special { path: PathBuf, what: &'static str },
    #[error("{} and {} would both become {}", one.display(), other.display(), name.display())]
    SameName { one: PathBuf, other: PathBuf, name: PathBuf },
    #[error("{} contains the folder that it is to be copied to, {}", path.display(), to.display())]
    Within { path: PathBuf, to: PathBuf },
    #[error("{} is no folder", path.display())]
    NoFolder { path: PathBuf },
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
