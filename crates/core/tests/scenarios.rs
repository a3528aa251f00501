//! Plays `scenarios/*.txt`, one line one turn of the engine, and compares what happened with `*.out`.
//! `UPDATE_SCENARIOS=1` writes the outputs anew: read the difference before it is committed.
//!
//! ```text
//! machine gpus=2 cpus=8 prefer=1,0         submit abc gpus=1 cpus=0 on=0,1 priority=-1 retries=2 hold force
//! gpu 1 in-use|locked|unreadable|mig|left-out|gone|fine free=512
//! pause 0,1   resume 1                     GPUs; without them the queue
//! kill|remove|cancel|hold|release|first|order abc def      pause   resume   stop   stop kill   restart   wait 5s   why
//! edit abc gpus=2 priority=1 retries=2
//! started abc.1   end abc.1 exit 3|signal 9|stopped|timed-out|never-started
//! lost abc.1      start-error abc.1   machine-error abc.1   not-started abc.1
//! restart; started abc.1                   several in one turn
//! ```
#![allow(clippy::disallowed_methods, reason = "a test is told by its environment to write its files anew")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use nexus_core::apply::{self, Command, Edit, Refusal, Report, Revision};
use nexus_core::check::check;
use nexus_core::decide::decide;
use nexus_core::event::{Event, Needs, NewJob, Requeue};
use nexus_core::explain::Explainer;
use nexus_core::free::GpuCount;
use nexus_core::ids::{JobId, MachineId, RunId};
use nexus_core::job::{End, Failure, KillReason};
use nexus_core::machine::{Gpu, Machine, Obstacle};
use nexus_core::policy::Policy;
use nexus_core::reconcile::{Effect, Seen, reconcile};
use nexus_core::request::{GpuSet, Request};
use nexus_core::run::{Lease, Memory, Outcome, StopCause};
use nexus_core::time::Time;
use nexus_core::waiting::Waiting;
use nexus_core::world::World;

#[test]
fn scenarios_end_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let update = std::env::var("UPDATE_SCENARIOS").is_ok_and(|value| value == "1");
    let mut played = 0;
    for entry in std::fs::read_dir(&folder).expect("the scenarios are beside this file") {
        let path = entry.expect("a readable folder").path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let output = play(&std::fs::read_to_string(&path).expect("a readable scenario"));
        let golden = path.with_extension("out");
        if update {
            std::fs::write(&golden, &output).expect("a writable folder");
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(expected, output, "\n{} differs; UPDATE_SCENARIOS=1 writes it anew\n{output}", golden.display());
        played += 1;
    }
    assert!(played >= 10, "only {played} scenarios were found");
}

fn play(scenario: &str) -> String {
    let mut scene = Scene::default();
    let mut output = String::new();
    for line in scenario.lines() {
        match line.trim() {
            "" => output.push('\n'),
            comment if comment.starts_with('#') => writeln!(output, "{comment}").expect("a String takes all"),
            line => {
                writeln!(output, "> {line}").expect("a String takes all");
                for happened in scene.turn(line) {
                    writeln!(output, "    {happened}").expect("a String takes all");
                }
            }
        }
    }
    output
}

/// A machine, a disk that never fails, and an engine.
#[derive(Default)]
struct Scene {
    world: World,
    seen: Seen,
    now: Time,
    machine: Option<Machine>,
    submitted: i64,
    /// What was asked in the last `Observe` of a run.
    observed: BTreeMap<RunId, bool>,
}

