//! Puts what was planned into the target: each file under another name first, on the disk before it has its own. What is
//! there already and equal (size, time of its last change, mode) is left alone.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nexus_core::ids::JobId;
use nexus_node::left::{Item, Plan, Trouble, What};
use nexus_node::run_file::{self, Unfit};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, copy_file_range, futimens, utimensat};
use rustix::io::Errno;

use super::away::Away;
use super::progress::Progress;

/// Copied between two looks at whether it is still wanted.
const PIECE: usize = 8 << 20;

/// Where the kernel cannot copy by itself.
const BUFFER: usize = 1 << 20;

/// Makes the folder; its path without links.
pub fn make_target(to: &Path) -> Result<PathBuf, Trouble> {
    DirBuilder::new().recursive(true).mode(0o755).create(to).map_err(write(to))?;
    fs::canonicalize(to).map_err(write(to))
}

/// Nothing half-copied stays, however it ends.
pub fn copy_all(plan: &Plan, from: Option<&Away>, to: &Path, job: JobId, progress: &Progress) -> Result<(), Trouble> {
    let part = to.join(format!(".nexus-{job}.part"));
    let copied = put_all(plan, from, to, &part, progress);
    if copied.is_err() {
        let _ = fs::remove_file(&part);
    }
    copied
}

fn put_all(plan: &Plan, from: Option<&Away>, to: &Path, part: &Path, progress: &Progress) -> Result<(), Trouble> {
    let mut folders = BTreeSet::from([to.to_path_buf()]);
    for (name, item) in &plan.items {
        if progress.is_given_up() {
            return Err(Trouble::GivenUp);
        }
        let target = to.join(name);
        match &item.what {
            What::Folder => make_folder(&target)?,
            What::Link { to } => put_link(to, &target, part)?,
            What::File { bytes } => match from {
                None => put_file(item, &target, part, progress)?,
                Some(away) => fetch_file((item, *bytes), away, &target, part, progress)?,
            },
        }
        folders.extend(target.parent().map(Path::to_path_buf));
    }
    // From the inside out: a folder may be one that nobody can write to.
    for (name, item) in plan.items.iter().rev().filter(|(_, item)| item.what == What::Folder) {
        finish_folder(item, &to.join(name))?;
    }
    for folder in folders {
        run_file::open_folder(&folder).and_then(|opened| opened.sync_all()).map_err(write(&folder))?;
    }
    Ok(())
}

fn make_folder(target: &Path) -> Result<(), Trouble> {
    match fs::create_dir(target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let about = fs::symlink_metadata(target).map_err(write(target))?;
            if !about.is_dir() {
                return Err(Trouble::NoFolder { path: target.to_path_buf() });
            }
            let mode = about.mode() | 0o700;
            fs::set_permissions(target, Permissions::from_mode(mode)).map_err(write(target))
        }
        made => made.map_err(write(target)),
    }
}

fn finish_folder(item: &Item, target: &Path) -> Result<(), Trouble> {
    fs::set_permissions(target, Permissions::from_mode(item.mode)).map_err(write(target))?;
    let set = utimensat(CWD, target, &times(item.modified), AtFlags::SYMLINK_NOFOLLOW);
    set.map_err(|errno| write(target)(errno.into()))
}

fn put_link(leads_to: &Path, target: &Path, part: &Path) -> Result<(), Trouble> {
    if fs::read_link(target).is_ok_and(|known| known == leads_to) {
        return Ok(());
    }
    let _ = fs::remove_file(part);
    std::os::unix::fs::symlink(leads_to, part).and_then(|()| fs::rename(part, target)).map_err(write(target))
}

