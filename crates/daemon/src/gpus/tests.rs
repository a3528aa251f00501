//! Readings go in; what is decided on, shown and told comes out.

use std::path::{Path, PathBuf};

use nexus_api::service::Obstacle as Shown;
use nexus_core::ids::JobId;
use nexus_core::machine::Obstacle;
use nexus_core::request::GpuSet;
use nexus_node::gpu::{GpuProcess, GpuSeen, GpuState, LockHolder, Reading, Source, Vitals};

use super::{Gpus, Look};
use crate::config::{GpuConfig, GpuUse};
use crate::service_log::Line;

/// Runs of this service have their folders in `/ours`.
fn job_of(dir: &Path) -> Option<JobId> {
    dir.starts_with("/ours").then(|| nexus_api::run_dir::run_of(dir)).flatten().map(|run| run.job)
}

fn process(pid: u32, user: Option<&str>, name: Option<&str>, memory_mib: Option<u64>) -> GpuProcess {
    let (user, name) = (user.map(String::from), name.map(String::from));
    GpuProcess { pid, user, name, memory_mib, graphics: false, run_dir: None, ending: false }
}

fn python(memory_mib: u64) -> GpuProcess {
    process(4312, Some("alice"), Some("/usr/bin/python"), Some(memory_mib))
}

fn read(processes: Vec<GpuProcess>) -> GpuState {
    GpuState::Read(Vitals { processes, ..Vitals::default() })
}

fn unreadable() -> GpuState {
    GpuState::Unreadable { error: "it fell off the bus".into() }
}

fn reading(states: Vec<GpuState>) -> Reading {
    let gpu = |(state, index): (GpuState, u16)| {
        let (uuid, name) = (format!("GPU-{index}"), "NVIDIA GeForce RTX 3090".into());
        GpuSeen { index, uuid, name, memory_mib: 24_576, state }
    };
    let gpus = states.into_iter().zip(0..).map(gpu).collect();
    Reading { gpus, source: Some(Source::Nvml), driver: Some("550.1".into()), error: None }
}

fn set(indices: &[u16]) -> GpuSet {
    indices.iter().copied().collect()
}

/// A service that holds some GPUs and sees reading after reading.
struct Seen {
    gpus: Gpus,
    config: GpuConfig,
    held: GpuSet,
}

impl Seen {
    fn new(config: GpuConfig) -> Seen {
        Seen { gpus: Gpus::new(0), config, held: GpuSet::EMPTY }
    }

    fn read(&mut self, reading: Reading) -> Look {
        self.gpus.take(reading, self.held);
        self.look()
    }

    fn look(&mut self) -> Look {
        self.gpus.look(&super::unread(), &self.config, self.held, &job_of)
    }

    fn lines(&mut self, reading: Reading) -> Vec<String> {
        texts(self.read(reading).lines)
    }
}

fn texts(lines: Vec<Line>) -> Vec<String> {
    lines.into_iter().map(|line| line.text).collect()
}

fn obstacles(look: &Look) -> Vec<Option<Obstacle>> {
    look.machine.gpus.iter().map(|gpu| gpu.obstacle).collect()
}

