//! What happened, and why a job waits, in words.

use nexus_core::apply::Refusal;
use nexus_core::event::{Event, QueuePause, Requeue};
use nexus_core::free::GpuCount;
use nexus_core::ids::{ClassId, MachineId};
use nexus_core::job::{End, Failure, KillReason};
use nexus_core::machine::{Gpu, Machine, Quarantine};
use nexus_core::reconcile::Effect;
use nexus_core::request::{Raise, Request, Target, Vram};
use nexus_core::run::{Lease, Memory, Outcome, StopCause};
use nexus_core::sweep::Stopped;
use nexus_core::time::Time;
use nexus_core::waiting::Waiting;

pub fn event(event: &Event, now: Time) -> String {
    match event {
        Event::Submitted(new) if new.held => format!("{} is queued and held", new.id),
        Event::Submitted(new) => format!("{} is queued", new.id),
        Event::Held { job } => format!("{job} is held"),
        Event::Orphaned { job, parent } => format!("{job} is held: the stop ended {parent}, which it comes after"),
        Event::Released { job } => format!("{job} is released"),
        Event::Moved { job, .. } => format!("{job} is put first"),
        Event::Placed { job, place } => format!("{job} gets a place at priority {}", place.priority),
        Event::Edited { job, .. } => format!("{job} is changed"),
        Event::Planned { run, lease: had, .. } => format!("{run} is planned on {}", lease(had)),
        Event::Running { run, .. } => format!("{run} runs"),
        Event::StopAsked { run, cause: StopCause::User } => format!("{run} is to stop: a user asked"),
        Event::StopAsked { run, cause: StopCause::Stopped } => format!("{run} is to stop: the service stops"),
        Event::RunEnded { run, outcome: ended, .. } => format!("{run} ended: {}", outcome(ended)),
        Event::Peaked { run, mib } => format!("{run} has had {mib} MiB"),
        Event::Delayed { job, until } => format!("{job} waits for {}s", until.since(now).as_secs()),
        Event::Requeued { job, why, not_before, raise } => {
            let why = match why {
                Requeue::Retry => "a retry",
                Requeue::GpuLocked => "its GPU is locked, no start counted",
                Requeue::StartFailed => "the start failed, no retry used",
                Requeue::Preempted => "preempted, no retry used",
            };
            let raise = match raise {
                None => String::new(),
                Some(Raise::Mib(mib)) => format!(", with {mib} MiB"),
                Some(Raise::Alone) => ", with GPUs of its own".into(),
            };
            let wait = not_before.map_or(0, |at| at.since(now).as_secs());
            format!("{job} is queued again in {wait}s: {why}{raise}")
        }
        Event::Copying { job, .. } => format!("{job} is done, and its results are copied"),
        Event::CopyStopped { job } => format!("the copy of {job} is given up"),
        Event::JobEnded { job, end: ended, .. } => format!("{job} is {}", end(ended)),
        Event::SweepStopped { sweep, stopped: why } => format!("sweep {} is held: {}", sweep.0, stopped(why)),
        Event::SweepReleased { sweep } => format!("sweep {} goes on", sweep.0),
        Event::QueuePaused(pause) => format!("the queue is paused{}", pause_words(pause)),
        Event::QueueResumed => "the queue goes on".into(),
        Event::GpuPaused { index, .. } => format!("GPU {index} is paused"),
        Event::GpuResumed { index, .. } => format!("GPU {index} goes on"),
        Event::MachineAdded { machine, standing } => format!("{} is added, {}", named(*machine), class(standing.class)),
        Event::MachineMoved { machine, class: to } => format!("{} is {} now", named(*machine), class(*to)),
        Event::MachineSetUp { machine, set_up } => {
            format!("{} is set up {}, until {} is done", named(*machine), class(Some(set_up.class)), set_up.last)
        }
        Event::MachinePaused { machine } => format!("{} is paused", named(*machine)),
        Event::MachineResumed { machine } => format!("{} goes on", named(*machine)),
        Event::MachineQuarantined { machine, quarantine: Quarantine { failures, last, .. } } => {
            format!("{} is quarantined: {failures} jobs failed there, {last} last", named(*machine))
        }
        Event::MachineLeaving { machine } => format!("{} is to leave", named(*machine)),
        Event::MachineRemoved { machine } => format!("{} is removed", named(*machine)),
        Event::ClockSet { by_ms, .. } => format!("the clock is set by {by_ms} ms"),
        Event::MachineRead(read) => machine(read),
        Event::DiskFull { full: true } => "the disk is full".into(),
        Event::DiskFull { full: false } => "the disk has room".into(),
        Event::Stopping => "the service stops".into(),
    }
}

