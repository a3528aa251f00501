//! Opens files that a job may have replaced: the files of its run directory, and what else lies where programs of the same user
//! write. `clippy.toml` forbids other ways to open a file.
//!
//! A job may put a named pipe, a folder, a socket, a device, a link or another user's file at any name in its run directory. All
//! functions here therefore open with `O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY` and then ask fstat(2) what was opened: only a
//! regular file of this user, or of root, is handed out. [`Unfit`] says in a sentence what is there instead.
//!
//! What `O_NONBLOCK` does, by open(2), fifo(7) and fcntl(2):
//!
//! - A named pipe that is opened for reading is open at once. Without the flag open(2) waits until a writer comes, which is never.
//! - A named pipe without a reader that is opened for writing fails with `ENXIO`.
//! - A regular file on which another process has a lease (`F_SETLEASE`) fails with `EAGAIN`. Without the flag open(2) waits up to
//!   `/proc/sys/fs/lease-break-time`, 45 s.
//! - Reads and writes of a regular file are the same with and without it.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const FLAGS: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// What lies at the name of a file and cannot be taken for that file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("{name} is {kind}, not a file")]
    NoFile { name: String, kind: &'static str },
    #[error("{name} belongs to another user (uid {uid})")]
    Foreign { name: String, uid: u32 },
    #[error("{name} is longer than {limit} bytes")]
    TooLong { name: String, limit: u64 },
    #[error("{name} is not readable and writable for its owner: its mode is {mode:03o}")]
    Mode { name: String, mode: u32 },
    #[error("{name} is held by a lease of another process")]
    Leased { name: String },
}

impl From<Unfit> for io::Error {
    fn from(unfit: Unfit) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, unfit)
    }
}

/// Why something else than the file is there; none for an error of another kind, such as a file that is missing.
pub fn unfit(error: &io::Error) -> Option<&Unfit> {
    error.get_ref()?.downcast_ref()
}

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().read(true), path).map(|(file, _)| file)
}

/// Opens a file for reading; none where there is nothing of that name.
pub fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    none_if_missing(open(path))
}

/// Opens a file that is there for writing, without cutting it.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    opened(OpenOptions::new().write(true), path).map(|(file, _)| file)
}

/// Opens a file for writing at its end, with its length; makes it if it is missing. What else lies there makes way for it.
pub fn append(path: &Path) -> io::Result<(File, u64)> {
    let mut how = OpenOptions::new();
    how.append(true).create(true).mode(FILE_MODE);
    let opened = match opened(&how, path) {
        Err(error) if unfit(&error).is_some() => {
            remove(path)?;
            opened(&how, path)
        }
        opened => opened,
    };
    opened.map(|(file, about)| (file, about.len()))
}

/// Opens a file for reading that may be another user's: results of a job, say, that a container wrote.
#[expect(clippy::disallowed_methods, reason = "as in `opened`, but for the owner")]
pub fn open_of_any_user(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().read(true).custom_flags(FLAGS).open(path);
    let file = opened.map_err(|error| explained(error, path, |path| fs::symlink_metadata(path)))?;
    is_regular(&file.metadata()?, path)?;
    Ok(file)
}

/// Makes a file that is not there, readable for its owner alone. `AlreadyExists` where anything is, a link too.
pub fn create_new(path: &Path) -> io::Result<File> {
    create_new_with(path, FILE_MODE)
}

/// The same with another mode.
#[expect(clippy::disallowed_methods, reason = "O_EXCL makes a regular file or fails")]
pub fn create_new_with(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).custom_flags(FLAGS).mode(mode).open(path)
}

/// The same to write at its end, and readable for whom the process makes files readable: a copy of output.
#[expect(clippy::disallowed_methods, reason = "O_EXCL makes a regular file or fails")]
pub fn create_new_to_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create_new(true).custom_flags(FLAGS).open(path)
}

/// Makes an empty file in place of what is there. Who has the old one open keeps it.
pub fn create(path: &Path) -> io::Result<File> {
    create_with(path, FILE_MODE)
}

fn create_with(path: &Path, mode: u32) -> io::Result<File> {
    match create_new_with(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            remove_if_there(path)?;
            create_new_with(path, mode)
        }
        made => made,
    }
}

/// Writes a file whole or not at all: first to `part`, and under its name once it is on the disk.
pub fn write_whole(path: &Path, part: &Path, content: &[u8]) -> io::Result<()> {
    write_whole_with(path, part, content, FILE_MODE)
}

