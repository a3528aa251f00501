//! Users who ask for jobs and change their minds. What they asked for, and what they were told, goes into the ledger.

use nexus_api::amount::GpuAmount;
use nexus_api::command::Command as Text;
use nexus_api::jobs::{JobRequest, JobSpec};
use nexus_api::problem::Problem;
use nexus_core::apply::Command;
use nexus_core::ids::{JobId, MachineId};
use nexus_node::slurm::Options;
use nexus_testkit::Chance;
use tokio::sync::oneshot;

use super::ledger::{Ledger, Row, Wish};
use crate::backend::ssh::address::Address;
use crate::engine::taken::Taken;
use crate::engine::{AddMachine, Forgetter, Message, Once, Revision, fresh};

/// Machines that users know of: their names, and the numbers that they get.
/// The last of them is a cluster, and the one before has GPUs that its node reads.
pub const MACHINES: u64 = 3;
const CLUSTER: u64 = MACHINES - 1;
const READ: u64 = MACHINES - 2;

/// Jobs are added up to here.
const MOST_JOBS: usize = 40;

/// Newer jobs are of more interest.
const RECENT: usize = 8;

/// What somebody waits for.
pub struct Pending {
    what: What,
    answer: Answer,
}

enum Answer {
    Jobs(oneshot::Receiver<Result<Vec<JobId>, Problem>>),
    Taken(oneshot::Receiver<Result<Taken, Problem>>),
    Nothing(oneshot::Receiver<Result<(), Problem>>),
}

impl Pending {
    /// Why it was refused, if it was.
    pub fn refusal(&mut self) -> Option<Problem> {
        match &mut self.answer {
            Answer::Jobs(answer) => answer.try_recv().ok()?.err(),
            Answer::Taken(answer) => answer.try_recv().ok()?.err(),
            Answer::Nothing(answer) => answer.try_recv().ok()?.err(),
        }
    }
}

/// What a user wants.
#[derive(Clone, Debug)]
pub enum What {
    Submit(Submission),
    Hold(JobId),
    Release(JobId),
    First(JobId),
    Kill(JobId),
    Remove(JobId),
    Cancel(JobId),
    Tag(JobId, String),
    Forget(JobId),
    PauseQueue,
    ResumeQueue,
    AddMachine(u64),
    PauseMachine(MachineId),
    ResumeMachine(MachineId),
    RemoveMachine { machine: MachineId, drain: bool, kill: bool },
    Stop { kill: bool },
}

/// Jobs that are to be queued once, however often they are sent.
#[derive(Clone, Debug)]
pub struct Submission {
    key: Option<String>,
    specs: Vec<JobSpec>,
}

/// Remembers what was sent and never answered.
#[derive(Default)]
pub struct Users {
    unanswered: Vec<Submission>,
    sent: usize,
}

impl Users {
    /// Something that somebody wants now.
    pub fn want(&mut self, rows: &[Row], chance: &mut Chance) -> What {
        let recent = rows.len().min(RECENT) as u64;
        if recent == 0 || chance.one_in(4) {
            return self.submit(rows, chance);
        }
        let job = rows[rows.len() - 1 - chance.below(recent) as usize].id;
        let machine = MachineId(1 + chance.below(MACHINES) as u32);
        match chance.below(26) {
            0..3 => What::Hold(job),
            3..6 => What::Release(job),
            6 => What::First(job),
            7..9 => What::Kill(job),
            9 => What::Remove(job),
            10..12 => What::Cancel(job),
            12..14 => What::Tag(job, format!("t{}", chance.below(100))),
            14 => What::Forget(job),
            15 => What::PauseQueue,
            16..19 => What::ResumeQueue,
            19..21 => What::AddMachine(chance.below(MACHINES)),
            21 => What::PauseMachine(machine),
            22 => What::ResumeMachine(machine),
            23 => What::RemoveMachine { machine, drain: chance.one_in(2), kill: chance.one_in(2) },
            24 if chance.one_in(4) => What::Stop { kill: chance.one_in(2) },
            _ => self.submit(rows, chance),
        }
    }

    /// A job that fits any machine and waits for nothing.
    pub fn plain_job(&mut self) -> What {
        self.sent += 1;
        let mut spec = JobSpec::new(Text::Shell(format!("train {}", self.sent)), "/".into());
        spec.request = JobRequest { gpus: Some(GpuAmount::whole(1)), ..JobRequest::default() };
        What::Submit(Submission { key: None, specs: vec![spec] })
    }