#[test]
fn a_process_counts_unless_it_is_ours_small_ignored_or_draws() {
    let config = GpuConfig { ignore: vec!["Xwayland".into(), "bob".into(), "python3".into()], ..GpuConfig::default() };
    let ours = GpuProcess { run_dir: Some("/ours/job_abc".into()), ..python(9_000) };
    let theirs = GpuProcess { run_dir: Some("/theirs/job_abc".into()), ..python(9_000) };
    let graphics = GpuProcess { graphics: true, ..python(9_000) };
    let ending = GpuProcess { ending: true, ..python(9_000) };
    let by_program = |name: &str| process(1, Some("alice"), Some(name), Some(9_000));
    let table = [
        ("a training", python(642), true),
        ("exactly at the limit", python(256), true),
        ("a desktop's little program", python(255), false),
        ("unknown memory counts as much", process(1, Some("alice"), Some("python"), None), true),
        ("it draws", graphics, false),
        ("it is ending", ending, false),
        ("our own job", ours, false),
        ("another service's job", theirs, true),
        ("an ignored program, by its file name", by_program("/usr/bin/Xwayland"), false),
        ("a program of a longer name", by_program("/usr/bin/python3.11"), true),
        ("a folder of that name", by_program("/opt/python3/bin/train"), true),
        ("an ignored user", process(1, Some("bob"), Some("python"), Some(9_000)), false),
        ("nobody knows whose", process(1, None, None, Some(9_000)), true),
    ];
    for (what, process, counts) in table {
        let mut seen = Seen::new(config.clone());
        let look = seen.read(reading(vec![read(vec![process.clone()])]));
        assert_eq!(obstacles(&look), [counts.then_some(Obstacle::InUse)], "{what}");
        let shown = seen.gpus.shown(0).unwrap();
        assert_eq!(shown.processes[0].foreign, counts, "{what}");
        assert_eq!(shown.obstacle.is_some(), counts, "{what}");
        let job = process.run_dir == Some(PathBuf::from("/ours/job_abc"));
        assert_eq!(shown.processes[0].job.as_deref(), job.then_some("abc"), "{what}");
    }
}

#[test]
fn what_cannot_be_identified_is_ours_where_we_are() {
    let unknown = || reading(vec![read(vec![process(1, None, None, None)]), read(vec![process(1, None, None, None)])]);
    let mut seen = Seen::new(GpuConfig::default());
    seen.held = set(&[0]);
    assert_eq!(obstacles(&seen.read(unknown())), [None, Some(Obstacle::InUse)]);
    // Its run has ended since the look that this reading tells of; by the next one it has to be gone.
    seen.held = GpuSet::EMPTY;
    assert_eq!(obstacles(&seen.look()), [None, Some(Obstacle::InUse)]);
    assert_eq!(obstacles(&seen.read(unknown())), [None, Some(Obstacle::InUse)]);
    assert_eq!(obstacles(&seen.read(unknown())), [Some(Obstacle::InUse), Some(Obstacle::InUse)]);
}

#[test]
fn a_lock_is_an_obstacle_unless_our_own_run_is_there() {
    let lock = Some(LockHolder { pid: Some(77), user: Some("alice".into()) });
    let locked = || GpuState::Read(Vitals { lock: lock.clone(), processes: vec![python(642)], ..Vitals::default() });
    let mut seen = Seen::new(GpuConfig::default());
    seen.held = set(&[0]);
    let look = seen.read(reading(vec![read(vec![]), locked()]));
    assert_eq!(obstacles(&look), [None, Some(Obstacle::Locked)]);
    let expected = Shown::Locked { user: Some("alice".into()), pid: Some(77) };
    assert_eq!(seen.gpus.shown(1).unwrap().obstacle, Some(expected));
    assert_eq!(texts(look.lines), ["Found 2 GPUs", "GPU 1 in use outside nexus (nexus of alice)"]);
    seen.held = set(&[0, 1]);
    let ours = GpuState::Read(Vitals { lock, ..Vitals::default() });
    assert_eq!(obstacles(&seen.read(reading(vec![read(vec![]), ours]))), [None, None]);
}

#[test]
fn a_lock_seen_while_a_start_failed_is_an_obstacle_after_it() {
    let lock = Some(LockHolder { pid: Some(77), user: Some("alice".into()) });
    let locked = || reading(vec![GpuState::Read(Vitals { lock: lock.clone(), ..Vitals::default() })]);
    let mut seen = Seen::new(GpuConfig::default());
    seen.held = set(&[0]);
    assert_eq!(obstacles(&seen.read(locked())), [None], "it may be the run's own");
    seen.gpus.never_held(set(&[0]));
    seen.held = set(&[]);
    assert_eq!(obstacles(&seen.read(locked())), [Some(Obstacle::Locked)]);
}