/// The same with another mode.
pub fn write_whole_with(path: &Path, part: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let written = create_with(part, mode).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    let named = written.and_then(|()| match fs::rename(part, path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            remove(path)?;
            fs::rename(part, path)
        }
        renamed => renamed,
    });
    if named.is_err() {
        let _ = fs::remove_file(part);
    }
    named
}

/// Reads a file whole. One of more than `limit` bytes is [`Unfit`]: a job can make a file of 8 EiB that takes no disk.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, about) = opened(OpenOptions::new().read(true), path)?;
    if about.len() > limit {
        return Err(too_long(path, limit).into());
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_long(path, limit).into()) } else { Ok(bytes) }
}

/// Reads the first bytes of a file, `most` at most.
pub fn read_beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the last bytes of a file, `most` at most.
pub fn read_end(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, about) = opened(OpenOptions::new().read(true), path)?;
    let mut bytes = vec![0; about.len().min(most) as usize];
    let count = file.read_at(&mut bytes, about.len().saturating_sub(most))?;
    bytes.truncate(count);
    Ok(bytes)
}

/// The length of a regular file of this user; 0 where there is nothing.
pub fn length(path: &Path) -> io::Result<u64> {
    Ok(none_if_missing(fs::symlink_metadata(path).and_then(|about| fit(about, path)))?.map_or(0, |about| about.len()))
}

/// Opens a run directory, to lock it or to sync it. A job may have taken its permissions from it: its owner gives them back.
pub fn folder(path: &Path) -> io::Result<File> {
    match open_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && gave_permissions_back(path) => {
            open_folder(path)
        }
        opened => opened,
    }
}

/// Opens a folder, to lock it or to sync it.
#[expect(clippy::disallowed_methods, reason = "O_DIRECTORY opens a folder or fails")]
pub fn open_folder(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
}

fn gave_permissions_back(path: &Path) -> bool {
    let is_ours = |about: &Metadata| about.is_dir() && about.uid() == own_uid() && about.mode() & 0o700 != 0o700;
    let about = fs::symlink_metadata(path).ok().filter(is_ours);
    about.is_some_and(|about| {
        fs::set_permissions(path, fs::Permissions::from_mode(about.mode() & 0o7777 | FOLDER_MODE)).is_ok()
    })
}

/// Removes what is there, whatever it is. A folder with something in it is moved to `NAME.moved` beside it: what a job keeps in it
/// is the job's.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
        removed => return removed,
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => fs::rename(path, moved(path)),
        removed => removed,
    }
}

/// As [`remove`]; nothing there is as good.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    none_if_missing(remove(path)).map(drop)
}

fn moved(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".moved");
    path.with_file_name(name)
}

fn none_if_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place: what is opened here does not wait and is looked at")]
fn opened(how: &OpenOptions, path: &Path) -> io::Result<(File, Metadata)> {
    let file = how
        .clone()
        .custom_flags(FLAGS)
        .open(path)
        .map_err(|error| explained(error, path, |path| fs::symlink_metadata(path)))?;
    let about = fit(file.metadata()?, path)?;
    Ok((file, about))
}

/// Says what is there, if that is why it could not be opened.
pub(crate) fn explained(error: io::Error, path: &Path, about: impl FnOnce(&Path) -> io::Result<Metadata>) -> io::Error {
    if error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::AlreadyExists {
        return error;
    }
    let about = match about(path).map(|about| fit(about, path)) {
        Ok(Ok(about)) => about,
        Ok(Err(unfit)) => return unfit,
        Err(_) => return error,
    };
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Unfit::Leased { name: name_of(path) }.into(),
        Some(libc::EACCES) if about.mode() & 0o600 != 0o600 => {
            Unfit::Mode { name: name_of(path), mode: about.mode() & 0o777 }.into()
        }
        _ => error,
    }
}

fn fit(about: Metadata, path: &Path) -> io::Result<Metadata> {
    is_regular(&about, path)?;
    match [own_uid(), 0].contains(&about.uid()) {
        true => Ok(about),
        false => Err(Unfit::Foreign { name: name_of(path), uid: about.uid() }.into()),
    }
}

pub(crate) fn is_regular(about: &Metadata, path: &Path) -> io::Result<()> {
    let kind = about.file_type();
    let kind = match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a folder"),
        () if kind.is_symlink() => Some("a symbolic link"),
        () if kind.is_fifo() => Some("a named pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    };
    kind.map_or(Ok(()), |kind| Err(Unfit::NoFile { name: name_of(path), kind }.into()))
}

pub(crate) fn too_long(path: &Path, limit: u64) -> Unfit {
    Unfit::TooLong { name: name_of(path), limit }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
