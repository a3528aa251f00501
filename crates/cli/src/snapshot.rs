//! What a folder has in it now, kept for jobs that run later: `--sync`.
//!
//! ```text
//!   folder ── what .gitignore lets through ──> content, a hash ──> snapshots/<content>   as it was; sent to machines
//!                                                             └──> code/<content>        jobs on this machine run there
//! ```
//! The same content is kept once. What is copied is what is hashed, so a file that changes meanwhile makes another
//! content and never a wrong one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use nexus_api::jobs::Code;
use nexus_api::paths::Home;
use nexus_node::run_file;
use ring::digest::{Context, SHA256};

use crate::error::{CliError, Refused, Usage};
use crate::render::text;

/// More than that is data, not code.
const MOST_BYTES: u64 = 2 << 30;
const MOST_FILES: usize = 200_000;

/// Left out beside what `.gitignore` says, by the same rules.
const OWN_IGNORE: &str = ".nexusignore";

/// Something in the folder, by its path there.
struct Entry {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    Folder,
    File { bytes: u64, executable: bool },
    Link { to: PathBuf },
}

/// Keeps what is in the folder.
pub fn take(folder: &Path, home: &Home) -> Result<Code, CliError> {
    let unreadable = |path: &Path| CliError::io(format!("--sync: {} cannot be read", path.display()));
    let of = folder.canonicalize().map_err(unreadable(folder))?;
    let entries = entries(&of, home)?;
    let content = digest(&of, &entries, |_, _| Ok(()))?;
    let of = of.into_os_string().into_string().map_err(|path| {
        Usage::new(format!("--sync: the path {path:?} is not valid UTF-8"), "another folder").of("add")
    })?;
    let content = match is_kept(&content, home) {
        true => content,
        false => keep(Path::new(&of), &entries, home)?,
    };
    Ok(Code { content, of })
}

fn is_kept(content: &str, home: &Home) -> bool {
    home.snapshots().join(content).is_dir() && home.code().join(content).is_dir()
}

/// All that is not left out, in an order that depends on nothing else.
fn entries(of: &Path, home: &Home) -> Result<Vec<Entry>, CliError> {
    let own = home.dir.canonicalize().unwrap_or_else(|_| home.dir.clone());
    let walk = WalkBuilder::new(of)
        .hidden(false)
        .require_git(false)
        .git_global(false)
        .add_custom_ignore_filename(OWN_IGNORE)
        .filter_entry(move |entry| entry.file_name() != ".git" && entry.path() != own)
        .sort_by_file_name(|one, other| one.cmp(other))
        .build();
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for found in walk {
        let found = found.map_err(|error| {
            let why = Some(error.to_string());
            Refused { error: "--sync cannot read all of the folder".into(), why, hint: Some(leave_out()) }
        })?;
        let path = found.path().strip_prefix(of).expect("it is below the folder").to_owned();
        if path.as_os_str().is_empty() {
            continue;
        }
        let kind = kind(found.path()).map_err(CliError::io(format!("--sync: {} cannot be read", path.display())))?;
        // Sockets and the like are nobody's code.
        let Some(kind) = kind else { continue };
        if let Kind::File { bytes: size, .. } = kind {
            bytes += size;
        }
        entries.push(Entry { path, kind });
        if bytes > MOST_BYTES || entries.len() > MOST_FILES {
            return Err(too_much(of, &entries, bytes).into());
        }
    }
    Ok(entries)
}

fn leave_out() -> String {
    format!("name what is no code in .gitignore or {OWN_IGNORE}")
}

/// Which part of it is so large.
fn too_much(of: &Path, entries: &[Entry], bytes: u64) -> Refused {
    let mut parts: Vec<(u64, &Path)> = Vec::new();
    for Entry { path, kind } in entries {
        let (Kind::File { bytes, .. }, Some(first)) = (kind, path.iter().next()) else { continue };
        match parts.iter_mut().find(|(_, known)| *known == Path::new(first)) {
            Some((sum, _)) => *sum += bytes,
            None => parts.push((*bytes, Path::new(first))),
        }
    }
    parts.sort_unstable_by(|one, other| other.cmp(one));
    let largest = parts.first().map(|(bytes, path)| format!(", {} of it in {}", size(*bytes), path.display()));
    let seen = format!("{} files and {}", entries.len(), size(bytes));
    Refused {
        error: format!("--sync {} is more than code", of.display()),
        why: Some(format!("{seen} were counted{}", largest.unwrap_or_default())),
        hint: Some(format!("{}; at most {} and {MOST_FILES} files are taken", leave_out(), size(MOST_BYTES))),
    }
}

fn size(bytes: u64) -> String {
    text::memory(bytes >> 20)
}