    /// A job with so many GPUs that waits for nothing; and its command.
    pub fn gpu_job(&mut self, gpus: u16) -> (What, String) {
        self.sent += 1;
        let text = format!("train {}", self.sent);
        let mut spec = JobSpec::new(Text::Shell(text.clone()), "/".into());
        spec.request = JobRequest { gpus: Some(GpuAmount::whole(gpus)), ..JobRequest::default() };
        (What::Submit(Submission { key: None, specs: vec![spec] }), text)
    }

    fn submit(&mut self, rows: &[Row], chance: &mut Chance) -> What {
        if !self.unanswered.is_empty() && chance.one_in(2) {
            let again = self.unanswered.swap_remove(0);
            return What::Submit(again);
        }
        if self.sent > MOST_JOBS {
            return What::ResumeQueue;
        }
        let count = chance.pick(&[1, 1, 1, 4]);
        let specs: Vec<JobSpec> = (1..=count).map(|number| spec(self.sent + number, rows, chance)).collect();
        self.sent += count;
        let key = (!chance.one_in(3)).then(|| format!("key {}", self.sent));
        What::Submit(Submission { key, specs })
    }

    /// The message for it; what is asked for is in the ledger before it is sent.
    pub fn ask(&self, what: What, ledger: &mut Ledger) -> (Message, Pending) {
        asked(&what, ledger);
        let (reply, jobs) = oneshot::channel();
        if let Some((command, verb)) = command_of(&what) {
            let message = Message::Command { command, verb, skip_unfit: false, reply };
            return (message, Pending { what, answer: Answer::Jobs(jobs) });
        }
        let (done, nothing) = oneshot::channel();
        let (message, answer) = match what.clone() {
            // As files come: the World takes them in while they are written.
            What::Submit(Submission { key: None, specs }) => {
                let revision = Revision { add: fresh(specs), ..Revision::default() };
                return (Message::Revise { revision, reply }, Pending { what, answer: Answer::Jobs(jobs) });
            }
            What::Submit(Submission { key, specs }) => {
                let once = key.map(|key| Once { key, digest: 7 });
                let (reply, taken) = oneshot::channel();
                (Message::Submit { jobs: fresh(specs), note: None, once, reply }, Answer::Taken(taken))
            }
            What::Tag(job, tag) => {
                (Message::Tag { ids: vec![job], tag, take_off: false, reply: done }, Answer::Nothing(nothing))
            }
            What::Forget(job) => {
                (Message::Forget { ids: vec![job], by: Forgetter::User, reply: done }, Answer::Nothing(nothing))
            }
            What::AddMachine(number) => {
                let name = format!("m{}", number + 1);
                let new = match number {
                    CLUSTER => {
                        let slurm = Some(Options { most_submitted: 5, ..Options::default() });
                        AddMachine { address: None, slurm, name, class: None, home: None, simulated: 0 }
                    }
                    number => {
                        let (address, simulated) = (Address::parse(&name), if number == READ { 0 } else { 1 });
                        AddMachine { address, slurm: None, name, class: None, home: None, simulated }
                    }
                };
                (Message::AddMachine { new: Box::new(new), reply: done }, Answer::Nothing(nothing))
            }
            other => unreachable!("{other:?} is a command"),
        };
        (message, Pending { what, answer })
    }

    /// The service is gone. Whoever has a key may send it again.
    pub fn heard_nothing(&mut self, pending: Vec<Pending>) {
        for Pending { what, .. } in pending {
            if let What::Submit(submission) = what
                && submission.key.is_some()
            {
                self.unanswered.push(submission);
            }
        }
    }

    /// What came of it. `rows`: as the disk is now. Whether it was done.
    pub fn answered(&mut self, pending: Pending, rows: &[Row], ledger: &mut Ledger) -> bool {
        let Pending { what, answer } = pending;
        let told = match answer {
            Answer::Jobs(mut answer) => answer.try_recv().ok(),
            Answer::Taken(mut answer) => answer.try_recv().ok().map(|answer| answer.map(|taken| taken.ids)),
            Answer::Nothing(mut answer) => answer.try_recv().ok().map(|answer| answer.map(|()| vec![])),
        };
        match (what, told) {
            (what, Some(Ok(ids))) => {
                done(&what, &ids, rows, ledger);
                true
            }
            // It failed: so may whoever was told so.
            (What::Submit(submission), _) if submission.key.is_some() => {
                self.unanswered.push(submission);
                false
            }
            _ => false,
        }
    }
}