/// `local`, `m1`
pub fn named(machine: MachineId) -> String {
    match machine {
        MachineId::LOCAL => "local".into(),
        MachineId(number) => format!("m{number}"),
    }
}

fn class(class: Option<ClassId>) -> String {
    match class {
        None => "of no class".into(),
        Some(ClassId::DEFAULT) => "of the default class".into(),
        Some(ClassId(number)) => format!("of class {number}"),
    }
}

fn target(target: Target) -> String {
    match target {
        Target::Default => class(Some(ClassId::DEFAULT)),
        Target::Class(named) => class(Some(named)),
        Target::Machine(machine) => format!("called {}", named(machine)),
    }
}

fn stopped(stopped: &Stopped) -> String {
    let Stopped { failures, failure } = stopped;
    format!("the first {failures} jobs are {}", end(&End::Failed(failure.clone())))
}

fn pause_words(pause: &QueuePause) -> String {
    match pause {
        QueuePause::ByUser => String::new(),
        QueuePause::AfterFailures(count) => format!(": {count} jobs failed one after another"),
    }
}

fn machine(machine: &Machine) -> String {
    if !machine.reachable {
        return format!("{} cannot be reached", machine.name);
    }
    let gpu = |gpu: &Gpu| {
        let obstacle = gpu.obstacle.map(|what| format!("; GPU {} {what:?}", gpu.index)).unwrap_or_default();
        let busy = if gpu.busy { " and busy" } else { "" };
        let free = match gpu.free_mib == gpu.memory_mib {
            true => String::new(),
            false => format!("; GPU {} {} MiB free", gpu.index, gpu.free_mib),
        };
        format!("{obstacle}{busy}{free}")
    };
    let gpus: String = machine.gpus.iter().map(gpu).collect();
    format!("{} has GPUs {}; {} CPUs{gpus}", machine.name, machine.gpu_set(), machine.cpus)
}

pub fn waiting(waiting: &Waiting, now: Time) -> String {
    match waiting {
        Waiting::Held => "held".into(),
        Waiting::SweepStopped(why) => format!("held with its sweep: {}", stopped(why)),
        Waiting::SweepFull { running, limit } => format!("{running} of its sweep run, and {limit} may"),
        Waiting::QueuePaused(pause) => format!("the queue is paused{}", pause_words(pause)),
        Waiting::DiskFull => "the disk is full".into(),
        Waiting::Stopping => "the service stops".into(),
        Waiting::Delayed { until } => format!("begins in {}s", until.since(now).as_secs()),
        Waiting::Retry { until } => format!("a retry in {}s", until.since(now).as_secs()),
        Waiting::After { jobs, count } => {
            let named: Vec<&str> = jobs.iter().map(|job| job.as_str()).collect();
            let more = count - jobs.len() as u64;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("comes after {}{more}", named.join(", "))
        }
        Waiting::NoSuchMachines { target: asked } => format!("there is no machine {}", target(*asked)),
        Waiting::Machines { target: asked, unreachable, paused, quarantined } => {
            let parts = [(unreachable, "unreachable"), (paused, "paused"), (quarantined, "quarantined")];
            let parts = parts.into_iter().filter(|(count, _)| **count > 0).map(|(count, why)| format!("{count} {why}"));
            let parts: Vec<String> = parts.collect();
            format!("no machine {} takes jobs: {}", target(*asked), parts.join(", "))
        }
        Waiting::NoSuchGpus { request: asked, count } => {
            format!("needs {}, only {} exist{}", request(asked), count.exist(), never(count))
        }
        Waiting::Gpus { request: asked, count } => {
            let most = asked.share.map(|share| match share.vram {
                Vram::Mib(_) => format!("; at most {} and {} MiB left", part(count.most_milli), count.most_free_mib),
                _ => format!("; at most {} left", part(count.most_milli)),
            });
            format!("needs {}, {}{}{}", request(asked), passing(count), never(count), most.unwrap_or_default())
        }
        Waiting::Kept { job, at: Some(at) } => format!("kept for {job}, which starts in {}s", at.since(now).as_secs()),
        Waiting::ClusterFull { runs, most } => format!("{runs} of {most} in the cluster"),
        Waiting::Kept { job, at: None } => format!("kept for {job}"),
        Waiting::NoSuchCpus { need, exist } => format!("needs {need} CPUs, only {exist} exist"),
        Waiting::Cpus { need, free } => format!("needs {need} CPUs, {free} free"),
        Waiting::NoSuchRam { need_mib, exist_mib } => format!("needs {need_mib} MiB of memory, only {exist_mib} exist"),
        Waiting::Ram { need_mib, free_mib } => format!("needs {need_mib} MiB of memory, {free_mib} free"),
        Waiting::Next => "next".into(),
    }
}