impl Scene {
    fn turn(&mut self, line: &str) -> Vec<String> {
        if line == "why" {
            return self.why();
        }
        let (mut said, mut events) = (Vec::new(), Vec::new());
        for input in line.split(';') {
            match self.apply(input) {
                Ok(made) => events.extend(made),
                Err(refusal) => said.push(refusal_words(refusal)),
            }
        }
        events.extend(decide(&mut self.world, self.now));
        check(&self.world).unwrap_or_else(|broken| panic!("after {line}: {broken}"));
        events.iter().for_each(|event| self.seen.event(event));
        said.extend(events.iter().map(|event| self.event_words(event)));
        for effect in reconcile(&self.world, &mut self.seen) {
            if let Effect::Observe { run, ran } = effect {
                self.observed.insert(run, ran);
            }
            said.push(effect_words(effect));
        }
        said
    }

    fn apply(&mut self, input: &str) -> Result<Vec<Event>, Refusal> {
        let words: Vec<&str> = input.split_whitespace().collect();
        let (verb, rest) = words.split_first().expect("an input has a word");
        if let Some(command) = self.command(verb, rest) {
            return apply::command(&mut self.world, command, self.now);
        }
        if let Some(report) = self.report(verb, rest) {
            self.seen.report(&report);
            return Ok(apply::report(&mut self.world, report, &Policy::default(), self.now));
        }
        self.happen(verb, rest);
        Ok(vec![])
    }

    /// What is neither asked nor reported.
    fn happen(&mut self, verb: &str, rest: &[&str]) {
        match verb {
            "wait" => self.now = self.now.after(span(rest[0])),
            "restart" => {
                let jobs: Vec<_> = self.world.jobs().cloned().collect();
                let machine = self.machine.clone().expect("a scenario begins with its machine");
                let paused = self.world.paused_gpus(machine.id);
                let paused: Vec<_> = paused.iter().map(|index| (machine.id, uuid(index))).collect();
                let world = World::restore(jobs, self.world.queue_paused(), self.submitted);
                self.world = world.with_paused_gpus(paused);
                self.seen = Seen::default();
                apply::report(&mut self.world, Report::Machine(machine), &Policy::default(), self.now);
            }
            other => panic!("no such verb: {other}"),
        }
    }

    fn command(&mut self, verb: &str, rest: &[&str]) -> Option<Command> {
        let jobs = || rest.iter().map(|word| word.parse().expect("an id")).collect::<Vec<JobId>>();
        Some(match verb {
            "submit" => {
                self.submitted += 1;
                Command::Submit(vec![new_job(rest, self.now)])
            }
            "kill" => Command::Kill(jobs()),
            "remove" => Command::Remove(jobs()),
            "cancel" => Command::Cancel(jobs()),
            "hold" => Command::Hold(jobs()),
            "release" => Command::Release(jobs()),
            "first" => Command::First(jobs()),
            "pause" if rest.is_empty() => Command::PauseQueue,
            "resume" if rest.is_empty() => Command::ResumeQueue,
            "pause" => Command::PauseGpus { machine: MachineId::LOCAL, gpus: indices(rest[0]).collect() },
            "resume" => Command::ResumeGpus { machine: MachineId::LOCAL, gpus: indices(rest[0]).collect() },
            "order" => Command::Revise(Revision { order: jobs(), ..Revision::default() }),
            "edit" => {
                let wanted = new_job(rest, self.now);
                let needs = Needs { request: wanted.request, retries: wanted.retries };
                let edit = Edit { job: wanted.id, needs: Some(needs), priority: Some(wanted.priority), held: None };
                Command::Revise(Revision { edits: vec![edit], ..Revision::default() })
            }
            "stop" => Command::Stop { kill: rest == ["kill"] },
            _ => return None,
        })
    }

