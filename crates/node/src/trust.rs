//! Opens files that nexus obeys: configuration, rules, and lines that become jobs. A file that a stranger can write, or
//! can put another file in the place of, is refused. The rule is the one of sshd on Debian (`StrictModes` with user
//! private groups), for the file and for every folder and link that leads to it:
//!
//! - it belongs to this user or to root;
//! - others cannot write to it, nor can a group other than the private group of one of both, nor anybody else by an access list;
//! - a folder that others can write to is fine where it is sticky (`/tmp`): nobody renames another's file there.
//!
//! The path is followed one name at a time, each relative to the open folder before it (`O_PATH`, `O_NOFOLLOW`), so that
//! the folders that were looked at are the folders that lead to the file. The mode that counts is the one of the open file.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use nexus_api::command::quote;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, getxattr, open as open_at_path, openat, readlinkat};
use rustix::io::Errno;

use crate::groups::{Group, group_named, group_of};
use crate::system_file;
use crate::users::name_of;

/// As many as Linux follows.
const MOST_LINKS: usize = 40;

/// A file whose name was given to a link between the look and the opening is looked for again.
const MOST_LOOKS: usize = 8;

/// The most that an extended attribute has, xattr(7).
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Members of a group that a sentence names.
const NAMED_MEMBERS: usize = 3;

/// Who may write to files that are obeyed, besides root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writers {
    user: u32,
    /// All its members may as well: the user said so (`import --watch --shared-with`).
    shared_with: Option<Group>,
}

impl Writers {
    /// The user of this process alone.
    pub fn own() -> Writers {
        Writers { user: rustix::process::geteuid().as_raw(), shared_with: None }
    }

    /// The user of this process and a group.
    pub fn shared_with(group: &str) -> io::Result<Writers> {
        let group = group_named(group).ok_or_else(|| io::Error::other(format!("there is no group {group}")))?;
        Ok(Writers { shared_with: Some(group), ..Writers::own() })
    }

    fn may(&self, uid: u32) -> bool {
        uid == 0 || uid == self.user || self.shared_with.as_ref().is_some_and(|group| group.has(uid))
    }
}

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Link,
}

/// Who could change what is obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stranger {
    Owner(u32),
    /// The owner has no number in this user namespace.
    UnknownOwner,
    Everybody,
    /// A group that has or may have other members: no user private group, or one whose members cannot be known.
    Group(u32),
    /// By an access list.
    UserOfList(u32),
    GroupOfList(u32),
    /// There is an access list that is not understood, or that cannot be read.
    UnknownList,
}

/// A file that is not obeyed: which path lets whom write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untrusted {
    pub path: PathBuf,
    pub kind: Kind,
    pub who: Stranger,
}

#[derive(Debug)]
pub enum OpenError {
    Untrusted(Untrusted),
    Io(io::Error),
}

impl From<Errno> for OpenError {
    fn from(error: Errno) -> OpenError {
        OpenError::Io(error.into())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            OpenError::Untrusted(untrusted) => untrusted.fmt(out),
            OpenError::Io(error) => error.fmt(out),
        }
    }
}

/// Who can write, and the command that ends it.
impl fmt::Display for Untrusted {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let shown = self.path.display();
        let typed = quote(&self.path.to_string_lossy());
        let of = |what: &str| match self.kind {
            Kind::File => format!("{what} {shown}"),
            Kind::Folder => format!("{what} the folder {shown}, in which it could be replaced"),
            Kind::Link => format!("{what} the link {shown}"),
        };
        let check = if self.kind == Kind::File { "check what it says, then " } else { "" };
        match &self.who {
            Stranger::Owner(uid) => {
                let (what, mend) = match self.kind {
                    Kind::File => ("", "copy it to a file of your own"),
                    Kind::Folder => ("the folder ", "use a copy in a folder of your own"),
                    Kind::Link => ("the link ", "make a link of your own"),
                };
                write!(out, "{what}{shown} belongs to {}; {mend}", name_of(*uid))
            }
            Stranger::UnknownOwner => {
                write!(
                    out,
                    "{shown} belongs to a user that this container does not know; copy it to a file of your own"
                )
            }
            Stranger::Everybody => write!(out, "{}; {check}chmod o-w {typed}", of("anybody can write to")),
            Stranger::Group(gid) => {
                write!(out, "{}; {check}chmod g-w {typed}", of(&format!("{} can write to", group_words(*gid))))
            }
            Stranger::UserOfList(uid) => {
                let by = format!("an access list lets {} write to", name_of(*uid));
                write!(out, "{}; {check}setfacl -b {typed}", of(&by))
            }
            Stranger::GroupOfList(gid) => {
                let by = format!("an access list lets {} write to", group_words(*gid));
                write!(out, "{}; {check}setfacl -b {typed}", of(&by))
            }
            // Without the group's write permission a POSIX list gives none to anybody, and an NFSv4 list none that is not looked at.
            Stranger::UnknownList => {
                let by = "others may write, by an access list that cannot be read, to";
                write!(out, "{}; {check}chmod g-w {typed}", of(by))
            }
        }
    }
}

