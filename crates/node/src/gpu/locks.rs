//! The lock of each GPU between services, of different users too: a file named by the GPU's UUID in a folder that
//! everybody may write to. A shim holds it (`flock`) for as long as its run has processes; the kernel lets go of it
//! when the shim dies. Runs that have a GPU to themselves lock it exclusively, runs of shares together.
//!
//! Looking takes no lock where the kernel's list of locks is whole. Where it is not, an attempt to lock must tell:
//! that has the lock for an instant if nobody else does, for which everybody else has patience.
//!
//! Others may put anything into that folder: symbolic links are not followed, opening never blocks, files are opened for reading
//! only and never created over existing ones (which `fs.protected_regular` forbids), and nothing is believed of their content.
//! Where the folder, or the file of one GPU, cannot be used, jobs run without that lock, and every reading says so:
//! docs/design/0013-gpu-locks-among-strangers.md.

use std::fmt;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nexus_api::run_dir::gpu_is_held;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::fs::{fchmod, flock, fstat, linkat, mkdirat, openat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::{LockHolder, owners};
use crate::system_file;
use crate::{processes, users};

pub const FOLDER: &str = "/tmp/nexus-gpus";
pub const FOLDER_VARIABLE: &str = "NEXUS_GPU_LOCKS";

/// Whoever looks at a lock has it for an instant; longer than this only a holder does.
const PATIENCE: Duration = Duration::from_millis(100);

/// One who looks tries so often, a moment apart: another who looks is gone by then, a holder is not.
const LOOKS: usize = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Shortest time between two waits for the same lock.
const FREE_AGAIN: Duration = Duration::from_millis(5);

/// How often the kernel's list is read for a lock that may have been left out of it, and how long a list is all there:
/// a line less than the smallest page.
const READS: usize = 4;
const SURELY_ONE_PAGE: usize = 4096 - 256;

/// How often a lock file that was removed before it could be locked is made again.
const ATTEMPTS: usize = 10;

/// Where GPUs are locked.
#[derive(Clone, Debug)]
pub struct Locks {
    folder: PathBuf,
}

/// Whether others may hold the same GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Alone,
    /// With others that share it.
    Shared,
}

/// Locks that are held until this is dropped, or why there are none.
#[derive(Debug)]
pub struct Held {
    files: Vec<File>,
    /// Set where a GPU cannot be locked at all: the first reason.
    pub without: Option<Unusable>,
}

/// Another has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub uuid: String,
    pub holder: LockHolder,
}

/// Why GPUs cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("GPUs are not locked: cannot make the folder {}: {source}", folder.display())]
    Make { folder: PathBuf, source: io::Error },
    #[error("GPUs are not locked: cannot open the folder {}: {source}", folder.display())]
    Open { folder: PathBuf, source: io::Error },
    #[error("GPUs are not locked: {} is not sticky (mode {mode:o}); type: chmod 1777 {}", folder.display(), folder.display())]
    NotSticky { folder: PathBuf, mode: u32 },
    #[error("the GPU is not locked: cannot open {}{}: {source}", path.display(), what.in_brackets())]
    File { path: PathBuf, what: Found, source: io::Error },
    #[error("the GPU is not locked: {} is {what}, not a file", path.display())]
    NoFile { path: PathBuf, what: Found },
}

/// What lies at the name of a lock, as far as it can be told without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found(Option<(&'static str, u32)>);

impl Found {
    fn at(folder: &File, name: &str) -> Found {
        let kind = |mode| match FileType::from_raw_mode(mode) {
            FileType::RegularFile => "a file",
            FileType::Fifo => "a FIFO",
            FileType::Directory => "a folder",
            FileType::Symlink => "a symbolic link",
            FileType::Socket => "a socket",
            _ => "a device",
        };
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
        Found(found.map(|stat| (kind(stat.st_mode), stat.st_uid)))
    }

    fn in_brackets(&self) -> String {
        self.0.map_or(String::new(), |_| format!(" ({self})"))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.0 {
            Some((kind, user)) => write!(out, "{kind} of user {}", users::name_of(user)),
            None => out.write_str("gone"),
        }
    }
}