    fn report(&mut self, verb: &str, rest: &[&str]) -> Option<Report> {
        if verb == "machine" {
            let (gpus, cpus) = (number(rest, "gpus").unwrap_or(0), number(rest, "cpus").unwrap_or(8));
            let prefer = rest.iter().find_map(|word| word.strip_prefix("prefer=")).map(indices);
            let prefer = prefer.into_iter().flatten().collect();
            self.machine = Some(Machine { prefer, ..machine(gpus as u16, cpus as u16) });
            return self.machine.clone().map(Report::Machine);
        }
        if verb == "gpu" {
            self.change_gpu(rest);
            return self.machine.clone().map(Report::Machine);
        }
        if verb == "disk" {
            return Some(Report::Disk { full: rest == ["full"] });
        }
        let run: RunId = rest.first()?.parse().ok()?;
        let error = || "an error".to_string();
        let outcome = match verb {
            "started" => return Some(Report::Started { run, pid: 1, at: self.now }),
            "not-started" => return Some(Report::NotStarted { run, ran: self.observed[&run] }),
            "end" => outcome(&rest[1..]),
            "lost" => Outcome::Lost { error: error() },
            "start-error" => Outcome::StartError { error: error(), code: None },
            "machine-error" => Outcome::MachineError { error: error() },
            _ => return None,
        };
        Some(Report::Ended { run, outcome, at: self.now })
    }

    /// `1 unreadable`, `1 fine free=512`
    fn change_gpu(&mut self, words: &[&str]) {
        let index: u16 = words[0].parse().expect("a GPU number");
        let gpus = &mut self.machine.as_mut().expect("a scenario begins with its machine").gpus;
        if words[1] == "gone" {
            return gpus.retain(|gpu| gpu.index != index);
        }
        if gpus.iter().all(|gpu| gpu.index != index) {
            gpus.push(gpu(index));
        }
        let gpu = gpus.iter_mut().find(|gpu| gpu.index == index).expect("it is there now");
        gpu.free_mib = number(words, "free").map_or(gpu.free_mib, |free| free as u64);
        gpu.obstacle = match words[1] {
            "fine" => None,
            "in-use" => Some(Obstacle::InUse),
            "locked" => Some(Obstacle::Locked),
            "unreadable" => Some(Obstacle::Unreadable),
            "mig" => Some(Obstacle::Mig),
            "left-out" => Some(Obstacle::LeftOut),
            other => panic!("no such state of a GPU: {other}"),
        };
    }

    fn why(&self) -> Vec<String> {
        let mut explainer = Explainer::new(&self.world);
        let waiting = self.world.jobs().filter_map(|job| explainer.job(job.id).map(|why| (job.id, why)));
        waiting.map(|(job, why)| format!("{job}: {}", self.waiting_words(&why))).collect()
    }

    fn event_words(&self, event: &Event) -> String {
        match event {
            Event::Submitted(new) if new.held => format!("{} is queued and held", new.id),
            Event::Submitted(new) => format!("{} is queued", new.id),
            Event::Held { job } => format!("{job} is held"),
            Event::Released { job } => format!("{job} is released"),
            Event::Moved { job, .. } => format!("{job} is put first"),
            Event::Placed { job, place } => format!("{job} gets a place at priority {}", place.priority),
            Event::Edited { job, .. } => format!("{job} is changed"),
            Event::Planned { run, lease, .. } => format!("{run} is planned on {}", lease_words(lease)),
            Event::Running { run, .. } => format!("{run} runs"),
            Event::StopAsked { run, cause: StopCause::User } => format!("{run} is to stop: a user asked"),
            Event::StopAsked { run, cause: StopCause::Stopped } => format!("{run} is to stop: the service stops"),
            Event::RunEnded { run, outcome, .. } => format!("{run} ended: {}", outcome_words(outcome)),
            Event::Requeued { job, why, not_before } => {
                let why = match why {
                    Requeue::Retry => "a retry",
                    Requeue::StartFailed => "the start failed, no retry used",
                };
                let wait = not_before.map_or(0, |at| at.since(self.now).as_secs());
                format!("{job} is queued again in {wait}s: {why}")
            }
            Event::JobEnded { job, end, .. } => format!("{job} is {}", end_words(end)),
            Event::QueuePaused => "the queue is paused".into(),
            Event::QueueResumed => "the queue goes on".into(),
            Event::GpuPaused { index, .. } => format!("GPU {index} is paused"),
            Event::GpuResumed { index, .. } => format!("GPU {index} goes on"),
            Event::MachineRead(machine) => {
                let obstacle = |gpu: &Gpu| gpu.obstacle.map(|what| format!("; GPU {} {what:?}", gpu.index));
                let obstacles: String = machine.gpus.iter().filter_map(obstacle).collect();
                format!("{} has GPUs {}; {} CPUs{obstacles}", machine.name, machine.gpu_set(), machine.cpus)
            }
            Event::DiskFull { full: true } => "the disk is full".into(),
            Event::DiskFull { full: false } => "the disk has room".into(),
            Event::Stopping => "the service stops".into(),
        }
    }