/// The group by name, with some of its members.
fn group_words(gid: u32) -> String {
    let Some(group) = group_of(gid) else { return format!("group {gid}, whose members are not known,") };
    let mut names: Vec<&str> = group.members.iter().take(NAMED_MEMBERS).map(|member| member.name.as_str()).collect();
    if group.members.len() > NAMED_MEMBERS {
        names.push("…");
    }
    match names.is_empty() {
        true => format!("group {}", group.name),
        false => format!("group {} ({})", group.name, names.join(", ")),
    }
}

/// Opens a file to read it, where no stranger can write to it. What is no plain file is not opened.
#[expect(clippy::disallowed_methods, reason = "O_NOFOLLOW, O_NONBLOCK; who can write is looked at")]
pub fn open(path: &Path, writers: &Writers) -> Result<File, OpenError> {
    for _ in 0..MOST_LOOKS {
        let place = find(path, writers)?;
        // Without waiting, and without a new controlling terminal: a pipe or a device may have come into its place.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&place.folder, &place.name, flags, Mode::empty()) {
            // A link took its name meanwhile.
            Err(Errno::LOOP) => continue,
            opened => opened?,
        };
        let about = fstat(&file)?;
        is_plain(&about)?;
        refuse_stranger(file.as_fd(), &about, &place.path, Kind::File, writers)?;
        return Ok(file.into());
    }
    Err(Errno::LOOP.into())
}

