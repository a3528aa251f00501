//! Tells what happened: lines for service.log, events for clients.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use nexus_api::events::What;
use nexus_api::jobs::State;
use nexus_api::run_dir::gpu_is_held;
use nexus_core::event::{Event, PausedBy, QueuePause, Requeue};
use nexus_core::ids::{JobId, MachineId, SweepId};
use nexus_core::job::{End, Failure, KillReason, State as Live};
use nexus_core::request::Raise;
use nexus_core::run::{Lease, Memory, Outcome};
use nexus_core::time::Time;
use nexus_core::world::World;

use crate::events::Told;
use crate::names::Names;
use crate::service_log::Level;
use crate::words;

/// So many jobs that come at once are told one by one: more would push all else out of a log that is rotated.
const FEW: usize = 100;

/// Remembers where each run is, since an end no longer says it.
#[derive(Default)]
pub struct Narrator {
    /// As they are told: `GPU 0 of box`.
    places: BTreeMap<JobId, String>,
    /// Jobs whose results are copied since before this service began: nobody remembers where they were.
    copying: BTreeSet<JobId>,
    /// Outcome of the run that ended last: the job's next event says what follows from it.
    last: Option<(JobId, Outcome)>,
    /// Jobs that are held now are held with their sweep.
    holds_sweep: bool,
}

/// How grave it is.
pub fn level(event: &Event) -> Level {
    match event {
        Event::JobEnded { end: End::Failed(_), .. }
        | Event::Requeued { why: Requeue::Retry | Requeue::StartFailed, .. }
        | Event::Orphaned { .. }
        | Event::SweepStopped { .. }
        | Event::QueuePaused(QueuePause::AfterFailures(_))
        | Event::MachineQuarantined { .. }
        | Event::DiskFull { full: true } => Level::Warn,
        _ => Level::Info,
    }
}

/// A job that was added and nobody else tells of: a sweep has a line of its own.
pub fn added(event: &Event) -> Option<JobId> {
    match event {
        Event::Submitted(new) if new.sweep.is_none() => Some(new.id),
        _ => None,
    }
}

/// The line for jobs that are too many to be told one by one.
pub fn many_added(events: &[Event]) -> Option<String> {
    let mut added = events.iter().filter_map(added);
    let (first, last) = (added.next()?, added.next_back()?);
    let count = added.count() + 2;
    (count > FEW).then(|| format!("Added {count} jobs, the first {first}, the last {last}"))
}

impl Narrator {
    pub fn of(world: &World, names: &Names) -> Narrator {
        let places = world.active_runs().map(|run| (run.id.job, place(&run.lease, names))).collect();
        Narrator { places, copying: world.copying().collect(), last: None, holds_sweep: false }
    }