fn put_file(item: &Item, target: &Path, part: &Path, progress: &Progress) -> Result<(), Trouble> {
    let read = |source| Trouble::Read { path: item.from.clone(), source };
    // It may have become something else since it was looked at.
    let mut from = run_file::open_of_any_user(&item.from).map_err(|error| match run_file::unfit(&error) {
        Some(Unfit::NoFile { .. }) => {
            Trouble::Special { path: item.from.clone(), what: "no plain file any more".into() }
        }
        _ => Trouble::Read { path: item.from.clone(), source: error },
    })?;
    let about = from.metadata().map_err(read)?;
    let (mode, modified) = (about.mode() & 0o777, (about.mtime(), about.mtime_nsec()));
    let seen = Item { from: item.from.clone(), what: What::File { bytes: about.len() }, mode, modified };
    if is_there(&seen, about.len(), target) {
        progress.add(about.len());
        return Ok(());
    }
    // A link that somebody put there is replaced, not followed.
    let _ = fs::remove_file(part);
    let mut out = run_file::create_new(part).map_err(write(target))?;
    pour(&mut from, &mut out, progress).map_err(|spill| match spill {
        Spill::Read(source) => read(source),
        Spill::Write(source) => write(target)(source),
        Spill::GivenUp => Trouble::GivenUp,
    })?;
    finish_file(&seen, &out, target, part)
}

/// The same over a line: what it was when the plan was made is what it has here.
fn fetch_file(
    (item, bytes): (&Item, u64),
    away: &Away,
    target: &Path,
    part: &Path,
    progress: &Progress,
) -> Result<(), Trouble> {
    if is_there(item, bytes, target) {
        progress.add(bytes);
        return Ok(());
    }
    let _ = fs::remove_file(part);
    let mut out = run_file::create_new(part).map_err(write(target))?;
    drain(&mut away.open(&item.from)?, &mut out, progress).map_err(|spill| match spill {
        Spill::Read(source) => Trouble::Read { path: item.from.clone(), source },
        Spill::Write(source) => write(target)(source),
        Spill::GivenUp => Trouble::GivenUp,
    })?;
    finish_file(item, &out, target, part)
}

fn finish_file(item: &Item, out: &File, target: &Path, part: &Path) -> Result<(), Trouble> {
    out.set_permissions(Permissions::from_mode(item.mode)).map_err(write(target))?;
    futimens(out, &times(item.modified)).map_err(|errno| write(target)(errno.into()))?;
    out.sync_all().map_err(write(target))?;
    fs::rename(part, target).map_err(write(target))
}

/// A copy of an earlier try.
fn is_there(item: &Item, bytes: u64, target: &Path) -> bool {
    let same = |known: &fs::Metadata| {
        known.is_file()
            && known.len() == bytes
            && (known.mtime(), known.mtime_nsec()) == item.modified
            && known.mode() & 0o777 == item.mode
    };
    fs::symlink_metadata(target).as_ref().is_ok_and(same)
}

enum Spill {
    Read(io::Error),
    Write(io::Error),
    GivenUp,
}

/// All bytes of one file into another, by the kernel where it can.
fn pour(from: &mut File, out: &mut File, progress: &Progress) -> Result<(), Spill> {
    loop {
        if progress.is_given_up() {
            return Err(Spill::GivenUp);
        }
        match copy_file_range(&*from, None, &*out, None, PIECE) {
            // The end, or a file system that cannot say: reading tells.
            Ok(0) => break,
            Ok(count) => progress.add(count as u64),
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF) => break,
            Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => return Err(Spill::Write(errno.into())),
            // Of which side it is only reading and writing tells.
            Err(_) => break,
        }
    }
    drain(from, out, progress)
}

fn drain(from: &mut impl Read, out: &mut File, progress: &Progress) -> Result<(), Spill> {
    let mut buffer = vec![0; BUFFER];
    loop {
        if progress.is_given_up() {
            return Err(Spill::GivenUp);
        }
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                out.write_all(&buffer[..count]).map_err(Spill::Write)?;
                progress.add(count as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Spill::Read(error)),
        }
    }
}

fn times((tv_sec, tv_nsec): (i64, i64)) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec, tv_nsec },
    }
}

fn write(path: &Path) -> impl FnOnce(io::Error) -> Trouble + use<> {
    let path = path.to_path_buf();
    |source| Trouble::Write { path, source }
}
