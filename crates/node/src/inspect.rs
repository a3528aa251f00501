//! Tells from its directory what became of a run. The lock on the directory is the truth about life: its shim
//! holds it from before the start until after the record, and the kernel lets go of it when the shim dies.
//!
//! ```text
//!   exit.json            -> Exited
//!   lock held            -> Alive, or Starting while `started` is blank
//!   no `started`         -> NotStarted
//!   `started` is claimed -> Claimed: nobody will ever start it
//!   else                 -> Gone: started, its shim is dead, no record
//! ```
//! A job can write a record or a claim of its own into its run directory. Neither counts while the process that has the lock is
//! titled as the shim of this run: that shim writes its record when no process of the job is left, and then exits.
//!
//! Looking takes a shared lock for an instant; a shim that meets it tries again (`shim::folder`).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nexus_api::run_dir::{EXIT, ExitRecord, FORMAT, STARTED, Started};
use nexus_core::ids::RunId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::gpu::locks;
use crate::processes::{self, Process};
use crate::run_file;

/// No record is longer. A job may have put a file of any length in its place.
const LONGEST_RECORD: u64 = 1 << 20;

/// What was found in a run's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Alive(Started),
    /// A shim has the lock and has not yet written who it is.
    Starting,
    Exited(ExitRecord),
    NotStarted,
    Claimed,
    Gone(Option<Started>),
}

#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error("failed to {operation} {}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{} has format {found}, newer than the {FORMAT} known here", path.display())]
    Newer {
        path: PathBuf,
        found: u32,
        /// Whether a shim still has the lock.
        held: bool,
    },
}

/// A marker that stands where a shim would make its own.
#[derive(Serialize, Deserialize)]
struct Claim {
    format: u32,
    claimed: bool,
}

enum Record<T> {
    Missing,
    /// There, but not (yet) of any meaning, or no file at all.
    Blank,
    Newer(u32),
    Read(T),
}

/// Looks into a run's directory, to show what is there. What its files say is believed.
pub fn inspect(dir: &Path) -> Result<Seen, InspectError> {
    look(dir, Sight::Lock)
}

/// Looks into the directory of this run, to decide on it. A record counts only if it is of this run and no shim watches the run.
pub fn inspect_run(dir: &Path, run: RunId) -> Result<Seen, InspectError> {
    look(dir, Sight::Shim(run))
}

/// Looks into the directory of a run on another machine, whose lock cannot be seen: a shim that began counts as alive.
pub fn inspect_from_afar(dir: &Path) -> Result<Seen, InspectError> {
    look(dir, Sight::Files)
}

/// What can be looked at, and is.
#[derive(Clone, Copy)]
enum Sight {
    Files,
    Lock,
    /// Who has the lock, too.
    Shim(RunId),
}

impl Sight {
    fn is_of_run(self, name: &str) -> bool {
        match self {
            Sight::Files | Sight::Lock => true,
            Sight::Shim(run) => name == run.to_string(),
        }
    }

    /// Whether a shim that lives will say what becomes of the run.
    fn is_watched(self, dir: &Path, held: bool) -> bool {
        match self {
            Sight::Files | Sight::Lock => false,
            Sight::Shim(run) => held && shim_that_holds(dir, run).is_some(),
        }
    }
}

/// The shim that watches this run and has the lock of its directory, by the kernel's list of locks.
pub fn shim_that_holds(dir: &Path, run: RunId) -> Option<Process> {
    let process = processes::stat(locks::holder(dir)?)?.process;
    processes::is_shim_of(process, &run.to_string()).unwrap_or(false).then_some(process)
}