fn part(milli: u16) -> String {
    format!("{}", f64::from(milli) / 1000.0)
}

/// `2 GPUs among 0,1`, `0.5 of 1 GPUs`
fn request(request: &Request) -> String {
    let share = request.share.map(|share| {
        let milli = (share.milli > 0).then(|| part(share.milli));
        let vram = match share.vram {
            Vram::Unsaid => None,
            Vram::Mib(mib) => Some(format!("{mib} MiB")),
            Vram::Learned(_) => Some("memory as learned".into()),
        };
        format!("{} of ", [milli, vram].into_iter().flatten().collect::<Vec<_>>().join(" and "))
    });
    let on = request.on.map(|on| format!(" among {on}"));
    let model = request.model.map(|model| format!(" of model {}", model.as_str()));
    let [share, model, on] = [share, model, on].map(Option::unwrap_or_default);
    format!("{share}{} GPUs{model}{on}", request.gpus)
}

/// `1 free, 2 held`; what is not there is not said.
fn passing(count: &GpuCount) -> String {
    let parts = [
        (count.held, "held"),
        (count.shared, "shared"),
        (count.full, "full"),
        (count.low_memory, "low in memory"),
        (count.busy, "busy"),
        (count.outside, "in use outside"),
        (count.paused, "paused"),
        (count.unreadable, "unreadable"),
    ];
    let others = parts.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!(", {number} {what}"));
    format!("{} free{}", count.free, others.collect::<String>())
}

fn never(count: &GpuCount) -> String {
    let parts = [
        (count.mig, "in MIG mode"),
        (count.left_out, "left out"),
        (count.other_model, "of another model"),
        (count.too_small, "too small"),
    ];
    parts.into_iter().filter(|(set, _)| !set.is_empty()).map(|(set, what)| format!("; {set} {what}")).collect()
}