    /// The line for service.log. `command` finds a job's command, for the lines that show it; `sweep` the name of one.
    pub fn line<'a>(
        &mut self,
        event: &Event,
        now: Time,
        command: impl Fn(JobId) -> Cow<'a, str>,
        sweep: impl Fn(SweepId) -> String,
        names: &Names,
    ) -> Option<String> {
        let with_its_sweep = std::mem::take(&mut self.holds_sweep);
        Some(match event {
            // The sweep has a line of its own.
            Event::Submitted(new) if new.sweep.is_some() => return None,
            Event::Submitted(new) => format!("Added job {}: {}", new.id, command(new.id)),
            // Its sweep was told.
            Event::Held { .. } if with_its_sweep => {
                self.holds_sweep = true;
                return None;
            }
            Event::Held { job } => format!("Job {job} held by user"),
            Event::Orphaned { job, parent } => {
                format!("Job {job} held: job {parent}, which it was to come after, was ended by stop")
            }
            Event::Released { job } => format!("Job {job} released by user"),
            Event::Moved { job, .. } => format!("Job {job} put first by user"),
            // Who changed it says how.
            Event::Edited { .. } | Event::Placed { .. } | Event::Delayed { .. } | Event::Peaked { .. } => return None,
            Event::Planned { run, lease, .. } => {
                self.places.insert(run.job, place(lease, names));
                return None;
            }
            Event::Running { run, .. } => {
                format!("Started job {} on {}: {}", run.job, self.place(run.job), command(run.job))
            }
            Event::StopAsked { run, .. } => format!("Stopping job {} on {}", run.job, self.place(run.job)),
            Event::RunEnded { run, outcome, .. } => {
                self.last = Some((run.job, outcome.clone()));
                return None;
            }
            Event::Requeued { job, why, not_before, raise } => {
                let wait = not_before.map_or(0, |at| at.since(now).as_secs_f64().round() as u64);
                self.requeued(*job, *why, wait, *raise)
            }
            Event::Copying { job, .. } => format!("Copying results of job {job}"),
            Event::CopyStopped { job } => format!("Results of job {job} not copied: stopped by user"),
            Event::JobEnded { job, end, .. } => self.ended(*job, end),
            Event::SweepStopped { sweep: id, stopped } => {
                self.holds_sweep = true;
                format!("Sweep {} held: {}", sweep(*id), words::stopped_sentence(stopped))
            }
            Event::SweepReleased { sweep: id } => format!("Sweep {} released by user", sweep(*id)),
            Event::QueuePaused(QueuePause::ByUser) => "Queue paused by user".into(),
            Event::QueuePaused(QueuePause::AfterFailures(count)) => {
                format!("Queue paused after {count} failed jobs in a row")
            }
            Event::QueueResumed => "Queue resumed by user".into(),
            Event::ClockSet { by_ms, .. } => clock_set(*by_ms),
            Event::GpuPaused { .. } | Event::GpuResumed { .. } => return of_a_machine(event, names),
            // What is different about its GPUs is told by those who read them.
            Event::MachineRead(_) => return None,
            Event::MachineAdded { .. } | Event::MachineMoved { .. } | Event::MachinePaused { .. } => {
                return of_a_machine(event, names);
            }
            Event::MachineSetUp { .. } => return of_a_machine(event, names),
            Event::MachineResumed { .. } | Event::MachineQuarantined { .. } => return of_a_machine(event, names),
            Event::MachineLeaving { .. } | Event::MachineRemoved { .. } => return of_a_machine(event, names),
            Event::DiskFull { full: true } => "Disk full: no job is started until there is room".into(),
            Event::DiskFull { full: false } => "Disk has room again".into(),
            Event::Stopping => "Service stopping".into(),
        })
    }

    fn requeued(&mut self, job: JobId, why: Requeue, wait: u64, raise: Option<Raise>) -> String {
        let how = self.last.take().map(|(_, outcome)| failure(&outcome)).unwrap_or_default();
        let next = match why {
            Requeue::GpuLocked => {
                return format!(
                    "Job {job} did not start on {}: {how}; it keeps its place in the queue",
                    self.take_place(job)
                );
            }
            Requeue::Retry => "retry",
            Requeue::StartFailed => "next try to start it",
            Requeue::Preempted => "next run after its preemption",
        };
        let asks = match raise {
            None => String::new(),
            Some(Raise::Alone) => ", on GPUs of its own".into(),
            Some(Raise::Mib(mib)) => format!(", with {mib}MB"),
        };
        format!("Job {job} failed on {}: {how}; {next} in {wait}s{asks}", self.take_place(job))
    }

    fn ended(&mut self, job: JobId, end: &End) -> String {
        let place = self.take_place(job);
        let outcome = self.last.take().map(|(_, outcome)| outcome);
        match end {
            End::Completed if self.copying.remove(&job) => format!("Job {job} completed successfully"),
            End::Completed => format!("Job {job} completed successfully on {place}"),
            End::Failed(Failure::Dependency { parent }) => {
                format!("Job {job} failed: job {parent}, which it was to come after, did not complete")
            }
            End::Failed(reason) => {
                let how = match (&outcome, reason) {
                    (_, Failure::Timeout) => "timeout".into(),
                    (Some(outcome), _) => failure(outcome),
                    (None, _) => words::end(end).1.unwrap_or("failed").to_string(),
                };
                format!("Job {job} failed on {place}: {how}")
            }
            End::Killed(KillReason::User) => format!("Job {job} killed on {place} by user"),
            End::Killed(KillReason::Stopped) => format!("Job {job} killed on {place} by stop"),
            End::Killed(KillReason::Removed) => format!("Job {job} removed from the queue by user"),
        }
    }

    fn place(&self, job: JobId) -> String {
        self.places.get(&job).cloned().unwrap_or_else(|| "the CPU".into())
    }

    fn take_place(&mut self, job: JobId) -> String {
        let place = self.place(job);
        self.places.remove(&job);
        place
    }
}

/// What was done to a machine, or to a GPU of one.
fn of_a_machine(event: &Event, names: &Names) -> Option<String> {
    Some(match event {
        Event::GpuPaused { machine, index, by, .. } => {
            format!("GPU {index}{} paused by {}", of_machine(*machine, names), actor(*by))
        }
        Event::GpuResumed { machine, index, by, .. } => {
            format!("GPU {index}{} resumed by {}", of_machine(*machine, names), actor(*by))
        }
        Event::MachineAdded { machine, .. } => format!("Machine {} added by user", names.machine_name(*machine)),
        Event::MachineMoved { machine, class } => {
            let class = class.map_or("no class", |class| names.class_name(class));
            format!("Machine {} moved to {class}", names.machine_name(*machine))
        }
        Event::MachineSetUp { machine, set_up } => {
            let (name, class) = (names.machine_name(*machine), names.class_name(set_up.class));
            format!("Machine {name} is set up for {class}, which it joins when job {} has completed", set_up.last)
        }
        Event::MachinePaused { machine } => format!("Machine {} paused by user", names.machine_name(*machine)),
        Event::MachineResumed { machine } => format!("Machine {} resumed by user", names.machine_name(*machine)),
        Event::MachineQuarantined { machine, quarantine } => format!(
            "Machine {} quarantined: {} different jobs failed on it one after another, {} last, while others completed elsewhere",
            names.machine_name(*machine),
            quarantine.failures,
            quarantine.last
        ),
        Event::MachineLeaving { machine } => {
            format!("Machine {} goes when its jobs have ended", names.machine_name(*machine))
        }
        Event::MachineRemoved { machine } => format!("Machine {} removed by user", names.machine_name(*machine)),
        _ => return None,
    })
}