/// What a look at a GPU's lock finds.
#[derive(Debug, Default)]
pub struct Look {
    /// Who holds it, alone or with others: of several, one.
    pub holder: Option<LockHolder>,
    /// Why no run can lock it.
    pub error: Option<Unusable>,
}

impl Unusable {
    /// Whether it is merely not there yet.
    fn is_missing(&self) -> bool {
        match self {
            Unusable::Open { source, .. } | Unusable::File { source, .. } => source.kind() == io::ErrorKind::NotFound,
            Unusable::Make { .. } | Unusable::NotSticky { .. } | Unusable::NoFile { .. } => false,
        }
    }
}

impl Held {
    /// How many GPUs are locked.
    pub fn count(&self) -> usize {
        self.files.len()
    }
}

impl fmt::Display for Taken {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&gpu_is_held(&self.uuid, self.holder.user.as_deref(), self.holder.pid))
    }
}

impl Locks {
    pub fn at(folder: impl Into<PathBuf>) -> Locks {
        Locks { folder: folder.into() }
    }

    /// The folder that `NEXUS_GPU_LOCKS` names, or the one all services share.
    pub fn of_environment() -> Locks {
        let named = std::env::var_os(FOLDER_VARIABLE).filter(|value| !value.is_empty());
        Locks::at(named.map_or_else(|| FOLDER.into(), PathBuf::from))
    }

    /// The open folder, for whatever else services share. Made where it is missing.
    pub fn open(&self) -> io::Result<File> {
        self.open_or_make_folder().map_err(io::Error::other)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether GPUs can be locked, for those who want to tell. Makes the folder where it is missing.
    pub fn check(&self) -> Result<(), Unusable> {
        self.open_or_make_folder().map(drop)
    }

    /// Locks all of these GPUs that can be locked at all; none if another holds one of them.
    pub fn hold(&self, uuids: &[String], how: Hold) -> Result<Held, Taken> {
        // Everybody goes in the same order, so that of two who want the same GPUs one gets them.
        let mut uuids: Vec<&String> = uuids.iter().collect();
        uuids.sort();
        uuids.dedup();
        let (mut files, mut without) = (Vec::with_capacity(uuids.len()), None);
        if uuids.is_empty() {
            return Ok(Held { files, without });
        }
        let folder = match self.open_or_make_folder() {
            Ok(folder) => folder,
            Err(unusable) => return Ok(Held { files, without: Some(unusable) }),
        };
        for uuid in uuids {
            match self.lock(&folder, uuid, how) {
                Ok(Some(file)) => files.push(file),
                Ok(None) => {
                    let holder = self.holder(uuid).unwrap_or(LockHolder { pid: None, user: None });
                    return Err(Taken { uuid: uuid.clone(), holder });
                }
                // The others are of use all the same.
                Err(unusable) => without = without.or(Some(unusable)),
            }
        }
        Ok(Held { files, without })
    }

    /// Who holds a GPU now. Where that cannot be told nobody does, as for [`Locks::hold`].
    pub fn holder(&self, uuid: &str) -> Option<LockHolder> {
        self.look(uuid).holder
    }

    /// Who holds a GPU now, or why nobody can. What is not there yet is made by the first run, and no error.
    pub fn look(&self, uuid: &str) -> Look {
        let opened = self.open_folder().and_then(|folder| self.open_lock(&folder, &file_name(uuid)));
        match opened {
            Ok((file, stat)) => Look { holder: holder_of(&file, &stat), error: None },
            Err(error) if error.is_missing() => Look::default(),
            Err(error) => Look { holder: None, error: Some(error) },
        }
    }

    /// Returns when the lock of this GPU could be had for an instant, or at once where there is no such lock. Others have patience
    /// for that instant.
    pub fn wait_until_free(&self, uuid: &str) {
        // A holder that lets go and takes it again all the time must not keep a processor busy.
        std::thread::sleep(FREE_AGAIN);
        let opened = self.open_folder().and_then(|folder| self.open_lock(&folder, &file_name(uuid)));
        let Ok((file, _)) = opened else { return };
        while flock(&file, FlockOperation::LockExclusive) == Err(Errno::INTR) {}
        // Before the file is closed: others wait for it.
        let _ = flock(&file, FlockOperation::Unlock);
    }

    /// `None` if another has it.
    fn lock(&self, folder: &File, uuid: &str, how: Hold) -> Result<Option<File>, Unusable> {
        let name = file_name(uuid);
        let unusable = |source: io::Error| self.no_lock(folder, &name, source);
        for _ in 0..ATTEMPTS {
            let (file, stat) = match self.open_lock(folder, &name) {
                Err(Unusable::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    make_file(folder, &name).map_err(unusable)?;
                    continue;
                }
                other => other?,
            };
            if !wait_for_lock(&file, how).map_err(unusable)? {
                return Ok(None);
            }
            // Who clears old files out of /tmp may have removed it meanwhile: a lock that nobody else finds.
            let still = statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW);
            if still.is_ok_and(|now| (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino)) {
                return Ok(Some(file));
            }
        }
        Err(unusable(io::Error::other("it is removed again and again")))
    }

