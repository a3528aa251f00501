//! What is to be copied: all files, folders and links of a job's results, looked at before the first is copied. Nothing
//! that leads out of where the job said its results are becomes part of it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::paths;
use super::trouble::Trouble;

/// Where a job's results are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// What relative names count from.
    pub cwd: PathBuf,
    /// As the job printed them.
    pub named: Vec<String>,
    /// How many more it printed.
    pub left_out: u64,
    /// The folder of its own, which need not be there.
    pub own: PathBuf,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// By the path that each will have below the target; a folder comes before what is in it.
    #[serde(with = "paths::of_map")]
    pub items: BTreeMap<PathBuf, Item>,
    pub bytes: u64,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    #[serde(with = "paths")]
    pub from: PathBuf,
    pub what: What,
    pub mode: u32,
    /// Seconds and nanoseconds of its last change.
    pub modified: (i64, i64),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    Folder,
    File {
        bytes: u64,
    },
    Link {
        #[serde(with = "paths")]
        to: PathBuf,
    },
}

/// One thing that was named: where it is, and what it will be called.
struct Source {
    from: PathBuf,
    name: PathBuf,
}

impl Plan {
    /// `to`: where all of it goes, so that nothing is copied into itself; none where that is on another machine.
    pub fn of(sources: &Sources, to: Option<&Path>) -> Result<Plan, Trouble> {
        if sources.left_out > 0 {
            return Err(Trouble::TooMany { count: sources.left_out });
        }
        let mut plan = Plan { items: BTreeMap::new(), bytes: 0 };
        for text in &sources.named {
            for source in named(text, &sources.cwd)? {
                plan.add(source, to)?;
            }
        }
        if found(&sources.own)?.is_some_and(|about| about.is_dir()) {
            let own = real(&sources.own).map_err(read(&sources.own))?;
            for (name, from) in entries(&own)? {
                plan.add_below(Source { from, name: name.into() }, &own, to)?;
            }
        }
        Ok(plan)
    }

    /// As another machine made it, and only if nothing of it would lie elsewhere: no name leads up, and each is in folders
    /// that are part of it, never behind a link.
    pub fn checked(self, of: &Path) -> Result<Plan, Trouble> {
        let is_plain = |name: &Path| {
            let parts_are = name.components().all(|part| matches!(part, Component::Normal(_)));
            parts_are && !name.as_os_str().is_empty()
        };
        let is_folder = |name: &Path| self.items.get(name).is_some_and(|item| item.what == What::Folder);
        let lies_here = |name: &Path| {
            let mut above = name.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            is_plain(name) && above.all(is_folder)
        };
        match self.items.keys().find(|name| !lies_here(name)) {
            Some(name) => Err(leads_out(name.clone(), of)),
            None => Ok(self),
        }
    }

    /// Something that was named: all of it, with what is in it.
    fn add(&mut self, source: Source, to: Option<&Path>) -> Result<(), Trouble> {
        // A link that was named stands for what it leads to.
        let nowhere = |_| Trouble::LeadsNowhere { path: source.from.clone() };
        let target = real(&source.from).map_err(nowhere)?;
        self.folders_above(&source)?;
        let root = target.clone();
        self.add_below(Source { from: target, name: source.name }, &root, to)
    }

    /// The folders that its name has before it.
    fn folders_above(&mut self, source: &Source) -> Result<(), Trouble> {
        let mut from = source.from.parent();
        for name in source.name.ancestors().skip(1).filter(|name| !name.as_os_str().is_empty()) {
            let Some(folder) = from else { break };
            let about = fs::metadata(folder).map_err(read(folder))?;
            self.insert(name.to_path_buf(), Item::of(folder.to_path_buf(), What::Folder, &about))?;
            from = folder.parent();
        }
        Ok(())
    }

    /// `root`: what links may lead into.
    fn add_below(&mut self, source: Source, root: &Path, to: Option<&Path>) -> Result<(), Trouble> {
        let mut left = vec![source];
        while let Some(Source { from, name }) = left.pop() {
            let about = fs::symlink_metadata(&from).map_err(read(&from))?;
            if about.is_dir() {
                if let Some(to) = to.filter(|to| to.starts_with(&from)) {
                    return Err(Trouble::Within { path: from, to: to.to_path_buf() });
                }
                for (entry, path) in entries(&from)? {
                    left.push(Source { from: path, name: name.join(entry) });
                }
                self.insert(name, Item::of(from, What::Folder, &about))?;
            } else if about.is_symlink() {
                let link = link(&from, root)?;
                self.insert(name, Item::of(from, link, &about))?;
            } else if about.is_file() {
                self.insert(name, Item::of(from, What::File { bytes: about.len() }, &about))?;
            } else {
                return Err(Trouble::Special { path: from, what: kind(&about).into() });
            }
        }
        Ok(())
    }

    fn insert(&mut self, name: PathBuf, item: Item) -> Result<(), Trouble> {
        if let Some(known) = self.items.get(&name) {
            let both_folders = known.what == What::Folder && item.what == What::Folder;
            if both_folders || known.from == item.from {
                return Ok(());
            }
            return Err(Trouble::SameName { one: known.from.clone(), other: item.from, name });
        }
        if let What::File { bytes } = item.what {
            self.bytes += bytes;
        }
        self.items.insert(name, item);
        Ok(())
    }
}

impl Item {
    fn of(from: PathBuf, what: What, about: &Metadata) -> Item {
        Item { from, what, mode: about.mode() & 0o777, modified: (about.mtime(), about.mtime_nsec()) }
    }
}

