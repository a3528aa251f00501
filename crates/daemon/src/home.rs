//! The folder the service lives in: made, locked, and known to be ours.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use rustix::fs::FlockOperation;

/// Under this much free space no new job is taken, so that the ends of running ones still find room.
pub const DISK_RESERVE: u64 = 8 << 20;

/// Held for the life of the service: one service a home.
pub struct HomeLock {
    _file: File,
}

/// Makes the folders and takes the lock; none if another service holds it.
pub fn claim(home: &Home) -> Result<Option<HomeLock>, Problem> {
    make_private(&home.dir)?;
    if home.socket_dir() != home.dir {
        make_private(home.socket_dir())?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(home.lock())
        .map_err(|error| unusable(&home.dir, error))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(HomeLock { _file: file })),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(unusable(&home.dir, error.into())),
    }
}

/// A folder that only its owner can enter; one of somebody else is refused.
fn make_private(dir: &Path) -> Result<(), Problem> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| unusable(dir, error))?;
    let found = std::fs::metadata(dir).map_err(|error| unusable(dir, error))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        let error = std::io::Error::other("it belongs to another user");
        return Err(unusable(dir, error));
    }
    if found.mode() & 0o077 != 0 {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(dir, private).map_err(|error| unusable(dir, error))?;
    }
    Ok(())
}

fn unusable(path: &Path, error: std::io::Error) -> Problem {
    Problem::HomeUnusable { path: path.display().to_string(), error: error.to_string() }
}

/// Bytes an ordinary user can still write where `path` lies.
pub fn disk_free(path: &Path) -> Option<u64> {
    let dir = path.ancestors().find(|dir| dir.is_dir())?;
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