    fn waiting_words(&self, waiting: &Waiting) -> String {
        let on = |on: &Option<GpuSet>| on.map(|on| format!(" among {on}")).unwrap_or_default();
        match waiting {
            Waiting::Held => "held".into(),
            Waiting::QueuePaused => "the queue is paused".into(),
            Waiting::DiskFull => "the disk is full".into(),
            Waiting::Stopping => "the service stops".into(),
            Waiting::Retry { until } => format!("a retry in {}s", until.since(self.now).as_secs()),
            Waiting::NoSuchGpus { need, on: set, count } => {
                format!("needs {need} GPUs{}, only {} exist{}", on(set), count.exist(), never_words(count))
            }
            Waiting::Gpus { need, on: set, count } => {
                format!("needs {need} GPUs{}, {}{}", on(set), count_words(count), never_words(count))
            }
            Waiting::NoSuchCpus { need, exist } => format!("needs {need} CPUs, only {exist} exist"),
            Waiting::Cpus { need, free } => format!("needs {need} CPUs, {free} free"),
            Waiting::Next => "next".into(),
        }
    }
}

/// `1 free, 2 held`; what is not there is not said.
fn count_words(count: &GpuCount) -> String {
    let parts = [
        (count.held, "held"),
        (count.outside, "in use outside"),
        (count.paused, "paused"),
        (count.unreadable, "unreadable"),
    ];
    let others = parts.into_iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!(", {number} {what}"));
    format!("{} free{}", count.free, others.collect::<String>())
}

fn never_words(count: &GpuCount) -> String {
    let parts = [(count.mig, "in MIG mode"), (count.left_out, "left out")];
    parts.into_iter().filter(|(set, _)| !set.is_empty()).map(|(set, what)| format!("; {set} {what}")).collect()
}

fn indices(list: &str) -> impl Iterator<Item = u16> {
    list.split(',').map(|index| index.parse().expect("a GPU number"))
}

fn new_job(words: &[&str], now: Time) -> NewJob {
    let on = words.iter().find_map(|word| word.strip_prefix("on="));
    let on = on.map(|list| indices(list).collect());
    NewJob {
        id: words[0].parse().expect("an id"),
        request: Request {
            gpus: number(words, "gpus").unwrap_or(1) as u16,
            cpus: number(words, "cpus").unwrap_or(0) as u16,
            on,
            force: words.contains(&"force"),
        },
        priority: number(words, "priority").unwrap_or(0) as i32,
        retries: number(words, "retries").unwrap_or(0) as u32,
        held: words.contains(&"hold"),
        at: now,
    }
}

fn number(words: &[&str], name: &str) -> Option<i64> {
    let value = words.iter().filter_map(|word| word.split_once('=')).find(|(key, _)| *key == name);
    value.map(|(_, value)| value.parse().expect("a number"))
}

fn span(text: &str) -> Duration {
    Duration::from_secs(text.strip_suffix('s').and_then(|seconds| seconds.parse().ok()).expect("seconds, as in 5s"))
}

fn machine(gpus: u16, cpus: u16) -> Machine {
    Machine { id: MachineId::LOCAL, name: "local".into(), cpus, gpus: (0..gpus).map(gpu).collect(), prefer: vec![] }
}