fn place(lease: &Lease, names: &Names) -> String {
    let machine = of_machine(lease.machine, names);
    match lease.gpus.len() {
        _ if lease.driver => format!("this machine for {}", names.machine_name(lease.machine)),
        0 => format!("the CPU{machine}"),
        1 => format!("GPU {}{machine}", lease.gpus),
        _ => format!("GPUs {}{machine}", lease.gpus),
    }
}

/// Of the service's own host it goes without saying.
fn of_machine(machine: MachineId, names: &Names) -> String {
    match machine {
        MachineId::LOCAL => String::new(),
        other => format!(" of {}", names.machine_name(other)),
    }
}

fn actor(by: PausedBy) -> &'static str {
    match by {
        PausedBy::User => "user",
        PausedBy::StateFile => "the state file",
    }
}

fn clock_set(by_ms: i64) -> String {
    let way = if by_ms < 0 { "back" } else { "forward" };
    let seconds = by_ms.unsigned_abs() as f64 / 1e3;
    format!(
        "Clock set {way} by {seconds:.1} s: the times of jobs that run are by the new clock, and their run times stay as they are"
    )
}

fn failure(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { code } => format!("exit {code}"),
        Outcome::Signaled { signal } => format!("signal {signal}"),
        Outcome::Stopped { signal: Some(signal), .. } => format!("signal {signal}"),
        Outcome::Stopped { code, .. } => format!("exit {}", code.unwrap_or(-1)),
        Outcome::TimedOut { .. } => "timeout".into(),
        Outcome::SessionClosed { .. } => "session-closed".into(),
        Outcome::OutOfMemory { of, code, signal } => {
            let word = match of {
                Memory::Gpu => "gpu-oom",
                Memory::Host => "host-oom",
            };
            match (signal, code) {
                (Some(signal), _) => format!("{word} (signal {signal})"),
                (None, code) => format!("{word} (exit {})", code.unwrap_or(-1)),
            }
        }
        Outcome::StartError { error, .. } | Outcome::MachineError { error } => format!("start-error: {error}"),
        Outcome::GpuLocked { uuid, user, pid } => gpu_is_held(uuid, user.as_deref(), *pid),
        Outcome::Lost { error } => format!("lost: {error}"),
        Outcome::Preempted => "preempted".into(),
        Outcome::Cancelled { .. } => "cancelled in the cluster".into(),
        Outcome::NeverStarted => "it never started".into(),
    }
}

/// What clients hear of an event. `world` is as it is after it.
pub fn told(event: &Event, world: &World, names: &Names) -> Option<Told> {
    let job = |id: &JobId, state| Some(Told::Job { id: *id, state });
    let machine = |name: &str| Some(What::Machine { name: name.to_string() }.into());
    match event {
        Event::Submitted(new) => job(&new.id, if new.held { State::Held } else { State::Queued }),
        Event::Held { job: id } | Event::Orphaned { job: id, .. } => job(id, State::Held),
        Event::Released { job: id } | Event::Moved { job: id, .. } | Event::Requeued { job: id, .. } => {
            job(id, State::Queued)
        }
        Event::Delayed { job: id, .. } => job(id, State::Queued),
        Event::Placed { job: id, .. } | Event::Edited { job: id, .. } => match world.job(*id)?.state {
            Live::Held => job(id, State::Held),
            Live::Queued { .. } => job(id, State::Queued),
            // Of one that has started only records change.
            Live::Active(_) | Live::Copying { .. } => None,
        },
        Event::Planned { run, .. } => job(&run.job, State::Starting),
        Event::Running { run, .. } => job(&run.job, State::Running),
        Event::Copying { job: id, .. } => job(id, State::Copying),
        Event::JobEnded { job: id, end, .. } => job(id, words::end(end).0),
        Event::QueuePaused(_) => Some(What::Queue { paused: true }.into()),
        Event::QueueResumed => Some(What::Queue { paused: false }.into()),
        Event::MachineRead(read) => machine(&read.name),
        Event::MachineAdded { machine: id, .. }
        | Event::MachineMoved { machine: id, .. }
        | Event::MachineSetUp { machine: id, .. }
        | Event::MachinePaused { machine: id }
        | Event::MachineResumed { machine: id }
        | Event::MachineQuarantined { machine: id, .. }
        | Event::MachineLeaving { machine: id }
        | Event::MachineRemoved { machine: id }
        | Event::GpuPaused { machine: id, .. }
        | Event::GpuResumed { machine: id, .. } => machine(names.machine_name(*id)),
        Event::Stopping => Some(What::Stopping.into()),
        // Start times that clients have are of the old clock.
        Event::ClockSet { .. } => Some(What::Missed.into()),
        Event::StopAsked { .. } | Event::RunEnded { .. } | Event::Peaked { .. } | Event::DiskFull { .. } => None,
        Event::CopyStopped { .. } | Event::SweepStopped { .. } | Event::SweepReleased { .. } => None,
    }
}
