//! `config.toml` on disk: read with a clear word on what is wrong, made at first use, replaced whole or not at all.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_node::trust::{self, OpenError, Writers};
use nexus_node::{own_file, run_file};
use rustix::fs::{FlockOperation, flock};

use super::entries::Fault;
use super::read::{Settings, read};
use super::template::template;
use crate::text_file;

pub struct ConfigFile {
    pub path: PathBuf,
    lock: PathBuf,
    /// Its presence says that files which strangers can write are refused in this home.
    strict: PathBuf,
    dir: PathBuf,
    pub user_home: Option<PathBuf>,
}

/// Nobody else changes the file through nexus meanwhile.
pub struct Locked<'a> {
    file: &'a ConfigFile,
    _lock: File,
}

impl ConfigFile {
    pub fn of(home: &Home) -> ConfigFile {
        ConfigFile {
            path: home.config(),
            lock: home.dir.join("config.lock"),
            strict: home.dir.join("strict-files"),
            dir: home.dir.clone(),
            user_home: std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
        }
    }

    /// What it says; the defaults where there is none.
    pub fn settings(&self) -> Result<Settings, Problem> {
        match self.text()? {
            Some(text) => self.read(&text),
            None => Ok(Settings::default()),
        }
    }

    pub fn read(&self, text: &str) -> Result<Settings, Problem> {
        read(text, self.user_home.as_deref()).map_err(|fault| self.bad(fault))
    }

    /// Its text; none where there is no file. One that strangers can write is refused, unless this home is of a version
    /// that did not look, and this one was not started in it yet.
    pub fn text(&self) -> Result<Option<String>, Problem> {
        let read = match text_file::read(&self.path, &Writers::own()) {
            Err(why) if why.untrusted.is_some() && !self.is_strict() => text_file::read_of_anybody(&self.path),
            read => read,
        };
        read.map_err(|why| self.bad(Fault { line: why.line, error: why.error }))
    }

    pub fn is_strict(&self) -> bool {
        self.strict.exists()
    }

    /// From now on files that strangers can write are refused.
    pub fn make_strict(&self) -> Result<(), Problem> {
        let text = "Here configuration that other users can write is refused: docs/config.md\n";
        let made = run_file::create_new(&self.strict);
        match made.and_then(|mut file| file.write_all(text.as_bytes())) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(self.unusable(&error)),
            _ => Ok(()),
        }
    }

    /// What is obeyed at the first start of a version that looks who can write, and refused from the next start on:
    /// sentences for the user. Of the file of models that the configuration names, too.
    pub fn doubts(&self) -> Vec<String> {
        if self.is_strict() || !self.path.exists() {
            return vec![];
        }
        let config = self.settings().ok().map(|settings| settings.config);
        let (models, variables) = config.map_or((None, None), |config| (config.models_file, config.env_file));
        let once = "is read this once, and refused from the next start on";
        let files =
            [(Some(self.path.clone()), once), (models, once), (variables, "is refused, and no job starts with it")];
        let doubt = |path: &Path, what: &str| match trust::check(path, &Writers::own()) {
            Err(OpenError::Untrusted(untrusted)) => Some(format!("{} {what}: {untrusted}", path.display())),
            _ => None,
        };
        files.iter().filter_map(|(path, what)| doubt(path.as_deref()?, what)).collect()
    }

    /// Makes it, with every key at its default, where there is none: whole or not at all, since a service does not start with
    /// half a file.
    pub fn make(&self) -> Result<(), Problem> {
        match self.path.symlink_metadata() {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                // Nothing of an older version is here that could have to be read once more.
                self.make_strict()?;
                replace(&self.path, &template()).map_err(|error| self.unusable(&error))
            }
            Err(error) => Err(self.unusable(&error)),
        }
    }

    /// Waits for others who change the file through nexus.
    pub fn lock(&self) -> Result<Locked<'_>, Problem> {
        crate::home::make_private(&self.dir)?;
        let lock = own_file::open_lock(&self.lock).map_err(|error| self.unusable(&error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| self.unusable(&error.into()))?;
        Ok(Locked { file: self, _lock: lock })
    }

    pub fn bad(&self, fault: Fault) -> Problem {
        Problem::BadConfig { path: self.path.display().to_string(), line: fault.line, error: fault.error }
    }

    fn unusable(&self, error: &std::io::Error) -> Problem {
        Problem::HomeUnusable { path: self.path.display().to_string(), error: error.to_string() }
    }
}

impl Locked<'_> {
    /// Its text, made first where there is none.
    pub fn text(&self) -> Result<String, Problem> {
        self.file.make()?;
        Ok(self.file.text()?.unwrap_or_default())
    }

    /// Puts a new text in its place, whole or not at all. A link stays one, and the file keeps its mode.
    pub fn replace(&self, text: &str) -> Result<(), Problem> {
        let target = std::fs::canonicalize(&self.file.path).unwrap_or_else(|_| self.file.path.clone());
        replace(&target, text).map_err(|error| self.file.unusable(&error))
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let found = std::fs::metadata(path).ok();
    let mode = found.as_ref().map_or(0o600, |found| found.mode() & 0o7777);
    let part = path.with_extension(format!("toml.part{}", std::process::id()));
    let written = run_file::create(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        if let Some(found) = &found {
            // Only root can, and only root needs to.
            let _ = std::os::unix::fs::fchown(&file, Some(found.uid()), Some(found.gid()));
        }
        file.sync_all()?;
        std::fs::rename(&part, path)
    });
    if written.is_err() {
        // What could not be written is of no use to anybody.
        let _ = std::fs::remove_file(&part);
    }
    written
}
