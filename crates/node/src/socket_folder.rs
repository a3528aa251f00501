//! The folder of a home's sockets, where they cannot lie in the home itself: on a network file system, or where its path is too
//! long. No other user may have it in his hands, or it is not used.
//!
//! ```text
//!   XDG_RUNTIME_DIR, if no other user can replace it ──> XDG_RUNTIME_DIR/nexus-<hash of the home>
//!   else                                             ──> /tmp/nexus-<random number>, named by the file `sockets` in the home
//! ```
//! A name in `/tmp` that can be foretold is somebody else's who is there first. So it is random, and where it is taken another is
//! chosen: nobody can lock the owner out. Clients read the file, the service writes it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use nexus_api::paths::{Home, SocketPlace, fingerprint};
use rustix::process::geteuid;

use crate::rendezvous::random_number;
use crate::users::name_of;

/// In the home; has the path of the folder of random name.
pub const NAME_FILE: &str = "sockets";

const SHARED_FOLDER: &str = "/tmp";

/// Names that are tried. Each is one of 2^64.
const ATTEMPTS: usize = 8;

/// As the kernel has it (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const OPEN_TO_OTHERS: u32 = 0o077;

/// What makes a folder unfit, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("{} is not an absolute path", .0.display())]
    Relative(PathBuf),
    #[error("{} is a symbolic link, which its owner can change", .0.display())]
    Link(PathBuf),
    #[error("{} is not a folder", .0.display())]
    NoFolder(PathBuf),
    #[error("{} belongs to user {}", .0.display(), name_of(*.1))]
    Foreign(PathBuf, u32),
    #[error("other users can write to {} (mode {:o})", .0.display(), .1)]
    Writable(PathBuf, u32),
    #[error("other users can enter {} (mode {:o})", .0.display(), .1)]
    Open(PathBuf, u32),
    #[error("{}: {error}", path.display())]
    Unreadable { path: PathBuf, error: String },
}

/// The folder of a service's sockets now. It may be another after the one before has vanished.
#[derive(Clone, Debug)]
pub struct CurrentFolder(Arc<Mutex<PathBuf>>);

impl CurrentFolder {
    pub fn new(folder: &Path) -> CurrentFolder {
        CurrentFolder(Arc::new(Mutex::new(folder.to_owned())))
    }

    pub fn path(&self) -> PathBuf {
        self.0.lock().expect("a plain value").clone()
    }

    pub fn set(&self, folder: &Path) {
        *self.0.lock().expect("a plain value") = folder.to_owned();
    }
}

/// The home with the folder that its service uses, as far as a client can tell. Makes nothing.
pub fn find(home: Home) -> Home {
    let SocketPlace::Outside { runtime_dir } = &home.socket_place else { return home };
    let in_runtime = runtime_dir.as_deref().and_then(|dir| in_runtime_dir(&home, dir).ok());
    let fits = |folder: &PathBuf| check_own(folder).is_ok();
    match in_runtime.filter(fits).or_else(|| named(&home.dir).filter(fits)) {
        Some(folder) => home.with_sockets(folder),
        None => home,
    }
}

/// Makes the folder, for the one who holds the lock of the home.
pub fn make(home: &Home) -> io::Result<Home> {
    let SocketPlace::Outside { runtime_dir } = &home.socket_place else { return Ok(home.clone()) };
    let made = |folder: &PathBuf| make_own(folder).is_ok();
    let in_runtime = runtime_dir.as_deref().and_then(|dir| in_runtime_dir(home, dir).ok());
    let folder = match in_runtime.filter(made).or_else(|| named(&home.dir).filter(made)) {
        Some(folder) => folder,
        None => make_new(&home.dir)?,
    };
    Ok(home.clone().with_sockets(folder))
}