fn gpu(index: u16) -> Gpu {
    let (uuid, name) = (uuid(index), "Pretend".into());
    Gpu { index, uuid, name, memory_mib: 1024, free_mib: 1024, simulated: true, obstacle: None }
}

fn uuid(index: u16) -> String {
    format!("GPU-{index}")
}

fn outcome(words: &[&str]) -> Outcome {
    match words {
        ["exit", code] => Outcome::Exited { code: code.parse().expect("an exit code") },
        ["signal", signal] => Outcome::Signaled { signal: signal.parse().expect("a signal") },
        ["stopped"] => Outcome::Stopped { code: None, signal: Some(15) },
        ["timed-out"] => Outcome::TimedOut { code: None, signal: Some(15) },
        ["never-started"] => Outcome::NeverStarted,
        other => panic!("no such end: {other:?}"),
    }
}

fn lease_words(lease: &Lease) -> String {
    match (lease.gpus.len(), lease.cpus) {
        (0, cpus) => format!("{cpus} CPUs"),
        (1, 0) => format!("GPU {}", lease.gpus),
        (_, 0) => format!("GPUs {}", lease.gpus),
        (_, cpus) => format!("GPUs {} and {cpus} CPUs", lease.gpus),
    }
}

fn outcome_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { code } => format!("exit {code}"),
        Outcome::Signaled { signal } => format!("signal {signal}"),
        Outcome::Stopped { .. } => "stopped".into(),
        Outcome::TimedOut { .. } => "timed out".into(),
        Outcome::SessionClosed { .. } => "its session was closed".into(),
        Outcome::OutOfMemory { of: Memory::Gpu, .. } => "out of GPU memory".into(),
        Outcome::OutOfMemory { of: Memory::Host, .. } => "out of memory".into(),
        Outcome::StartError { .. } => "its command could not start".into(),
        Outcome::MachineError { .. } => "the machine could not start it".into(),
        Outcome::Lost { error } => format!("lost, {error}"),
        Outcome::NeverStarted => "never started".into(),
    }
}

fn end_words(end: &End) -> String {
    match end {
        End::Completed => "completed".into(),
        End::Failed(Failure::Exit { code }) => format!("failed: exit {code}"),
        End::Failed(Failure::Signal { signal }) => format!("failed: signal {signal}"),
        End::Failed(Failure::Timeout) => "failed: timeout".into(),
        End::Failed(Failure::SessionClosed) => "failed: session closed".into(),
        End::Failed(Failure::GpuOom) => "failed: gpu-oom".into(),
        End::Failed(Failure::HostOom) => "failed: host-oom".into(),
        End::Failed(Failure::Lost) => "failed: lost".into(),
        End::Failed(Failure::StartError) => "failed: start error".into(),
        End::Killed(KillReason::User) => "killed by a user".into(),
        End::Killed(KillReason::Removed) => "removed".into(),
        End::Killed(KillReason::Stopped) => "killed as the service stops".into(),
    }
}

fn effect_words(effect: Effect) -> String {
    match effect {
        Effect::Start { run, lease } => format!("-> start {run} on {}", lease_words(&lease)),
        Effect::Observe { run, ran: false } => format!("-> look for {run}"),
        Effect::Observe { run, ran: true } => format!("-> look for {run}, which ran"),
        Effect::Stop { run } => format!("-> stop {run}"),
        Effect::Tidy { run } => format!("-> tidy up after {run}"),
    }
}

fn refusal_words(refusal: Refusal) -> String {
    match refusal {
        Refusal::NotLive(job) => format!("refused: {job} is not alive"),
        Refusal::WrongState(job) => format!("refused: {job} is in another state"),
        Refusal::NoSuchGpus { missing, .. } => format!("refused: there is no GPU {missing}"),
    }
}
