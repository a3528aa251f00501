//! What a keeper works with: a real cluster, or one that pretends.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Duration;

use nexus_api::run_dir::{ExitRecord, RunSpec};
use nexus_core::ids::RunId;

use super::batch::Batch;
use super::parse::Word;
use super::words::{Cluster, SlurmNews};
use crate::inspect::Seen;
use crate::words::{Report, RunPlace};

/// The clock, the programs and the files that a keeper works with.
pub trait Site {
    /// Never goes back.
    fn now(&self) -> Duration;
    /// For people.
    fn at_ms(&self) -> i64;
    fn submit(&mut self, batch: &Batch) -> Submission;
    /// All jobs of this user that Slurm has in mind.
    fn words(&mut self) -> Result<Vec<Word>, String>;
    /// What it remembers of jobs that it has in mind no more; none without accounting.
    fn past(&mut self, jobs: &BTreeSet<u64>) -> Result<Vec<Word>, String>;
    fn cluster(&mut self) -> Result<Cluster, String>;
    fn cancel(&mut self, jobs: &[(u64, Option<u32>)], how: Cancel) -> Result<(), String>;
    fn look(&self, dir: &Path) -> io::Result<Seen>;
    /// The same, with what a network file system did not tell yet.
    fn look_hard(&self, dir: &Path) -> io::Result<Seen>;
    /// Which job of Slurm a run directory was begun by, and how often Slurm had restarted that before.
    fn begun_by(&self, dir: &Path) -> Option<(u64, Option<u32>, u32)>;
    fn claim(&self, dir: &Path) -> io::Result<bool>;
    /// Puts the record of a run in its directory, in the place of that of its shim if it wrote one.
    fn write_record(&mut self, dir: &Path, record: &ExitRecord) -> io::Result<()>;
    /// The run is given up: should anything of it live on, it is to end.
    fn fence(&mut self, dir: &Path);
    /// Puts a spec where the compute node finds it.
    fn lay_out(&self, spec: &RunSpec) -> io::Result<()>;
    /// Whether a spec lies there.
    fn is_laid_out(&self, dir: &Path) -> bool;
    /// What its script complained of.
    fn complaint(&self, batch: &str) -> String;
    /// Writes a batch down; it is on disk when this returns.
    fn keep(&mut self, batch: &Batch) -> io::Result<()>;
    fn forget(&mut self, batch: &str);
    /// All that were kept, and whether each could be read.
    fn kept(&self) -> io::Result<(Vec<Batch>, bool)>;
    /// Runs that began or ended, as their shims say.
    fn news(&mut self) -> Vec<RunId>;
    fn tidy(&mut self, place: RunPlace);
    fn report(&mut self, report: Report);
    fn tell(&mut self, news: SlurmNews);
}

/// What came of sbatch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submission {
    Taken(u64),
    /// Not now.
    Full(String),
    /// Not like this.
    Never(String),
    /// It may have been taken.
    Unclear(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cancel {
    /// The shim is told, and gives the job its grace.
    Gently,
    Outright,
}