    /// Opens a lock file that is there, if it is an ordinary one. Never blocks, whatever somebody put there.
    fn open_lock(&self, folder: &File, name: &str) -> Result<(File, Stat), Unusable> {
        let file = open_file(folder, name).map_err(|source| self.no_lock(folder, name, source))?;
        let stat = fstat(&file).map_err(|errno| self.no_lock(folder, name, errno.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((file, stat)),
            _ => Err(Unusable::NoFile { path: self.folder.join(name), what: Found::at(folder, name) }),
        }
    }

    fn no_lock(&self, folder: &File, name: &str, source: io::Error) -> Unusable {
        let (path, what) = (self.folder.join(name), Found::at(folder, name));
        match source.raw_os_error() {
            // A symbolic link, and a socket.
            Some(libc::ELOOP | libc::ENXIO) => Unusable::NoFile { path, what },
            _ => Unusable::File { path, what, source },
        }
    }

    fn open_or_make_folder(&self) -> Result<File, Unusable> {
        match self.open_folder() {
            Err(Unusable::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                make_folder(&self.folder).map_err(|source| Unusable::Make { folder: self.folder.clone(), source })?;
                self.open_folder()
            }
            other => other,
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a folder, and no link: O_DIRECTORY, O_NOFOLLOW")]
    fn open_folder(&self) -> Result<File, Unusable> {
        let open = |source: io::Error| Unusable::Open { folder: self.folder.clone(), source };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(CWD, &self.folder, flags, Mode::empty()).map_err(|errno| open(errno.into()))?;
        let mode = fstat(&folder).map_err(|errno| open(errno.into()))?.st_mode;
        // Without it anybody could remove the files that others lock.
        if !Mode::from_raw_mode(mode).contains(Mode::SVTX) {
            return Err(Unusable::NotSticky { folder: self.folder.clone(), mode: mode & 0o7777 });
        }
        Ok(File::from(folder))
    }
}

/// The UUID, of which nothing but letters, digits and dashes reaches the file system.
fn file_name(uuid: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    uuid.chars().map(safe).take(128).collect()
}

/// Never creates: that may be forbidden for a file of somebody else's, even for root.
#[expect(clippy::disallowed_methods, reason = "anybody's file: O_NONBLOCK, O_NOFOLLOW, only locked")]
fn open_file(folder: &File, name: &str) -> io::Result<File> {
    // Without waiting, in case somebody put a pipe there.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(File::from(openat(folder, name, flags, Mode::empty())?))
}

/// Makes a lock file that everybody can open. It gets its name when it is ready, and takes nobody else's place.
#[expect(clippy::disallowed_methods, reason = "O_EXCL makes a regular file or fails")]
fn make_file(folder: &File, name: &str) -> io::Result<()> {
    let temporary = temporary_name(name);
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, &temporary, flags, Mode::from_raw_mode(0o644))?;
    // Whatever the umask is.
    let made = fchmod(&file, Mode::from_raw_mode(0o644))
        .and_then(|()| linkat(folder, &temporary, folder, name, AtFlags::empty()));
    unlinkat(folder, &temporary, AtFlags::empty())?;
    match made {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[expect(clippy::disallowed_methods, reason = "a folder, and no link: O_DIRECTORY, O_NOFOLLOW")]
fn make_folder(folder: &Path) -> io::Result<()> {
    let name = folder.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = folder.with_file_name(temporary_name(&name));
    mkdirat(CWD, &temporary, Mode::from_raw_mode(0o700))?;
    let opened = openat(CWD, &temporary, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let made = opened
        .and_then(|opened| fchmod(opened, Mode::from_raw_mode(0o1777)))
        .and_then(|()| renameat_with(CWD, &temporary, CWD, folder, RenameFlags::NOREPLACE));
    match made {
        Ok(()) => Ok(()),
        Err(errno) => {
            unlinkat(CWD, &temporary, AtFlags::REMOVEDIR)?;
            // Another was quicker.
            if errno == Errno::EXIST { Ok(()) } else { Err(errno.into()) }
        }
    }
}

fn temporary_name(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Nobody can put something at a name that nobody can guess.
    let chance = RandomState::new().hash_one(NEXT.fetch_add(1, Ordering::Relaxed));
    format!(".{name}.{}.{chance:016x}", std::process::id())
}

fn holder_of(file: &File, stat: &Stat) -> Option<LockHolder> {
    let locks = list_with(stat, read_locks);
    // In another pid namespace than the first the list leaves out what processes elsewhere hold.
    let whole = locks.as_deref().filter(|_| processes::are_all_seen());
    if whole.is_some_and(|locks| listed(locks, stat).is_empty()) || !is_locked(file) {
        return None;
    }
    // Without the list the holder has no name, which is all that is lost.
    let pid = locks.and_then(|locks| holder_in(&locks, stat));
    Some(LockHolder { pid, user: pid.and_then(owners::user_of) })
}

fn wait_for_lock(file: &File, how: Hold) -> io::Result<bool> {
    let until = Instant::now() + PATIENCE;
    let operation = match how {
        Hold::Alone => FlockOperation::NonBlockingLockExclusive,
        Hold::Shared => FlockOperation::NonBlockingLockShared,
    };
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Whether somebody has it. An attempt that fails takes nothing; one that succeeds is over with this file.
fn is_locked(file: &File) -> bool {
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {}
            Ok(()) | Err(_) => {
                // Before the name is looked up: others wait for it.
                let _ = flock(file, FlockOperation::NonBlockingUnlock);
                return false;
            }
        }
    }
    true
}

/// The kernel's list, with the locks on this file if there are any; None where it cannot be read.
///
/// It comes a page at a time, and goes on by number: a lock that ends between two pages moves those after it up by one,
/// and the first of the next page is left out. What is missing in a list of several pages is looked for again.
fn list_with(stat: &Stat, mut read: impl FnMut() -> Option<String>) -> Option<String> {
    let mut list = read()?;
    for _ in 1..READS {
        if list.len() < SURELY_ONE_PAGE || !listed(&list, stat).is_empty() {
            break;
        }
        list = read()?;
    }
    Some(list)
}

/// The process that has a file or folder locked, as far as the kernel shows it here.
pub fn holder(path: &Path) -> Option<u32> {
    holder_in(&read_locks()?, &rustix::fs::stat(path).ok()?)
}

fn read_locks() -> Option<String> {
    system_file::read_text("/proc/locks").ok()
}

/// A line of that list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed<'a> {
    place: &'a str,
    pid: u32,
    is_exclusive: bool,
}

/// The locks on a file. Some file systems tell another device here than there: then the number of the file must do,
/// and others may be meant.
fn listed<'a>(locks: &'a str, stat: &Stat) -> Vec<Listed<'a>> {
    let (major, minor) = (libc::major(stat.st_dev), libc::minor(stat.st_dev));
    let exact = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let by_number = format!(":{}", stat.st_ino);
    let of_number: Vec<Listed> =
        locks.lines().filter_map(parse_lock).filter(|one| one.place.ends_with(&by_number)).collect();
    let of_file: Vec<Listed> = of_number.iter().filter(|one| one.place == exact).copied().collect();
    if of_file.is_empty() { of_number } else { of_file }
}

/// The process that holds the file: the one that holds it alone, or the first of several.
fn holder_in(locks: &str, stat: &Stat) -> Option<u32> {
    let held = listed(locks, stat);
    let found = held.iter().find(|one| one.is_exclusive).or(held.first());
    found.map(|one| one.pid).filter(|pid| *pid != 0)
}

/// `7: FLOCK  ADVISORY  WRITE 4312 08:01:1234 0 EOF`
fn parse_lock(line: &str) -> Option<Listed<'_>> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    // Those who wait have an arrow here.
    fields.next().filter(|kind| *kind == "FLOCK")?;
    let is_exclusive = fields.nth(1)? == "WRITE";
    let pid = fields.next()?.parse().ok()?;
    Some(Listed { place: fields.next()?, pid, is_exclusive })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_names_the_holder() {
        // SAFETY: the structure holds numbers only.
        let mut stat: Stat = unsafe { std::mem::zeroed() };
        (stat.st_dev, stat.st_ino) = (libc::makedev(8, 17), 1234);
        let locks = "1: POSIX  ADVISORY  WRITE 1 08:11:1234 0 EOF\n2: FLOCK  ADVISORY  WRITE 2 08:12:1234 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 4312 08:11:1234 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 5 08:11:1234 0 EOF\n\
            4: FLOCK  ADVISORY  READ 6 08:11:1234 0 EOF\n";
        assert_eq!(holder_in(locks, &stat), Some(4312), "before the one that shares, and the one that waits");
        let shared = "1: FLOCK  ADVISORY  READ 6 08:11:1234 0 EOF\n2: FLOCK  ADVISORY  READ 7 08:11:1234 0 EOF\n";
        assert_eq!((holder_in(shared, &stat), listed(shared, &stat).len()), (Some(6), 2));
        assert_eq!(listed("1: POSIX  ADVISORY  WRITE 1 08:11:1234 0 EOF\n", &stat), [], "a lock of another kind");
        stat.st_dev = libc::makedev(0, 40);
        assert_eq!(holder_in(locks, &stat), Some(2), "by number where no device fits");
        stat.st_ino = 234;
        assert_eq!(holder_in(locks, &stat), None);
        assert_eq!(holder_in("", &stat), None);
    }

