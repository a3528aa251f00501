//! `nexus __slurm BATCH`: what Slurm starts on a compute node. It becomes the shim of one run of a batch, if that run is
//! still to begin, and ends as the job did.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use nexus_api::run_dir::{ExitStatus, RunSpec, SLURM_JOB, SPEC};

use super::batch::Batch;
use super::judge::{FENCED, NO_GPUS};
use crate::inspect::{Seen, inspect_from_afar};
use crate::run_file;
use crate::shim::{self, Known};
use crate::signals;
use crate::system_file;

/// What a run is told, with its whole environment, is no longer; nor are the runs of a batch.
pub const MAX_SPEC_BYTES: u64 = 256 << 20;

/// The job of Slurm that a run began in: four short words.
pub const MAX_JOB_BYTES: u64 = 4096;

/// For Slurm: it could not be begun.
const FAILED: i32 = 75;

/// What Slurm says of the GPUs that it gave, in the words of each maker.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
const GIVEN: [&str; 5] =
    [VISIBLE, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL"];

/// Where it says how many it gave, for sites that have it set none of those.
const COUNTED: [&str; 3] = ["SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_GPUS_ON_NODE"];

/// Lives through one run. Standard error is kept for people.
pub fn main(batch: &Path) -> ! {
    // A signal for the shim may come as soon as it exists.
    signals::block_for_shim();
    let code = match run(batch) {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            FAILED
        }
    };
    std::process::exit(code)
}

fn run(batch: &Path) -> Result<i32, String> {
    let failed = |what: &str, path: &Path, error: &dyn std::fmt::Display| format!("{what} {}: {error}", path.display());
    let text = run_file::read(batch, MAX_SPEC_BYTES).map_err(|error| failed("cannot read", batch, &error))?;
    let batch: Batch = serde_json::from_slice(&text).map_err(|error| failed("cannot read", batch, &error))?;
    let task = std::env::var("SLURM_ARRAY_TASK_ID").ok().and_then(|task| task.parse().ok());
    let place = batch.runs.get(task.unwrap_or(0)).ok_or("its array has no such place")?;
    let path = place.dir.join(SPEC);
    let spec = match run_file::read(&path, MAX_SPEC_BYTES) {
        Ok(text) => serde_json::from_slice::<RunSpec>(&text).map_err(|error| failed("cannot read", &path, &error))?,
        Err(_) if !matches!(inspect_from_afar(&place.dir), Ok(Seen::NotStarted)) => return Ok(fenced(&place.dir)),
        Err(error) => return Err(failed("cannot read", &path, &error)),
    };
    if !has_gpus(&spec) {
        complain("Slurm gave it no GPU");
        return Ok(NO_GPUS);
    }
    let known = Known::learn().map_err(|error| format!("cannot learn what machine this is: {error}"))?;
    let guard = system_file::null().map_err(|error| format!("cannot open /dev/null: {error}"))?;
    let mut is_mine = false;
    shim::watch_here(with_slurms(spec), &known, guard.into(), || {
        is_mine = true;
        let mut made = run_file::create(&place.dir.join(SLURM_JOB));
        let _ = made.as_mut().map(|file| file.write_all(own_number().as_bytes()));
        let _ = fs::remove_file(&path);
    });
    match inspect_from_afar(&place.dir) {
        Ok(Seen::NotStarted) => Err(format!("cannot use {}", place.dir.display())),
        _ if !is_mine => Ok(fenced(&place.dir)),
        Ok(Seen::Exited(record)) => Ok(match record.status {
            ExitStatus::Exited { code } => code,
            ExitStatus::Signaled { signal } => 128 + signal,
            ExitStatus::StartError { .. } | ExitStatus::MachineError { .. } | ExitStatus::NeverBegan => FAILED,
            ExitStatus::GpuLocked { .. } => FAILED,
        }),
        _ => Ok(0),
    }
}

/// For the node, which tells people.
fn complain(text: &str) {
    let host = crate::home::hostname();
    let _ = io::Write::write_all(&mut io::stderr(), format!("{host}: {text}\n").as_bytes());
}

/// Whether it was given any, if it asked for some: without them it would fail for a reason that nobody sees.
fn has_gpus(spec: &RunSpec) -> bool {
    let is_told = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    spec.slurm.as_ref().is_none_or(|request| request.gpus == 0) || GIVEN.iter().chain(&COUNTED).any(is_told)
}

/// Somebody was first: the run began before, or never will.
fn fenced(dir: &Path) -> i32 {
    match inspect_from_afar(dir) {
        Ok(Seen::Claimed) => 0,
        _ => FENCED,
    }
}

/// The job, its place in the array, what srun calls it, and how often Slurm has restarted it.
fn own_number() -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let raw = variable("SLURM_JOB_ID").unwrap_or_default();
    let job = variable("SLURM_ARRAY_JOB_ID").unwrap_or_else(|| raw.clone());
    let task = variable("SLURM_ARRAY_TASK_ID").unwrap_or_else(|| "-".into());
    format!("{job} {task} {raw} {}\n", variable("SLURM_RESTART_COUNT").unwrap_or_else(|| "0".into()))
}

/// The GPUs are those that Slurm gave, whatever nexus thought, and programs of Slurm find their job.
fn with_slurms(mut spec: RunSpec) -> RunSpec {
    let given = |name: &str| GIVEN.contains(&name) || name.starts_with("SLURM_");
    spec.env.retain(|name| !given(name));
    let own =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    spec.env.extend(own.filter(|(name, _)| given(name)));
    // Without GPUs Slurm says nothing, and a program would see all of them.
    if spec.env.get(VISIBLE).is_none() {
        spec.env.push(VISIBLE, "");
    }
    spec
}
