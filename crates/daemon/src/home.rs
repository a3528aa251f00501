//! The folder the service lives in: made, locked, and known to be ours.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_node::lock_holder::{self, Signature};
use nexus_node::{own_file, run_file, socket_folder, sockets};
use rustix::fs::FlockOperation;

/// Under this much free space no new job is taken, so that the ends of running ones still find room.
pub const DISK_RESERVE: u64 = 8 << 20;

/// A service that starts or was killed, and its launcher, are past their moments within this time.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_AGAIN: Duration = Duration::from_millis(2);

/// Held for the life of the service: one service a home.
pub struct HomeLock {
    file: File,
}

impl HomeLock {
    /// The same lock in another hand: it is free when all have let go.
    pub fn share(&self) -> std::io::Result<File> {
        self.file.try_clone()
    }

    /// To write into the file of the lock, without a hold on the lock.
    pub fn signer(home: &Home) -> std::io::Result<Signer> {
        Ok(Signer { file: own_file::open_to_write(&home.lock())? })
    }
}

/// Writes down who holds the lock and where that one listens.
pub struct Signer {
    file: File,
}

impl Signer {
    /// A client whose environment leads it elsewhere finds the service by this.
    pub fn sign(&self, socket: &Path) {
        let text = format!("{}\n{}\n", std::process::id(), socket.display());
        // Only a help: the lock itself is what counts. Whoever reads between the two has whole lines.
        let written = self.file.write_all_at(text.as_bytes(), 0);
        let _ = written.and_then(|()| self.file.set_len(text.len() as u64));
    }
}

/// Who has the lock says so in two lines.
const MAX_LOCK_BYTES: u64 = 16 << 10;

/// Makes the folders and takes the lock; none if another service answers here.
pub fn claim(home: &Home) -> Result<Option<HomeLock>, Problem> {
    make_private(&home.dir)?;
    let file = own_file::open_lock(&home.lock()).map_err(|error| unusable(&home.dir, error))?;
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(HomeLock { file })),
            Err(rustix::io::Errno::WOULDBLOCK) if is_answered(home) => return Ok(None),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(LOCK_AGAIN),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(Problem::NotStarted { error: held(home) });
            }
            Err(error) => return Err(unusable(&home.dir, error.into())),
        }
    }
}

/// Whether a service of this user listens, where this environment leads or where it says itself. One with more clients than it
/// can take does too.
fn is_answered(home: &Home) -> bool {
    let signed = lock_holder::signature(&home.dir).map(|signature| signature.socket);
    [home.socket()].into_iter().chain(signed).any(|socket| match sockets::connect(&socket) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    })
}

/// Who has the lock that nobody answers for.
fn held(home: &Home) -> String {
    let lock = home.lock();
    match lock_holder::holder(&home.dir) {
        Some(holder) => {
            let Signature { pid, socket } = &holder.signature;
            let (lock, socket) = (lock.display(), socket.display());
            format!(
                "a service (pid {pid}) holds {lock} and does not answer on {socket}; nexus stop ends it, its jobs go on"
            )
        }
        None => {
            let text = own_file::read_text(&lock, MAX_LOCK_BYTES).unwrap_or_default();
            let pid = text.lines().next().unwrap_or("unknown");
            format!("{} is held by process {pid}, which does not answer", lock.display())
        }
    }
}

/// A folder that only its owner can enter; one of somebody else is refused.
pub fn make_private(dir: &Path) -> Result<(), Problem> {
    make_lasting(dir).map_err(|error| unusable(dir, error))?;
    let found = std::fs::metadata(dir).map_err(|error| unusable(dir, error))?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        let error = std::io::Error::other("it belongs to another user");
        return Err(unusable(dir, error));
    }
    if found.mode() & 0o077 != 0 {
        // A folder that others use is not closed to them behind their backs.
        let is_ours = ["nexus.db", "config.toml"].iter().any(|name| dir.join(name).exists())
            || std::fs::read_dir(dir).is_ok_and(|mut all| all.next().is_none());
        if !is_ours {
            let error = std::io::Error::other("it holds other files and is open to others; name a folder of its own");
            return Err(unusable(dir, error));
        }
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(dir, private).map_err(|error| unusable(dir, error))?;
    }
    Ok(())
}

/// Makes a folder and puts its name on the disk, and those of the folders made above it: whatever is synced inside, a
/// power cut would take with the name.
fn make_lasting(dir: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|folder| !folder.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    for above in missing.iter().filter_map(|folder| folder.parent()) {
        // A folder that may be entered but not read cannot be synced, nor can one on some file systems.
        let _ = run_file::open_folder(above).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

/// The home with the folder of its sockets, which is made where there is none. For the holder of its lock.
pub fn with_socket_folder(home: &Home) -> Result<Home, Problem> {
    socket_folder::make(home).map_err(|error| {
        let error = format!("there is no safe folder for its sockets: {error}");
        Problem::NotStarted { error }
    })
}

fn unusable(path: &Path, error: std::io::Error) -> Problem {
    Problem::HomeUnusable { path: path.display().to_string(), error: error.to_string() }
}

/// Room that is given up when the disk is full, so that jobs can still be ended and their ends written down.
pub struct Reserve {
    path: PathBuf,
}

/// Many thousands of ends.
const RESERVE_BYTES: u64 = 4 << 20;

impl Reserve {
    pub fn of(home: &Home) -> Reserve {
        Reserve { path: home.dir.join("reserve") }
    }

    /// Sets the room aside where there is plenty. Where it cannot be done it is not: the disk may never fill.
    pub fn keep(&self) {
        if self.path.exists() || disk_free(&self.path).is_none_or(|free| free < 4 * RESERVE_BYTES) {
            return;
        }
        let made = run_file::create_new(&self.path);
        let kept = made.is_ok_and(|file| {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES).is_ok()
        });
        if !kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Gives the room up; whether there was any.
    pub fn spend(&self) -> bool {
        std::fs::remove_file(&self.path).is_ok()
    }
}

/// Bytes an ordinary user can still write where `path` lies.
pub fn disk_free(path: &Path) -> Option<u64> {
    #[cfg(test)]
    if let Some(free) = crate::pretend::disk_free() {
        return Some(free);
    }
    // Mostly it is there.
    let stat = match rustix::fs::statvfs(path) {
        Ok(stat) => stat,
        Err(_) => rustix::fs::statvfs(path.ancestors().find(|dir| dir.is_dir())?).ok()?,
    };
    // Without inodes no file can be made; some file systems count none.
    let has_inodes = stat.f_favail > 0 || stat.f_files == 0;
    Some(if has_inodes { stat.f_bavail.saturating_mul(stat.f_frsize) } else { 0 })
}
