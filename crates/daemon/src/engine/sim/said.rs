//! What pretended machines say: who they are, what their GPUs are, how processes ended.

use std::time::Duration;

use nexus_api::results::Found;
use nexus_api::run_dir::{Cause, ExitRecord, ExitStatus, FORMAT};
use nexus_core::ids::{MachineId, RunId};
use nexus_core::run::Outcome;
use nexus_node::Report;
use nexus_node::gpu::{GpuSeen, GpuState, Reading, Source, Vitals};
use nexus_node::line::Hello;
use nexus_testkit::Chance;

use super::park::Life;
use crate::clock;

pub fn natural_end(chance: &mut Chance) -> Outcome {
    match chance.below(12) {
        0 => Outcome::Exited { code: 1 + chance.below(200) as i32 },
        1 => Outcome::Signaled { signal: chance.pick(&[9, 11, 15]) },
        2 => Outcome::TimedOut { code: None, signal: Some(15) },
        _ => Outcome::Exited { code: 0 },
    }
}

/// `ran`: by the boot clock, as a shim measures it.
pub fn ended_report(run: RunId, life: &Life, ran: Duration) -> Report {
    let (code, signal, cause) = match &life.outcome {
        Outcome::Exited { code } => (Some(*code), None, Cause::Own),
        Outcome::Signaled { signal } => (None, Some(*signal), Cause::Own),
        Outcome::Stopped { code, signal } => (*code, *signal, Cause::Asked),
        Outcome::TimedOut { code, signal } => (*code, *signal, Cause::Timeout),
        other => panic!("no process ends as {other:?} here"),
    };
    let status = match (code, signal) {
        (Some(code), _) => ExitStatus::Exited { code },
        (None, signal) => ExitStatus::Signaled { signal: signal.expect("one of both") },
    };
    let record = ExitRecord {
        format: FORMAT,
        run: run.to_string(),
        status,
        cause,
        pid: Some(life.pid),
        started_at_ms: Some(clock::now().0 - ran.as_millis() as i64),
        ended_at_ms: clock::now().0,
        lost_output_bytes: 0,
        oom: None,
        found: Found::default(),
    };
    Report::Ended { run, record }
}

/// What is wrong with GPUs that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuTrouble {
    None,
    /// The second one.
    Lost,
    /// The driver's library was replaced under it.
    Mismatch,
}

/// Of a machine with two GPUs.
pub fn reading(trouble: GpuTrouble) -> Reading {
    let mismatch = (trouble == GpuTrouble::Mismatch).then(|| "Driver/library version mismatch".to_string());
    let state = |index| match (&mismatch, trouble) {
        (Some(error), _) => GpuState::Unreadable { error: error.clone() },
        (None, GpuTrouble::Lost) if index == 1 => GpuState::Unreadable { error: "GPU is lost".into() },
        _ => GpuState::Read(Vitals::default()),
    };
    let gpu = |index: u16| GpuSeen {
        index,
        uuid: format!("GPU-{index}"),
        name: "a GPU".into(),
        memory_mib: 24 << 10,
        state: state(index),
    };
    Reading { gpus: vec![gpu(0), gpu(1)], source: Some(Source::Nvml), error: mismatch.clone(), ..Reading::default() }
}

pub fn hello(machine: MachineId) -> Hello {
    let home = std::path::PathBuf::from(format!("/there/{machine:?}"));
    Hello {
        version: "1".into(),
        pid: 1,
        hostname: format!("{machine:?}"),
        user: "user".into(),
        logs: home.join("logs"),
        checkpoints: home.join("checkpoints"),
        results: home.join("results"),
        code: home.join("code"),
        screens: home.join("screens"),
        user_home: home.clone(),
        home,
        cpus: 8,
        ram_mib: 8192,
        boot_id: "1".into(),
        cgroups: false,
        memory_limits: false,
        bash: None,
        at_ms: clock::now().0,
    }
}