/// Why the user's runtime folder is not used for the sockets of this home, if it should be and is not.
pub fn unfit_runtime_dir(home: &Home) -> Option<Unfit> {
    let SocketPlace::Outside { runtime_dir: Some(dir) } = &home.socket_place else { return None };
    let folder = match in_runtime_dir(home, dir) {
        Ok(folder) => folder,
        Err(unfit) => return Some(unfit),
    };
    match check_own(&folder) {
        Err(Unfit::Unreadable { .. }) | Ok(()) => None,
        Err(unfit) => Some(unfit),
    }
}

fn in_runtime_dir(home: &Home, runtime_dir: &Path) -> Result<PathBuf, Unfit> {
    check_way(runtime_dir)?;
    Ok(runtime_dir.join(format!("nexus-{:016x}", fingerprint(&home.dir))))
}

/// The folder that the file in the home names.
#[expect(clippy::disallowed_methods, reason = "O_NOFOLLOW, O_NONBLOCK; owner and mode are looked at")]
fn named(home: &Path) -> Option<PathBuf> {
    let path = home.join(NAME_FILE);
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.uid() != geteuid().as_raw() || about.mode() & WRITABLE_BY_OTHERS != 0 {
        return None;
    }
    let mut text = Vec::new();
    file.take(libc::PATH_MAX as u64).read_to_end(&mut text).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text).to_vec();
    Some(PathBuf::from(OsString::from_vec(text)))
}

fn make_new(home: &Path) -> io::Result<PathBuf> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let folder = Path::new(SHARED_FOLDER).join(format!("nexus-{:016x}", random_number()?));
        match make_own(&folder) {
            Ok(()) => {
                write_down(home, &folder)?;
                return Ok(folder);
            }
            Err(unfit) => last = Some(unfit),
        }
    }
    let why = last.map(|unfit| unfit.to_string()).unwrap_or_default();
    Err(io::Error::other(format!("{why}; set XDG_RUNTIME_DIR to a folder that only you can enter")))
}

/// Replaces the file whole: a client reads the one name or the other.
#[expect(clippy::disallowed_methods, reason = "O_EXCL makes a regular file or fails")]
fn write_down(home: &Path, folder: &Path) -> io::Result<()> {
    let (path, new) = (home.join(NAME_FILE), home.join("sockets.new"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(folder.as_os_str().as_encoded_bytes())?;
    file.write_all(b"\n")?;
    fs::rename(new, path)
}

/// Makes a folder for its owner alone, or takes the one that is there.
fn make_own(folder: &Path) -> Result<(), Unfit> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(unreadable(folder, &error)),
        _ => check_own(folder),
    }
}

/// Whether this user alone can have put a socket into the folder.
pub fn is_own(folder: &Path) -> bool {
    check_own(folder).is_ok()
}

/// Refuses a folder that is not the own one of this user alone, or in whose place somebody else could put another.
fn check_own(folder: &Path) -> Result<(), Unfit> {
    check_way(folder)?;
    let about = fs::symlink_metadata(folder).map_err(|error| unreadable(folder, &error))?;
    if about.is_symlink() {
        return Err(Unfit::Link(folder.into()));
    }
    if about.uid() != geteuid().as_raw() {
        return Err(Unfit::Foreign(folder.into(), about.uid()));
    }
    match about.mode() & OPEN_TO_OTHERS {
        0 => Ok(()),
        _ => Err(Unfit::Open(folder.into(), about.mode() & 0o7777)),
    }
}

/// Refuses a path on which another user than root could put something else: a folder of his, one that he can write to (unless
/// it is sticky, as `/tmp` is: there he cannot rename what is ours), or a link in a folder like that.
fn check_way(path: &Path) -> Result<(), Unfit> {
    let trusted = Trusted::learn()?;
    let mut at = PathBuf::from("/");
    let mut is_shared = false;
    let mut ahead: Vec<OsString> = components(path)?;
    let mut links = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        let about = fs::symlink_metadata(&next).map_err(|error| unreadable(&next, &error))?;
        if !trusted.owns(&about) {
            return Err(Unfit::Foreign(next, about.uid()));
        }
        if about.is_symlink() {
            links += 1;
            if is_shared || links > MAX_LINKS {
                return Err(Unfit::Link(next));
            }
            let target = fs::read_link(&next).map_err(|error| unreadable(&next, &error))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            ahead.extend(relative_components(&target));
            continue;
        }
        if !about.is_dir() {
            return Err(Unfit::NoFolder(next));
        }
        is_shared = about.mode() & WRITABLE_BY_OTHERS != 0;
        if is_shared && about.mode() & STICKY == 0 {
            return Err(Unfit::Writable(next, about.mode() & 0o7777));
        }
        at = next;
    }
    Ok(())
}