fn look(dir: &Path, sight: Sight) -> Result<Seen, InspectError> {
    let fail = |operation, path: PathBuf| move |source| InspectError::Io { operation, path, source };
    let Some(folder) = open_folder(dir).map_err(fail("open", dir.to_owned()))? else { return Ok(Seen::NotStarted) };
    let held = match sight {
        Sight::Lock | Sight::Shim(_) => is_held(&folder).map_err(|errno| fail("lock", dir.to_owned())(errno.into()))?,
        Sight::Files => fs::symlink_metadata(dir.join(STARTED)).is_ok(),
    };
    // Read after the lock was looked at: whoever let go of it before had written its record first.
    let exit_path = dir.join(EXIT);
    match read_record::<ExitRecord>(&exit_path).map_err(fail("read", exit_path.clone()))? {
        Record::Read(record) if sight.is_of_run(&record.run) && !sight.is_watched(dir, held) => {
            return Ok(Seen::Exited(record));
        }
        Record::Newer(found) => return Err(InspectError::Newer { path: exit_path, found, held }),
        Record::Read(_) | Record::Missing | Record::Blank => {}
    }
    let started_path = dir.join(STARTED);
    let started = read_record::<Marker>(&started_path).map_err(fail("read", started_path.clone()))?;
    Ok(match (started, held) {
        (Record::Newer(found), _) => return Err(InspectError::Newer { path: started_path, found, held }),
        (Record::Read(Marker::Claim(Claim { claimed: true, .. })), held) if !sight.is_watched(dir, held) => {
            Seen::Claimed
        }
        (Record::Read(Marker::Started(started)), true) => Seen::Alive(started),
        (Record::Missing, false) => Seen::NotStarted,
        (_, true) => Seen::Starting,
        // The marker of another run names the processes of that run.
        (Record::Read(Marker::Started(started)), false) if sight.is_of_run(&started.run) => Seen::Gone(Some(started)),
        (_, false) => Seen::Gone(None),
    })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Marker {
    Started(Started),
    Claim(Claim),
}

fn is_held(folder: &File) -> Result<bool, Errno> {
    match flock(folder, FlockOperation::NonBlockingLockShared) {
        Ok(()) => flock(folder, FlockOperation::Unlock).map(|()| false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Whether a shim lives in this directory, as far as anybody can tell.
pub fn is_occupied(dir: &Path) -> io::Result<bool> {
    open_folder(dir)?.map_or(Ok(false), |folder| Ok(is_held(&folder)?))
}

/// None where there is no folder: the run was never begun, or its job put something else in the place of its run directory.
fn open_folder(dir: &Path) -> io::Result<Option<File>> {
    match run_file::folder(dir) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Why a run is lost whose shim has died without a record.
pub fn why_lost(dir: &Path) -> String {
    let died = "its watching process (shim) died";
    match unfit_record(dir) {
        Some(unfit) => format!("{died}, and its record cannot be read: {unfit}"),
        None => died.to_owned(),
    }
}

/// Why the record of an end cannot be read, where something else has its name.
pub fn unfit_record(dir: &Path) -> Option<String> {
    run_file::read(&dir.join(EXIT), LONGEST_RECORD).err().as_ref().and_then(run_file::unfit).map(ToString::to_string)
}

#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

fn read_record<T: DeserializeOwned>(path: &Path) -> io::Result<Record<T>> {
    let bytes = match run_file::read(path, LONGEST_RECORD) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Record::Missing),
        Err(error) if run_file::unfit(&error).is_some() => return Ok(Record::Blank),
        read => read?,
    };
    match serde_json::from_slice::<AnyFormat>(&bytes) {
        Ok(any) if any.format > FORMAT => return Ok(Record::Newer(any.format)),
        _ => {}
    }
    Ok(serde_json::from_slice(&bytes).map_or(Record::Blank, Record::Read))
}

/// Sees to it that a run is never started, by making the marker its shim would make. `false` if a shim (or
/// an earlier claim) was first.
pub fn claim(dir: &Path) -> Result<bool, InspectError> {
    let fail = |operation, path: PathBuf| move |source| InspectError::Io { operation, path, source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(fail("create", dir.to_owned()))?;
    let folder = run_file::folder(dir).map_err(fail("open", dir.to_owned()))?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(errno) => return Err(fail("lock", dir.to_owned())(errno.into())),
    }
    let path = dir.join(STARTED);
    let mut marker = match run_file::create_new(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        other => other.map_err(fail("create", path.clone()))?,
    };
    let text = serde_json::to_vec(&Claim { format: FORMAT, claimed: true }).expect("a claim is plain data");
    if let Err(source) = marker.write_all(&text) {
        // An empty marker without a lock would look like a run whose shim died.
        let _ = fs::remove_file(&path);
        return Err(fail("write", path)(source));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nexus_api::run_dir::{Cause, ExitStatus};

    fn started() -> Started {
        Started {
            format: FORMAT,
            run: "abc.1".into(),
            shim_pid: 1,
            shim_start: 2,
            boot_id: "boot".into(),
            pid: 3,
            started_at_ms: 4,
            started_ticks: 5,
            grace_ms: None,
            cgroup: None,
            terminal: None,
            screen: None,
        }
    }

    fn exited() -> ExitRecord {
        ExitRecord {
            format: FORMAT,
            run: "abc.1".into(),
            status: ExitStatus::Exited { code: 3 },
            cause: Cause::Own,
            pid: Some(3),
            started_at_ms: Some(4),
            ended_at_ms: 5,
            lost_output_bytes: 0,
            oom: None,
            found: Default::default(),
        }
    }

    fn put(dir: &Path, name: &str, value: &impl Serialize) {
        fs::write(dir.join(name), serde_json::to_vec(value).unwrap()).unwrap();
    }

    #[test]
    fn each_state_of_the_directory_is_told_apart() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        assert_eq!(inspect(&dir.join("none")).unwrap(), Seen::NotStarted);
        assert_eq!(inspect(dir).unwrap(), Seen::NotStarted);
        fs::write(dir.join(STARTED), " ".repeat(512)).unwrap();
        assert_eq!(inspect(dir).unwrap(), Seen::Gone(None));
        let lock = File::open(dir).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(inspect(dir).unwrap(), Seen::Starting);
        put(dir, STARTED, &started());
        assert_eq!(inspect(dir).unwrap(), Seen::Alive(started()));
        drop(lock);
        assert_eq!(inspect(dir).unwrap(), Seen::Gone(Some(started())));
        put(dir, EXIT, &exited());
        assert_eq!(inspect(dir).unwrap(), Seen::Exited(exited()));
    }

    #[test]
    fn the_files_of_another_run_are_none() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        let run = |name: &str| inspect_run(dir, name.parse().unwrap()).unwrap();
        put(dir, STARTED, &started());
        put(dir, EXIT, &exited());
        assert_eq!(run("abc.1"), Seen::Exited(exited()));
        assert_eq!(run("abc.2"), Seen::Gone(None), "nor is its marker");
        // Somebody who is no shim holds the lock: a backup, or a person.
        let lock = File::open(dir).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!((run("abc.1"), run("abc.2")), (Seen::Exited(exited()), Seen::Alive(started())));
    }

    #[test]
    fn a_claim_is_made_once_and_not_over_a_shim() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("deep/run");
        assert!(claim(&dir).unwrap());
        assert!(!claim(&dir).unwrap());
        assert_eq!(inspect(&dir).unwrap(), Seen::Claimed);
        let other = temporary.path().join("other");
        fs::create_dir(&other).unwrap();
        let lock = File::open(&other).unwrap();
        flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(!claim(&other).unwrap());
        assert_eq!(inspect(&other).unwrap(), Seen::Starting);
    }

    #[test]
    fn a_record_of_any_length_takes_no_memory() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        // With holes in it: it takes no disk either.
        File::create(dir.join(EXIT)).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(inspect(dir).unwrap(), Seen::NotStarted);
        assert_eq!(unfit_record(dir).unwrap(), "exit.json is longer than 1048576 bytes");
        put(dir, STARTED, &started());
        assert_eq!(inspect(dir).unwrap(), Seen::Gone(Some(started())));
    }

    #[test]
    fn records_of_a_later_format_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        put(dir, STARTED, &Started { format: FORMAT + 1, ..started() });
        assert!(matches!(inspect(dir), Err(InspectError::Newer { held: false, found: 2, .. })));
        put(dir, EXIT, &ExitRecord { format: FORMAT + 1, ..exited() });
        assert!(inspect(dir).unwrap_err().to_string().contains("newer"), "{:?}", inspect(dir));
    }
}