/// The same without opening it. Of a file that is not there the folders that are there count.
pub fn check(path: &Path, writers: &Writers) -> Result<(), OpenError> {
    match find(path, writers) {
        Err(OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        found => found.map(drop),
    }
}

/// Looks once more at a file that was opened before: its mode may be another now.
pub fn check_open(file: &File, path: &Path, writers: &Writers) -> Result<(), OpenError> {
    refuse_stranger(file.as_fd(), &fstat(file)?, path, Kind::File, writers)
}

/// A file that was found, by its name in an open folder.
struct Place {
    folder: OwnedFd,
    name: OsString,
    /// Without links.
    path: PathBuf,
}

/// Follows a path, and looks at everything that leads to the file and at the file.
#[expect(clippy::disallowed_methods, reason = "O_PATH opens nothing")]
fn find(path: &Path, writers: &Writers) -> Result<Place, OpenError> {
    let path = std::path::absolute(path).map_err(OpenError::Io)?;
    let root = open_at_path("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let about = fstat(&root)?;
    refuse_stranger(root.as_fd(), &about, Path::new("/"), Kind::Folder, writers)?;
    let mut folders: Vec<(OwnedFd, PathBuf)> = vec![(root, "/".into())];
    // The next name is the last.
    let mut names: Vec<OsString> = names_of(&path);
    let mut links = 0;
    while let Some(name) = names.pop() {
        if name == "/" {
            folders.truncate(1);
            continue;
        }
        if name == ".." {
            folders.truncate((folders.len() - 1).max(1));
            continue;
        }
        let (folder, shown) = folders.last().expect("the root is never taken away");
        let shown = shown.join(&name);
        // A folder is opened as one: that mounts it where it is mounted on demand.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(folder, &name, flags | OFlags::DIRECTORY, Mode::empty()) {
            Ok(next) => {
                refuse_stranger(next.as_fd(), &fstat(&next)?, &shown, Kind::Folder, writers)?;
                folders.push((next, shown));
                continue;
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
        let found = openat(folder, &name, flags, Mode::empty())?;
        let about = fstat(&found)?;
        if FileType::from_raw_mode(about.st_mode) == FileType::Symlink {
            links += 1;
            if links > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            refuse_stranger(found.as_fd(), &about, &shown, Kind::Link, writers)?;
            let target = readlinkat(&found, "", Vec::new())?;
            names.extend(names_of(Path::new(OsStr::from_bytes(target.as_bytes()))));
            continue;
        }
        if !names.is_empty() {
            return Err(Errno::NOTDIR.into());
        }
        is_plain(&about)?;
        refuse_stranger(found.as_fd(), &about, &shown, Kind::File, writers)?;
        let (folder, _) = folders.pop().expect("the root is never taken away");
        return Ok(Place { folder, name, path: shown });
    }
    Err(OpenError::Io(io::Error::other("it is a folder")))
}

/// The path's names in reverse order. `Path::components` keeps a leading `.`, as in a link to `./../file`: it names the folder that
/// is open already, and a second entry for that folder would swallow the `..` behind it.
fn names_of(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| *part != Component::CurDir);
    names.map(|part| part.as_os_str().to_os_string()).collect()
}

fn is_plain(about: &Stat) -> Result<(), OpenError> {
    match FileType::from_raw_mode(about.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(OpenError::Io(io::Error::other("it is a folder"))),
        _ => Err(OpenError::Io(io::Error::other("it is not a file"))),
    }
}

fn refuse_stranger(
    opened: BorrowedFd,
    about: &Stat,
    path: &Path,
    kind: Kind,
    writers: &Writers,
) -> Result<(), OpenError> {
    // Mode bits of the group are the upper bound of an access list: without them it lets nobody write.
    let list = match kind != Kind::Link && about.st_mode & 0o020 != 0 {
        true => access_list(opened),
        false => List::None,
    };
    let facts = Facts { uid: about.st_uid, gid: about.st_gid, mode: about.st_mode, list, unmapped: *UNMAPPED_OWNER };
    match facts.stranger(kind, writers, &group_of) {
        None => Ok(()),
        Some(who) => Err(OpenError::Untrusted(Untrusted { path: path.to_path_buf(), kind, who })),
    }
}

/// What the rule looks at.
struct Facts {
    uid: u32,
    gid: u32,
    mode: u32,
    list: List,
    /// The number that stands for every owner without one in this user namespace.
    unmapped: Option<Unmapped>,
}

/// The rule. None: no stranger can write.
impl Facts {
    fn stranger(&self, kind: Kind, writers: &Writers, groups: &dyn Fn(u32) -> Option<Group>) -> Option<Stranger> {
        if let Some(unmapped) = self.unmapped.filter(|unmapped| unmapped.uid == self.uid) {
            // Folders above a home in a container: root's outside, as is the root folder.
            if kind == Kind::File || !unmapped.is_root_folder {
                return Some(Stranger::UnknownOwner);
            }
        } else if !writers.may(self.uid) {
            return Some(Stranger::Owner(self.uid));
        }
        // The mode of a link means nothing. In a sticky folder only owners rename and delete.
        if kind == Kind::Link || (kind == Kind::Folder && self.mode & 0o1000 != 0) {
            return None;
        }
        if self.mode & 0o002 != 0 {
            return Some(Stranger::Everybody);
        }
        if self.mode & 0o020 == 0 {
            return None;
        }
        match &self.list {
            List::None => is_of_strangers(self.gid, writers, groups).then_some(Stranger::Group(self.gid)),
            List::Posix(list) => list.stranger(self.gid, writers, groups),
            List::Unknown => Some(Stranger::UnknownList),
        }
    }
}

/// Whether a group may have members that may not write. A list of members proves little: a user database such as LDAP or sssd names
/// nobody whose primary group it is, unless it can be enumerated. So the group must be a user private group as well, as useradd(8)
/// makes one for each user.
fn is_of_strangers(gid: u32, writers: &Writers, groups: &dyn Fn(u32) -> Option<Group>) -> bool {
    if writers.shared_with.as_ref().is_some_and(|shared| shared.gid == gid) {
        return false;
    }
    let Some(group) = groups(gid) else { return true };
    let is_private = group.private_of.is_some_and(|uid| uid == 0 || uid == writers.user);
    !is_private
        || group.members.is_empty()
        || !group.members.iter().all(|member| member.uid.is_some_and(|uid| writers.may(uid)))
}

/// What a file's access list says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum List {
    /// The mode is all there is.
    None,
    Posix(AccessList),
    /// There may be one, and who can write by it is not known.
    Unknown,
}

/// Who can write by a POSIX access list (acl(5)), the mask applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AccessList {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    /// The group of the file.
    own_group: bool,
}

