//! What a run needs and may be made before it is this process's to begin: its logs, terminals, folders and cgroup. Nothing of
//! it counts without the marker. What is made for a run that does not come is removed, but for the directory with its empty
//! logs: whoever begins the run later finds them as if made then.

use std::fs::File;
use std::path::{Path, PathBuf};

use nexus_api::run_dir::RunSpec;

use super::Shim;
use super::failure::Failure;
use super::finds::Finds;
use super::folder::Place;
use super::output::Output;
use super::own_folder::{OwnFolder, Spare};
use super::spawn::Command;
use super::terminal::Streams;
use super::viewers::Viewers;
use crate::cgroup;
use crate::memory_group::MemoryGroup;

/// A run that may come.
pub struct Prepared {
    pub spec: RunSpec,
    /// None where something was in the way: then it is made, or the failure told, when the run has come.
    pub made: Option<(Place, Ready)>,
}

impl Prepared {
    pub fn nothing_for(spec: RunSpec) -> Prepared {
        Prepared { spec, made: None }
    }
}

pub struct Ready {
    pub output: Output,
    pub streams: Streams,
    pub command: Command,
    /// For checkpoints and for results.
    pub own_folders: [Option<OwnFolder>; 2],
    pub finds: Finds,
    pub viewers: Viewers,
    pub group: Group,
}

impl Shim<'_> {
    /// Makes ready for a run that is about to be handed over.
    pub(super) fn prepare(&mut self, spec: RunSpec) -> Prepared {
        // A file that others see is made when there is something to see.
        let place = if spec.out.is_some() { None } else { Place::unmarked(&spec.dir) };
        let made = place.and_then(|place| Some((place, self.ready(&spec).ok()?)));
        Prepared { spec, made }
    }

    pub(super) fn ready(&mut self, spec: &RunSpec) -> Result<Ready, Failure> {
        let terminals = std::mem::take(&mut self.terminals);
        Ok(Ready {
            output: Output::open(spec, &spec.dir)?,
            streams: Streams::open(spec, terminals).map_err(Failure::machine("open a terminal"))?,
            command: Command::prepare(spec)?,
            own_folders: self.own_folders(spec)?,
            finds: Finds::new(&spec.extract),
            viewers: Viewers::open(spec),
            group: Group::make(spec),
        })
    }

    fn own_folders(&mut self, spec: &RunSpec) -> Result<[Option<OwnFolder>; 2], Failure> {
        let [spare_checkpoints, spare_results] = &mut self.spare;
        let open = |path: &Option<PathBuf>, spare: &mut Option<Spare>, operation: &'static str| {
            let open = |path: &PathBuf| {
                let failed = |source| Failure::MachineFile { operation, path: path.clone(), source };
                OwnFolder::open(path, spare.take()).map_err(failed)
            };
            path.as_ref().map(open).transpose()
        };
        Ok([
            open(&spec.checkpoint_dir, spare_checkpoints, "make the folder of checkpoints")?,
            open(&spec.results_dir, spare_results, "make the folder of results")?,
        ])
    }
}

/// A cgroup without processes and its memory, removed unless somebody takes them.
pub struct Group {
    /// None where there are none, or none can be made.
    dir: Option<PathBuf>,
    memory: Option<MemoryGroup>,
}

impl Group {
    fn make(spec: &RunSpec) -> Group {
        let is_there = |dir: &PathBuf| match std::fs::create_dir_all(dir) {
            Err(error) => error.kind() == std::io::ErrorKind::AlreadyExists,
            Ok(()) => true,
        };
        let dir = spec.cgroup_base.as_ref().map(|base| base.join(&spec.run)).filter(is_there);
        let memory = dir.as_deref().and_then(|dir| MemoryGroup::open(dir, spec.memory_max_mib));
        Group { dir, memory }
    }

    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// Through which a process joins its memory.
    pub fn door(&self) -> Option<File> {
        self.memory.as_ref().and_then(MemoryGroup::door)
    }

    pub fn take(mut self) -> (Option<PathBuf>, Option<MemoryGroup>) {
        (self.dir.take(), self.memory.take())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.remove();
        }
        if let Some(dir) = &self.dir {
            cgroup::remove(dir);
        }
    }
}