/// None for what is neither.
fn kind(path: &Path) -> io::Result<Option<Kind>> {
    let about = fs::symlink_metadata(path)?;
    let executable = about.permissions().mode() & 0o100 != 0;
    Ok(match about.file_type() {
        kind if kind.is_dir() => Some(Kind::Folder),
        kind if kind.is_symlink() => Some(Kind::Link { to: fs::read_link(path)? }),
        kind if kind.is_file() => Some(Kind::File { bytes: about.len(), executable }),
        _ => None,
    })
}

/// The hash of it all. `each` is shown the bytes of files as they are read: of which entry.
fn digest(
    of: &Path,
    entries: &[Entry],
    mut each: impl FnMut(usize, &[u8]) -> io::Result<()>,
) -> Result<String, CliError> {
    let mut all = Context::new(&SHA256);
    let mut piece = vec![0; 64 << 10];
    for (place, Entry { path, kind }) in entries.iter().enumerate() {
        let failed = |error| CliError::io(format!("--sync: {} cannot be kept", path.display()))(error);
        let word: &[u8] = match kind {
            Kind::Folder => b"folder",
            Kind::File { executable: true, .. } => b"program",
            Kind::File { executable: false, .. } => b"file",
            Kind::Link { .. } => b"link",
        };
        let mut field = |bytes: &[u8]| {
            all.update(&(bytes.len() as u64).to_le_bytes());
            all.update(bytes);
        };
        field(word);
        field(path.as_os_str().as_bytes());
        match kind {
            Kind::Folder => {}
            Kind::Link { to } => field(to.as_os_str().as_bytes()),
            Kind::File { .. } => {
                let (mut file, mut own) =
                    (run_file::open_of_any_user(&of.join(path)).map_err(failed)?, Context::new(&SHA256));
                loop {
                    let length = file.read(&mut piece).map_err(failed)?;
                    own.update(&piece[..length]);
                    each(place, &piece[..length]).map_err(failed)?;
                    if length == 0 {
                        break;
                    }
                }
                field(own.finish().as_ref());
            }
        }
    }
    let hex: String = all.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hex[..Code::LETTERS].to_string())
}

/// Copies it, and names the copy by what was copied.
fn keep(of: &Path, entries: &[Entry], home: &Home) -> Result<String, CliError> {
    let failed = |path: &Path| CliError::io(format!("--sync: {} cannot be written", path.display()));
    let [kept, code] = [home.snapshots(), home.code()];
    for folder in [&kept, &code] {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed(folder))?;
    }
    let part = Part(kept.join(format!(".part-{}", std::process::id())));
    lay_out(&part.0, entries).map_err(failed(&part.0))?;
    let mut open: Option<(usize, File)> = None;
    let content = digest(of, entries, |place, bytes| {
        let file = match open.take() {
            Some((known, file)) if known == place => file,
            _ => create(&part.0.join(&entries[place].path), &entries[place].kind)?,
        };
        open.insert((place, file)).1.write_all(bytes)
    })?;
    for folder in [&code, &kept] {
        let whole = folder.join(&content);
        if whole.is_dir() {
            continue;
        }
        let from = match folder == &kept {
            true => None,
            // A copy of the copy: both have the same in them, whatever happens to the folder meanwhile.
            false => {
                let second = Part(code.join(format!(".part-{}", std::process::id())));
                copy(&part.0, &second.0, entries).map_err(failed(&second.0))?;
                Some(second)
            }
        };
        let from = from.as_ref().map_or(&part.0, |second| &second.0);
        match fs::rename(from, &whole) {
            // Somebody else did the same.
            Err(_) if whole.is_dir() => {}
            renamed => renamed.map_err(failed(&whole))?,
        }
    }
    Ok(content)
}

/// A copy that is not whole yet: gone when it is dropped, unless it was renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // Mostly it has its name by now.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Folders and links; files are empty.
fn lay_out(to: &Path, entries: &[Entry]) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(to)?;
    for Entry { path, kind } in entries {
        match kind {
            Kind::Folder => fs::create_dir(to.join(path))?,
            Kind::Link { to: target } => symlink(target, to.join(path))?,
            Kind::File { .. } => {}
        }
    }
    Ok(())
}

fn create(path: &Path, kind: &Kind) -> io::Result<File> {
    let mode = if matches!(kind, Kind::File { executable: true, .. }) { 0o700 } else { 0o600 };
    run_file::create_new_with(path, mode)
}

fn copy(from: &Path, to: &Path, entries: &[Entry]) -> io::Result<()> {
    lay_out(to, entries)?;
    for Entry { path, kind } in entries {
        if let Kind::File { .. } = kind {
            io::copy(&mut run_file::open_of_any_user(&from.join(path))?, &mut create(&to.join(path), kind)?)?;
        }
    }
    Ok(())
}