/// What a `RESULTS:` line means: just that path if there is something, else all whose names begin so.
fn named(text: &str, cwd: &Path) -> Result<Vec<Source>, Trouble> {
    let given = Path::new(text);
    let relative = given.is_relative();
    let name = match relative {
        true => inside(given).ok_or_else(|| leads_out(cwd.join(given), cwd))?,
        // Under its last name.
        false => given.file_name().map(PathBuf::from).ok_or(Trouble::Missing { path: given.to_path_buf() })?,
    };
    let path = if relative { cwd.join(&name) } else { given.to_path_buf() };
    let stays = |path: &Path| match relative {
        true => stays_in(path, cwd),
        false => Ok(()),
    };
    let all = |folder: &Path, above: &Path, prefix: &OsStr| {
        let begins = |(entry, _): &(OsString, PathBuf)| entry.as_bytes().starts_with(prefix.as_bytes());
        let source = |(entry, from): (OsString, PathBuf)| {
            stays(&from)?;
            Ok(Source { from, name: above.join(entry) })
        };
        entries(folder)?.into_iter().filter(begins).map(source).collect::<Result<Vec<_>, Trouble>>()
    };
    if name.as_os_str().is_empty() {
        // The folder itself: all that is in it.
        return all(cwd, Path::new(""), OsStr::new(""));
    }
    if found(&path)?.is_some() {
        stays(&path)?;
        return Ok(vec![Source { from: path, name }]);
    }
    let (Some(folder), Some(prefix)) = (path.parent(), path.file_name()) else {
        return Err(Trouble::Missing { path });
    };
    if text.ends_with('/') || found(folder)?.is_none_or(|about| !about.is_dir()) {
        return Err(Trouble::Missing { path });
    }
    stays(folder)?;
    let matching = all(folder, name.parent().unwrap_or(Path::new("")), prefix)?;
    match matching.is_empty() {
        true => Err(Trouble::Missing { path }),
        false => Ok(matching),
    }
}

/// A relative path without `.` and `..`; none where it leads above its beginning.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut name = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => name.push(part),
            Component::CurDir => {}
            Component::ParentDir if name.pop() => {}
            _ => return None,
        }
    }
    Some(name)
}

/// Whether a path is in a folder, whatever links stand in it.
fn stays_in(path: &Path, folder: &Path) -> Result<(), Trouble> {
    let target = real(path).map_err(|_| Trouble::LeadsNowhere { path: path.to_path_buf() })?;
    match target.starts_with(real(folder).map_err(read(folder))?) {
        true => Ok(()),
        false => Err(leads_out(path.to_path_buf(), folder)),
    }
}

fn leads_out(path: PathBuf, folder: &Path) -> Trouble {
    Trouble::LeadsOut { path, folder: folder.to_path_buf() }
}

/// A link inside of what is copied, which must lead to something that is copied too.
fn link(path: &Path, root: &Path) -> Result<What, Trouble> {
    let target = real(path).map_err(|_| Trouble::LeadsNowhere { path: path.to_path_buf() })?;
    if !target.starts_with(root) {
        return Err(Trouble::LinkOut { path: path.to_path_buf(), folder: root.to_path_buf() });
    }
    let written = fs::read_link(path).map_err(read(path))?;
    if written.is_relative() {
        return Ok(What::Link { to: written });
    }
    // Written in full it would lead back to the original.
    let here = path.parent().unwrap_or(root);
    let up = here.strip_prefix(root).map_or(0, |below| below.components().count());
    let down = target.strip_prefix(root).expect("looked at above");
    let to: PathBuf = std::iter::repeat_n(OsStr::new(".."), up).collect::<PathBuf>().join(down);
    Ok(What::Link { to })
}

fn kind(about: &Metadata) -> &'static str {
    let kind = about.file_type();
    match () {
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_block_device() || kind.is_char_device() => "a device",
        () => "something else",
    }
}

/// None where there is nothing.
fn found(path: &Path) -> Result<Option<Metadata>, Trouble> {
    match fs::symlink_metadata(path) {
        Ok(about) => Ok(Some(about)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(Trouble::Read { path: path.to_path_buf(), source }),
    }
}

fn entries(folder: &Path) -> Result<Vec<(OsString, PathBuf)>, Trouble> {
    let named = |entry: fs::DirEntry| (entry.file_name(), entry.path());
    let list = || fs::read_dir(folder)?.map(|entry| entry.map(named)).collect::<io::Result<Vec<_>>>();
    let mut list = list().map_err(read(folder))?;
    list.sort();
    Ok(list)
}

fn real(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

fn read(path: &Path) -> impl FnOnce(io::Error) -> Trouble + use<> {
    let path = path.to_path_buf();
    |source| Trouble::Read { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_a_machine_that_lies_is_refused() {
        let item = |what| Item { from: "/there".into(), what, mode: 0o644, modified: (0, 0) };
        let plan = |items: Vec<(&str, What)>| {
            let items = items.into_iter().map(|(name, what)| (PathBuf::from(name), item(what))).collect();
            Plan { items, bytes: 0 }.checked(Path::new("/own")).is_ok()
        };
        let (file, link) = (|| What::File { bytes: 1 }, || What::Link { to: "/etc".into() });
        assert!(plan(vec![("a", What::Folder), ("a/b", What::Folder), ("a/b/c", file()), ("l", link())]));
        for name in ["../x", "/etc/x", "a/../../x", "", "."] {
            assert!(!plan(vec![("a", What::Folder), (name, file())]), "{name}");
        }
        assert!(!plan(vec![("a", link()), ("a/x", file())]), "behind a link");
        assert!(!plan(vec![("a/x", file())]), "in a folder that is not part of it");
    }
}