fn lease(lease: &Lease) -> String {
    let share = lease.share.map_or(String::new(), |share| {
        let milli = (share.milli > 0).then(|| part(share.milli));
        let vram = share.vram_mib.map(|mib| format!("{mib} MiB"));
        format!("{} of ", [milli, vram].into_iter().flatten().collect::<Vec<_>>().join(" and "))
    });
    let ram = if lease.ram_mib > 0 { format!(" and {} MiB of memory", lease.ram_mib) } else { String::new() };
    let rest = match (lease.gpus.len(), lease.cpus) {
        (0, cpus) => format!("{cpus} CPUs"),
        (1, 0) => format!("GPU {}", lease.gpus),
        (_, 0) => format!("GPUs {}", lease.gpus),
        (_, cpus) => format!("GPUs {} and {cpus} CPUs", lease.gpus),
    };
    match lease.machine {
        machine if lease.driver => format!("the own host, for all of {}", named(machine)),
        MachineId::LOCAL => format!("{share}{rest}{ram}"),
        machine => format!("{share}{rest}{ram} of {}", named(machine)),
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { code } => format!("exit {code}"),
        Outcome::Signaled { signal } => format!("signal {signal}"),
        Outcome::Stopped { .. } => "stopped".into(),
        Outcome::TimedOut { .. } => "timed out".into(),
        Outcome::OutOfMemory { of: Memory::Gpu, .. } => "out of GPU memory".into(),
        Outcome::OutOfMemory { of: Memory::Host, .. } => "out of memory".into(),
        Outcome::SessionClosed { .. } => "its session was closed".into(),
        Outcome::StartError { .. } => "its command could not start".into(),
        Outcome::GpuLocked { uuid, .. } => format!("another service holds {uuid}"),
        Outcome::MachineError { .. } => "the machine could not start it".into(),
        Outcome::Lost { error } => format!("lost, {error}"),
        Outcome::Preempted => "preempted".into(),
        Outcome::Cancelled { .. } => "cancelled in the cluster".into(),
        Outcome::NeverStarted => "never started".into(),
    }
}

fn end(end: &End) -> String {
    match end {
        End::Completed => "completed".into(),
        End::Failed(Failure::Exit { code }) => format!("failed: exit {code}"),
        End::Failed(Failure::Signal { signal }) => format!("failed: signal {signal}"),
        End::Failed(Failure::Timeout) => "failed: timeout".into(),
        End::Failed(Failure::GpuOom) => "failed: GPU memory".into(),
        End::Failed(Failure::HostOom) => "failed: memory".into(),
        End::Failed(Failure::SessionClosed) => "failed: session closed".into(),
        End::Failed(Failure::Lost) => "failed: lost".into(),
        End::Failed(Failure::Preempted) => "failed: preempted".into(),
        End::Failed(Failure::Cancelled) => "failed: cancelled".into(),
        End::Failed(Failure::StartError) => "failed: start error".into(),
        End::Failed(Failure::Dependency { parent }) => format!("failed: {parent} did not complete"),
        End::Killed(KillReason::User) => "killed by a user".into(),
        End::Killed(KillReason::Removed) => "removed".into(),
        End::Killed(KillReason::Stopped) => "killed as the service stops".into(),
    }
}

pub fn effect(effect: Effect) -> String {
    let on = |machine| match machine {
        MachineId::LOCAL => String::new(),
        machine => format!(" on {}", named(machine)),
    };
    match effect {
        Effect::Start { run, machine, lease: had } => {
            assert_eq!(machine, had.runs_on(), "{run} is started elsewhere");
            format!("-> start {run} on {}", lease(&had))
        }
        Effect::Observe { run, machine, ran: false } => format!("-> look for {run}{}", on(machine)),
        Effect::Observe { run, machine, ran: true } => format!("-> look for {run}{}, which ran", on(machine)),
        Effect::Stop { run, machine } => format!("-> stop {run}{}", on(machine)),
        Effect::Tidy { run, machine } => format!("-> tidy up after {run}{}", on(machine)),
        Effect::Copy { job } => format!("-> copy the results of {job}"),
        Effect::EndCopy { job } => format!("-> no more of the copy of {job}"),
    }
}

pub fn refusal(refusal: Refusal) -> String {
    match refusal {
        Refusal::NotLive(job) => format!("refused: {job} is not alive"),
        Refusal::WrongState(job) => format!("refused: {job} is in another state"),
        Refusal::Circular(job) => format!("refused: {job} would wait for itself"),
        Refusal::NoSuchMachine(machine) => format!("refused: there is no {}", named(machine)),
        Refusal::MachineBusy { machine, runs } => format!("refused: {runs} runs hold {}", named(machine)),
        Refusal::OwnMachine => "refused: the own host stays".into(),
        Refusal::NoSuchGpus { missing, .. } => format!("refused: there is no GPU {missing}"),
    }
}