impl AccessList {
    /// As the kernel gives it: a number of the format, then tag, permissions and number of each entry.
    fn parse(bytes: &[u8]) -> Option<AccessList> {
        let (format, entries) = bytes.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*format) != 2 {
            return None;
        }
        let entries = entries.chunks_exact(8).map(|entry| {
            let short = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
            (short(0), short(2), u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]))
        });
        let entries: Vec<_> = entries.collect();
        let mask = entries.iter().find(|(tag, ..)| *tag == 0x10).map_or(7, |(_, permissions, _)| *permissions);
        let mut list = AccessList::default();
        for (tag, _, id) in entries.iter().filter(|(_, permissions, _)| permissions & mask & 2 != 0) {
            match tag {
                0x02 => drop(list.users.insert(*id)),
                0x04 => list.own_group = true,
                0x08 => drop(list.groups.insert(*id)),
                _ => {}
            }
        }
        Some(list)
    }

    fn stranger(&self, own_group: u32, writers: &Writers, groups: &dyn Fn(u32) -> Option<Group>) -> Option<Stranger> {
        if self.own_group && is_of_strangers(own_group, writers, groups) {
            return Some(Stranger::Group(own_group));
        }
        let user = self.users.iter().find(|uid| !writers.may(**uid)).map(|uid| Stranger::UserOfList(*uid));
        let group = || self.groups.iter().find(|gid| is_of_strangers(**gid, writers, groups));
        user.or_else(|| group().map(|gid| Stranger::GroupOfList(*gid)))
    }
}

fn access_list(opened: BorrowedFd) -> List {
    // What was opened with O_PATH answers by this name alone.
    let name = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let attribute = |attribute: &str| {
        let mut room = vec![0u8; MAX_ATTRIBUTE_BYTES];
        let length = getxattr(&name, attribute, &mut room[..])?;
        room.truncate(length);
        Ok(room)
    };
    list_of(attribute("system.posix_acl_access"), || attribute("system.nfs4_acl"))
}

/// Only an answer that says so means that there is no list. A file system without POSIX lists (EOPNOTSUPP) may have those of NFSv4,
/// which are not read here: an NFS client has one for each file where the server has lists at all.
fn list_of(posix: Result<Vec<u8>, Errno>, nfs4: impl FnOnce() -> Result<Vec<u8>, Errno>) -> List {
    match posix {
        Ok(bytes) => AccessList::parse(&bytes).map_or(List::Unknown, List::Posix),
        Err(Errno::NODATA) => List::None,
        Err(Errno::OPNOTSUPP) => match nfs4() {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => List::None,
            Ok(_) | Err(_) => List::Unknown,
        },
        Err(_) => List::Unknown,
    }
}

/// Owners without a number in this user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Unmapped {
    uid: u32,
    /// The root folder belongs to one of them.
    is_root_folder: bool,
}

/// None outside of user namespaces, where every owner has a number.
static UNMAPPED_OWNER: LazyLock<Option<Unmapped>> = LazyLock::new(|| {
    let map = system_file::read_text("/proc/self/uid_map").unwrap_or_default();
    if map.split_whitespace().eq(["0", "0", "4294967295"]) || map.is_empty() {
        return None;
    }
    let overflow = system_file::read_text("/proc/sys/kernel/overflowuid").unwrap_or_default();
    let uid = overflow.trim().parse().unwrap_or(65534);
    let root = rustix::fs::statat(CWD, "/", rustix::fs::AtFlags::empty());
    Some(Unmapped { uid, is_root_folder: root.is_ok_and(|about| about.st_uid == uid) })
});

#[cfg(test)]
mod tests;