#[test]
fn settings_take_effect_on_the_last_reading() {
    let mut seen = Seen::new(GpuConfig::default());
    let look = seen.read(reading(vec![read(vec![]), read(vec![python(642)]), GpuState::Mig, unreadable()]));
    assert_eq!(obstacles(&look), [None, Some(Obstacle::InUse), Some(Obstacle::Mig), Some(Obstacle::Unreadable)]);
    seen.config = GpuConfig {
        using: GpuUse::Only(set(&[1, 2])),
        ignore_below_mib: 1024,
        prefer: vec![2],
        ..GpuConfig::default()
    };
    let look = seen.look();
    let left_out = Some(Obstacle::LeftOut);
    assert_eq!(obstacles(&look), [left_out, None, Some(Obstacle::Mig), left_out]);
    assert_eq!(look.machine.prefer, [2]);
    assert_eq!(
        texts(look.lines),
        [
            "GPU 0 is left out by gpus.use; it takes no job",
            "GPU 1 is free again",
            "GPU 3 is left out by gpus.use; it takes no job"
        ]
    );
    seen.config = GpuConfig::default();
    let again = seen.look();
    assert_eq!(
        texts(again.lines),
        [
            "GPU 0 is used again",
            "GPU 1 in use outside nexus (pid 4312 alice python, 642MB)",
            "GPU 3 cannot be read: it fell off the bus; it takes no job"
        ]
    );
}

#[test]
fn noise_changes_nothing_that_is_decided_on_and_is_told_nowhere() {
    let mut seen = Seen::new(GpuConfig::default());
    let with = |used_mib, load, memory| {
        let processes = vec![python(memory)];
        let (load_percent, temperature_c) = (Some(load), Some(40 + u16::from(load)));
        reading(vec![GpuState::Read(Vitals { used_mib, load_percent, temperature_c, processes, ..Vitals::default() })])
    };
    let first = seen.read(with(800, 3, 642));
    assert_eq!(first.machine.gpus[0].free_mib, 24_576 - 832);
    for (used, load, memory) in [(790, 30, 650), (832, 0, 900), (769, 80, 257)] {
        let look = seen.read(with(used, load, memory));
        assert_eq!(look.machine, first.machine, "{used} MiB, {load} %");
        assert!(look.lines.is_empty(), "{:?}", look.lines);
        assert_eq!(seen.gpus.shown(0).unwrap().used_mib, Some(used), "what is shown is exact");
    }
    let look = seen.read(with(1024, 0, 642));
    assert_eq!(look.machine.gpus[0].free_mib, 24_576 - 1024);
    assert!(look.lines.is_empty(), "{:?}", look.lines);
}

#[test]
fn only_changes_are_told() {
    let mut seen = Seen::new(GpuConfig::default());
    let fine = || reading(vec![read(vec![]), read(vec![]), read(vec![])]);
    assert_eq!(seen.lines(fine()), ["Found 3 GPUs"]);
    assert!(seen.lines(fine()).is_empty());
    let fails = || reading(vec![read(vec![]), read(vec![]), unreadable()]);
    assert_eq!(seen.lines(fails()), ["GPU 2 cannot be read: it fell off the bus; it takes no job"]);
    assert!(seen.lines(fails()).is_empty());
    assert_eq!(seen.lines(fine()), ["GPU 2 is back"]);
    let many = vec![python(642), process(2, Some("bob"), None, None), process(3, None, None, None), python(300)];
    let used = reading(vec![read(vec![]), read(many), read(vec![])]);
    let line = "GPU 1 in use outside nexus (pid 4312 alice python, 642MB; pid 2 bob; 2 more)";
    assert_eq!(seen.lines(used), [line]);
    // Another process on it is no news; that it is free again is.
    assert!(seen.lines(reading(vec![read(vec![]), read(vec![python(9_000)]), read(vec![])])).is_empty());
    assert_eq!(seen.lines(fine()), ["GPU 1 is free again"]);
    assert_eq!(seen.lines(reading(vec![read(vec![])])), ["GPU 1 is gone", "GPU 2 is gone"]);
    assert_eq!(
        seen.lines(reading(vec![read(vec![]), GpuState::Mig])),
        ["GPU 1 appeared", "GPU 1 is in MIG mode; it takes no job"]
    );
}