/// Users who can do anything on this machine, or are this one.
struct Trusted {
    own: u32,
    /// Root, or who it is in a user namespace that has no root.
    system: u32,
}

impl Trusted {
    fn learn() -> Result<Trusted, Unfit> {
        let root = fs::symlink_metadata("/").map_err(|error| unreadable(Path::new("/"), &error))?;
        Ok(Trusted { own: geteuid().as_raw(), system: root.uid() })
    }

    fn owns(&self, about: &Metadata) -> bool {
        [0, self.own, self.system].contains(&about.uid())
    }
}

/// The names below `/`, the last one first.
fn components(path: &Path) -> Result<Vec<OsString>, Unfit> {
    match path.is_absolute() {
        true => Ok(relative_components(path)),
        false => Err(Unfit::Relative(path.into())),
    }
}

fn relative_components(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.rev().collect()
}

fn unreadable(path: &Path, error: &io::Error) -> Unfit {
    Unfit::Unreadable { path: path.into(), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use nexus_api::paths::Surroundings;

    use super::*;

    const STRANGER: u32 = 61_071;

    fn is_root() -> bool {
        let root = geteuid().is_root();
        if !root {
            println!("skipped: this test needs root");
        }
        root
    }

    /// A home on a network file system, and a runtime folder beside it.
    fn stage(runtime_dir: bool) -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().join("run");
        DirBuilder::new().mode(0o700).create(&runtime).unwrap();
        let around = Surroundings {
            nexus_home: Some(dir.path().join("home").into()),
            runtime_dir: runtime_dir.then(|| runtime.into()),
            hostname: "box".into(),
            ..Surroundings::default()
        };
        let home = Home::find(&around, |_| true).unwrap();
        fs::create_dir_all(&home.dir).unwrap();
        (dir, home)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_runtime_folder_is_used_and_client_and_service_agree() {
        let (dir, home) = stage(true);
        let made = make(&home).unwrap();
        assert!(made.socket_dir().starts_with(dir.path().join("run")), "{made:?}");
        assert_eq!(fs::metadata(made.socket_dir()).unwrap().mode() & 0o7777, 0o700);
        assert_eq!(find(home.clone()), made);
        assert_eq!(unfit_runtime_dir(&home), None);
        assert!(!home.dir.join(NAME_FILE).exists());
    }

    #[test]
    fn without_one_the_folder_has_a_random_name_that_stands_in_the_home() {
        let (_dir, home) = stage(false);
        let made = make(&home).unwrap();
        assert!(made.socket_dir().starts_with("/tmp"), "{made:?}");
        assert_eq!(fs::metadata(home.dir.join(NAME_FILE)).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(find(home.clone()), made);
        assert_eq!(make(&home).unwrap(), made, "the name stays");
        // It was deleted, and is free.
        fs::remove_dir(made.socket_dir()).unwrap();
        assert_eq!(make(&home).unwrap(), made);
        let (_other, home) = stage(false);
        let other = make(&home).unwrap();
        assert_ne!(other.socket_dir(), made.socket_dir());
        fs::remove_dir(made.socket_dir()).unwrap();
        fs::remove_dir(other.socket_dir()).unwrap();
    }

    #[test]
    fn a_name_that_somebody_took_is_left_to_them_and_another_chosen() {
        if !is_root() {
            return;
        }
        let (_dir, home) = stage(false);
        let made = make(&home).unwrap();
        let taken = made.socket_dir().to_path_buf();
        for change in [Change::Owner, Change::Mode, Change::Link, Change::File] {
            fs::remove_dir(&taken).unwrap();
            change.make(&taken);
            write_down(&home.dir, &taken).unwrap();
            assert_ne!(find(home.clone()).socket_dir(), taken, "{change:?}");
            let again = make(&home).unwrap();
            assert_ne!(again.socket_dir(), taken, "{change:?}");
            fs::remove_dir(again.socket_dir()).unwrap();
            change.undo(&taken);
        }
        fs::remove_dir(&taken).unwrap();
    }

    /// What may lie at the name.
    #[derive(Debug)]
    enum Change {
        Owner,
        Mode,
        Link,
        File,
    }

    impl Change {
        fn make(&self, path: &Path) {
            match self {
                Change::Owner => {
                    DirBuilder::new().mode(0o700).create(path).unwrap();
                    chown(path, Some(STRANGER), None).unwrap();
                }
                Change::Mode => {
                    fs::create_dir(path).unwrap();
                    mode(path, 0o777);
                }
                Change::Link => symlink("/root", path).unwrap(),
                Change::File => fs::write(path, "").unwrap(),
            }
        }

        fn undo(&self, path: &Path) {
            if matches!(self, Change::Link | Change::File) {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            }
        }
    }

    #[test]
    fn a_runtime_folder_in_other_hands_is_not_used_and_the_reason_told() {
        let (dir, home) = stage(true);
        let runtime = dir.path().join("run");
        let refused = |says: &str| {
            let why = unfit_runtime_dir(&home).expect("it is not fit").to_string();
            assert!(why.contains(says), "{why}");
            let made = make(&home).unwrap();
            assert!(made.socket_dir().starts_with("/tmp/") && !made.socket_dir().starts_with(&runtime), "{made:?}");
            assert_eq!(find(home.clone()), made);
            fs::remove_dir(made.socket_dir()).unwrap();
        };
        mode(&runtime, 0o770);
        refused("other users can write to ");
        mode(&runtime, 0o700);
        mode(dir.path(), 0o777);
        refused("other users can write to ");
        mode(dir.path(), 0o1777);
        fs::rename(&runtime, dir.path().join("moved")).unwrap();
        symlink("moved", &runtime).unwrap();
        refused("is a symbolic link");
        fs::remove_file(&runtime).unwrap();
        fs::write(&runtime, "").unwrap();
        refused("is not a folder");
        if is_root() {
            fs::remove_file(&runtime).unwrap();
            fs::create_dir(&runtime).unwrap();
            chown(&runtime, Some(STRANGER), None).unwrap();
            refused("belongs to user 61071");
        }
    }

    #[test]
    fn a_link_of_the_system_is_followed() {
        let (dir, home) = stage(true);
        fs::create_dir(dir.path().join("real")).unwrap();
        mode(&dir.path().join("real"), 0o755);
        fs::rename(dir.path().join("run"), dir.path().join("real/run")).unwrap();
        symlink("real/../real/./run", dir.path().join("run")).unwrap();
        assert!(make(&home).unwrap().socket_dir().starts_with(dir.path().join("run")));
    }

    #[test]
    fn a_file_that_others_can_write_names_nothing() {
        let (dir, home) = stage(false);
        let own = dir.path().join("own");
        DirBuilder::new().mode(0o700).create(&own).unwrap();
        write_down(&home.dir, &own).unwrap();
        assert_eq!(find(home.clone()).socket_dir(), own);
        mode(&home.dir.join(NAME_FILE), 0o666);
        assert_ne!(find(home.clone()).socket_dir(), own);
        fs::remove_file(home.dir.join(NAME_FILE)).unwrap();
        symlink(dir.path().join("elsewhere"), home.dir.join(NAME_FILE)).unwrap();
        assert_ne!(find(home).socket_dir(), own);
    }
}