fn spec(number: usize, rows: &[Row], chance: &mut Chance) -> JobSpec {
    let mut spec = JobSpec::new(Text::Shell(format!("train {number}")), "/".into());
    let gpus = GpuAmount::whole(chance.pick(&[0, 1, 1, 1, 2]));
    let time_seconds = chance.pick(&[None, None, None, Some(2), Some(30)]);
    spec.request = JobRequest { gpus: Some(gpus), time_seconds, ..JobRequest::default() };
    spec.retries = chance.pick(&[0, 0, 1, 2]);
    spec.hold = chance.one_in(8);
    spec.priority = chance.below(3) as i32;
    if let Some(parent) = rows.last().filter(|_| chance.one_in(5)) {
        spec.after = vec![parent.id.to_string()];
    }
    spec
}

/// In the words of core, where it has some for it.
fn command_of(what: &What) -> Option<(Command, &'static str)> {
    Some(match what {
        What::Hold(job) => (Command::Hold(vec![*job]), "hold"),
        What::Release(job) => (Command::Release(vec![*job]), "release"),
        What::First(job) => (Command::First(vec![*job]), "first"),
        What::Kill(job) => (Command::Kill(vec![*job]), "kill"),
        What::Remove(job) => (Command::Remove(vec![*job]), "rm"),
        What::Cancel(job) => (Command::Cancel(vec![*job]), "cancel"),
        What::PauseQueue => (Command::PauseQueue, "pause"),
        What::ResumeQueue => (Command::ResumeQueue, "resume"),
        What::PauseMachine(machine) => (Command::PauseMachines { machines: vec![*machine] }, "pause"),
        What::ResumeMachine(machine) => (Command::ResumeMachines { machines: vec![*machine] }, "resume"),
        What::RemoveMachine { machine, drain, kill } => {
            (Command::RemoveMachine { machine: *machine, drain: *drain, kill: *kill }, "rm")
        }
        What::Stop { kill } => (Command::Stop { kill: *kill }, "stop"),
        What::Submit(_) | What::Tag(..) | What::Forget(_) | What::AddMachine(_) => return None,
    })
}

/// Asked for is not done: but from here on it may be.
fn asked(what: &What, ledger: &mut Ledger) {
    match what {
        What::Submit(Submission { specs, .. }) => {
            for spec in specs {
                let after = spec.after.iter().map(|id| id.parse().expect("an id")).collect();
                let wish = Wish { after, ..Wish::default() };
                ledger.wishes.entry(spec.command.text()).or_insert(wish);
            }
        }
        What::ResumeQueue => ledger.paused = None,
        What::Stop { kill } => ledger.stop_asked |= kill,
        // What is ended there is ended by a user.
        What::RemoveMachine { kill: true, .. } => ledger.wishes.values_mut().for_each(|wish| wish.kill_asked = true),
        _ => {}
    }
    let Some(wish) = job_of(what).and_then(|job| ledger.wish_of(job)) else { return };
    match what {
        What::Release(_) | What::First(_) => wish.held = None,
        What::Kill(_) => wish.kill_asked = true,
        What::Remove(_) => wish.remove_asked = true,
        What::Cancel(_) => (wish.kill_asked, wish.remove_asked) = (true, true),
        What::Forget(_) => wish.forget_asked = true,
        _ => {}
    }
}

/// It was answered that it is done.
fn done(what: &What, ids: &[JobId], rows: &[Row], ledger: &mut Ledger) {
    match what {
        What::Submit(Submission { specs, .. }) => {
            assert_eq!(ids.len(), specs.len(), "each job has an id");
            for (spec, id) in specs.iter().zip(ids) {
                let wish = ledger.wishes.get_mut(&spec.command.text()).expect("it was asked for");
                assert!(wish.id.is_none_or(|known| known == *id), "{:?} was {:?}, and is {id}", spec.command, wish.id);
                wish.id = Some(*id);
            }
        }
        What::PauseQueue => ledger.paused = Some(rows.iter().map(|row| u64::from(row.runs)).sum()),
        _ => {}
    }
    let Some(job) = job_of(what) else { return };
    let runs = rows.iter().find(|row| row.id == job).map_or(0, |row| row.runs);
    let Some(wish) = ledger.wish_of(job) else { return };
    match what {
        What::Hold(_) => wish.held = Some(runs),
        What::Kill(_) | What::Remove(_) | What::Cancel(_) => wish.last_run = Some(runs),
        What::Tag(_, tag) => drop(wish.tags.insert(tag.clone())),
        What::Forget(_) => wish.was_forgotten = true,
        _ => {}
    }
}

pub fn job_of(what: &What) -> Option<JobId> {
    match what {
        What::Hold(job)
        | What::Release(job)
        | What::First(job)
        | What::Kill(job)
        | What::Remove(job)
        | What::Cancel(job)
        | What::Tag(job, _)
        | What::Forget(job) => Some(*job),
        _ => None,
    }
}