#[test]
fn a_gpu_that_was_never_read_is_known_by_its_number() {
    let mut seen = Seen::new(GpuConfig::default());
    let mut unnamed = reading(vec![unreadable(), unreadable(), read(vec![])]);
    for gpu in &mut unnamed.gpus[..2] {
        gpu.uuid.clear();
    }
    let lost = |index| format!("GPU {index} cannot be read: it fell off the bus; it takes no job");
    assert_eq!(seen.lines(unnamed.clone()), ["Found 3 GPUs".to_string(), lost(0), lost(1)]);
    assert!(seen.lines(unnamed).is_empty());
    let fine = reading(vec![read(vec![]), read(vec![]), read(vec![])]);
    assert_eq!(seen.lines(fine), ["GPU 0 is back", "GPU 1 is back"]);
}

#[test]
fn a_driver_that_fails_makes_known_gpus_unreadable_and_loses_none() {
    let mut seen = Seen::new(GpuConfig::default());
    let failed = || Reading { error: Some("the driver does not answer".into()), ..Reading::default() };
    seen.lines(reading(vec![read(vec![]), read(vec![])]));
    let look = seen.read(failed());
    assert_eq!(obstacles(&look), [Some(Obstacle::Unreadable), Some(Obstacle::Unreadable)]);
    assert_eq!(look.lines.len(), 2, "{:?}", look.lines);
    assert_eq!(seen.gpus.error().as_deref(), Some("the driver does not answer"));
    assert!(seen.lines(failed()).is_empty());
    assert_eq!(seen.lines(reading(vec![read(vec![]), read(vec![])])), ["GPU 0 is back", "GPU 1 is back"]);

    // Where none was ever seen, the driver itself is told about, once.
    let mut seen = Seen::new(GpuConfig::default());
    assert!(seen.look().lines.is_empty() && seen.gpus.error().is_some(), "nothing is known yet, and that is said");
    assert_eq!(seen.lines(failed()), ["Found 0 GPUs", "GPUs cannot be read: the driver does not answer"]);
    assert!(seen.lines(failed()).is_empty());
    assert_eq!(seen.lines(reading(vec![read(vec![])])), ["Found 1 GPU"]);
}

#[test]
fn a_gpu_that_vanishes_under_its_job_stays_until_the_job_has_ended() {
    let mut seen = Seen::new(GpuConfig::default());
    seen.lines(reading(vec![read(vec![]), read(vec![])]));
    seen.held = set(&[1]);
    let look = seen.read(reading(vec![read(vec![])]));
    assert_eq!(obstacles(&look), [None, Some(Obstacle::Unreadable)]);
    assert_eq!(texts(look.lines), ["GPU 1 cannot be read: it vanished; it takes no job"]);
    seen.held = GpuSet::EMPTY;
    assert_eq!(seen.lines(reading(vec![read(vec![])])), ["GPU 1 is gone"]);
}

#[test]
fn simulated_gpus_stand_in_for_real_ones_while_they_are_set() {
    let mut seen = Seen::new(GpuConfig::default());
    seen.gpus.simulate(2);
    assert!(seen.gpus.are_known());
    let look = seen.look();
    assert_eq!(texts(look.lines), ["Found 2 GPUs (simulated)"]);
    assert!(look.machine.gpus.iter().all(|gpu| gpu.simulated && gpu.free_mib == gpu.memory_mib));
    assert_eq!(seen.gpus.shown(0).unwrap().used_mib, None, "nothing is known of what does not exist");
    let look = seen.read(reading(vec![read(vec![python(642)])]));
    assert!(look.machine.gpus.len() == 2 && look.lines.is_empty(), "{:?}", look.lines);
    assert_eq!((seen.gpus.source(), seen.gpus.driver()), (None, None));
    seen.gpus.simulate(0);
    let look = seen.look();
    assert_eq!(texts(look.lines), ["Found 1 GPU", "GPU 0 in use outside nexus (pid 4312 alice python, 642MB)"]);
    assert_eq!((seen.gpus.source(), seen.gpus.driver().as_deref()), (Some("nvml"), Some("550.1")));
}

#[test]
fn numbers_beyond_all_measure_are_passed_over() {
    let mut seen = Seen::new(GpuConfig::default());
    let mut strange = reading(vec![read(vec![]), read(vec![])]);
    strange.gpus[1].index = 500;
    assert_eq!(seen.read(strange).machine.gpus.len(), 1);
}