    #[test]
    fn a_lock_that_a_long_list_left_out_is_looked_for_again() {
        // SAFETY: the structure holds numbers only.
        let mut stat: Stat = unsafe { std::mem::zeroed() };
        (stat.st_dev, stat.st_ino) = (libc::makedev(8, 17), 1234);
        let others = "1: FLOCK  ADVISORY  WRITE 9 08:11:9 0 EOF\n".repeat(100);
        let whole = format!("{others}2: FLOCK  ADVISORY  WRITE 4312 08:11:1234 0 EOF\n");
        let found_in = |lists: &[&str]| {
            let mut left = lists.iter().map(|list| list.to_string());
            let list = list_with(&stat, || left.next()).unwrap();
            (holder_in(&list, &stat), left.len())
        };
        assert_eq!(found_in(&[&others, &others, &whole, ""]), (Some(4312), 1));
        assert_eq!(found_in(&[&others[..2000], &whole]), (None, 1), "one page is all there is");
        assert_eq!(found_in(&[&whole, ""]), (Some(4312), 1));
        assert_eq!(found_in(&[&others, &others, &others, &others, &whole]), (None, 1), "it ends");
    }

    #[test]
    fn a_uuid_cannot_leave_the_folder() {
        assert_eq!(file_name("GPU-0f1e-2d"), "GPU-0f1e-2d");
        assert_eq!(file_name("../../etc/passwd"), "______etc_passwd");
    }

    #[test]
    fn the_holder_is_named_as_far_as_it_is_known() {
        let taken = |uuid: &str, pid, user: Option<&str>| {
            let holder = LockHolder { pid, user: user.map(String::from) };
            Taken { uuid: uuid.into(), holder }.to_string()
        };
        let long = "GPU-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert_eq!(taken(long, Some(4312), Some("alice")), "GPU GPU-0f1e2d3c… is held by alice's nexus (pid 4312)");
        assert_eq!(taken("GPU-1", None, None), "GPU GPU-1 is held by another nexus");
    }
}
