//! The machines of the pool: how they stand, and what is done to them.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use nexus_api::machines::{InPool, MachineAction, MachineState, NewMachine, OnMachines, SetUpBegun, SetUpMachines};
use nexus_api::problem::Problem;
use nexus_api::service::Machine;
use nexus_core::apply::Command;
use nexus_core::ids::MachineId;
use nexus_core::machine::{Machine as Known, SetUp};
use nexus_core::world::World;

use super::extract::{Path, Sent};
use super::problem::Failed;
use super::{App, Shared, gpus, slurm};
use crate::backend::ssh::Step;
use crate::backend::ssh::address::{Address, WANT, is_machine_name};
use crate::engine::{AddMachine, Message, SetUpOrder};
use crate::pool::{LineState, Member, Pool};
use crate::{checks, clock};

/// More than nexus pretends to have.
const MOST_SIMULATED: u16 = 64;

/// Jobs of one set-up, over all of its machines.
const MOST_SET_UP: usize = 10_000;

/// Between two machines that are set up: a day.
const LONGEST_STAGGER: u64 = 86_400;

/// `GET /v1/machines`
pub async fn list(State(app): State<Shared>) -> Result<Json<Vec<Machine>>, Failed> {
    Ok(Json(app.machines().await?))
}

/// `GET /v1/machines/{name}`
pub async fn show(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Machine>, Failed> {
    app.machine_named(&name).await?;
    let found = app.machines().await?.into_iter().find(|machine| machine.name == name);
    Ok(Json(found.ok_or(Problem::NoSuchMachine { name, near: None })?))
}

/// `POST /v1/machines`: it is in the pool from now on, and called. How that goes is told by `GET`.
pub async fn add(
    State(app): State<Shared>,
    Sent(new): Sent<NewMachine>,
) -> Result<(StatusCode, Json<Machine>), Failed> {
    let new = checked(new)?;
    let name = new.name.clone();
    app.order(|reply| Message::AddMachine { new: Box::new(new), reply }).await?;
    let found = app.machines().await?.into_iter().find(|machine| machine.name == name);
    Ok((StatusCode::CREATED, Json(found.ok_or(Problem::NoSuchMachine { name, near: None })?)))
}

/// `POST /v1/setups`: their jobs are queued, and they join the class as these complete.
pub async fn set_up(
    State(app): State<Shared>,
    Sent(wish): Sent<SetUpMachines>,
) -> Result<Json<Vec<SetUpBegun>>, Failed> {
    let SetUpMachines { machines, class, mut jobs, stagger_seconds } = wish;
    let count = machines.len() * jobs.len();
    if count == 0 || count > MOST_SET_UP {
        let want = format!("machines and the jobs that set them up, {MOST_SET_UP} at most in all");
        return Err(Failed(Problem::BadField { field: "jobs".into(), value: count.to_string(), want }));
    }
    if stagger_seconds > LONGEST_STAGGER {
        let (value, want) = (format!("{stagger_seconds}s"), "at most a day".into());
        return Err(Failed(Problem::BadField { field: "stagger".into(), value, want }));
    }
    checks::word("class", &class)?;
    let machines = machines.into_iter().map(checked).collect::<Result<Vec<_>, _>>()?;
    for job in &mut jobs {
        job.request.machine = Some(machines[0].name.clone());
        // They come one after the other, and after nothing else; doing the same twice is what a set-up may be for.
        (job.after, job.after_any, job.unique, job.hold) = (vec![], vec![], false, false);
    }
    let (jobs, _) = app.meant(jobs, 1)?;
    let stagger = Duration::from_secs(stagger_seconds);
    let order = Box::new(SetUpOrder { machines, class, jobs, stagger });
    Ok(Json(app.order(|reply| Message::SetUpMachines { order, reply }).await?))
}

/// `POST /v1/machines/pause` and its like: the machines as they are afterwards, or were before they went.
pub async fn act(
    State(app): State<Shared>,
    Path(word): Path<String>,
    Sent(on): Sent<OnMachines>,
) -> Result<Json<Vec<Machine>>, Failed> {
    let action: MachineAction = serde_json::from_value(word.clone().into())
        .map_err(|_| Problem::BadRequest { error: format!("there is nothing called {word} to do to machines") })?;
    let OnMachines { machines: names, class, drain, kill } = on;
    let machines = app.machines_named(&names).await?;
    let before = app.these(&names).await?;
    match (action, class) {
        (MachineAction::Pause, _) => app.machine_order(Command::PauseMachines { machines }, action).await?,
        (MachineAction::Resume, _) => {
            app.machine_order(Command::ResumeMachines { machines }, action).await?;
            // Whoever says so thinks that it would work now.
            names.iter().filter_map(|name| app.lines.named(name)).for_each(|remote| remote.call_now());
        }
        (MachineAction::Mv, Some(class)) => {
            checks::word("class", &class)?;
            app.order(|reply| Message::MoveMachines { machines, class, reply }).await?;
        }
        (MachineAction::Mv, None) => {
            let want = "the class that they go to".into();
            return Err(Failed(Problem::BadField { field: "class".into(), value: "nothing".into(), want }));
        }
        (MachineAction::Rm, _) => {
            for machine in machines {
                app.machine_order(Command::RemoveMachine { machine, drain, kill }, action).await?;
            }
        }
    }
    let left = app.these(&names).await?;
    let now = |machine: Machine| left.iter().find(|it| it.name == machine.name).cloned().unwrap_or(machine);
    Ok(Json(before.into_iter().map(now).collect()))
}

/// Names and an address that lead where they should.
fn checked(new: NewMachine) -> Result<AddMachine, Problem> {
    let bad = |field: &str, value: &str, want: &str| Problem::BadField {
        field: field.into(),
        value: format!("{value:?}"),
        want: want.into(),
    };
    let slurm = new.slurm.clone().map(slurm::checked).transpose()?;
    let address = match new.address.is_empty() && slurm.is_some() {
        true => None,
        false => Some(Address::parse(&new.address).ok_or_else(|| bad("address", &new.address, WANT))?),
    };
    let unnamed = || bad("name", &new.address, "a name for it: --name NAME, of letters, digits, dots and dashes");
    let name = match &new.name {
        Some(name) if is_machine_name(name) => name.clone(),
        Some(name) => {
            return Err(bad("name", name, "letters, digits, dots and dashes, beginning with a letter or digit"));
        }
        None => address.as_ref().and_then(Address::name).map(String::from).ok_or_else(unnamed)?,
    };
    if let Some(class) = &new.class {
        checks::word("class", class)?;
    }
    if let Some(home) = new.home.as_ref().filter(|home| home.is_empty() || home.chars().any(char::is_control)) {
        return Err(bad("home", home, "a folder there, as in /data/ann/nexus"));
    }
    if new.simulate_gpus > 0 && slurm.is_some() {
        return Err(bad("simulate-gpus", &new.simulate_gpus.to_string(), "0: a cluster has what Slurm says"));
    }
    if new.simulate_gpus > MOST_SIMULATED {
        return Err(bad("simulate-gpus", &new.simulate_gpus.to_string(), &format!("at most {MOST_SIMULATED}")));
    }
    Ok(AddMachine { address, slurm, name, class: new.class, home: new.home, simulated: new.simulate_gpus })
}

impl App {
    async fn machines(&self) -> Result<Vec<Machine>, Problem> {
        self.ask_pool(|world, pool| {
            let mut all = gpus::machines(world, pool);
            for (machine, member) in all.iter_mut().zip(pool.members.values()) {
                machine.pool = Some(standing(member, world, pool));
            }
            all
        })
        .await
    }

    async fn these(&self, names: &[String]) -> Result<Vec<Machine>, Problem> {
        Ok(self.machines().await?.into_iter().filter(|machine| names.contains(&machine.name)).collect())
    }

    async fn machines_named(&self, names: &[String]) -> Result<Vec<MachineId>, Problem> {
        let names = names.to_vec();
        self.ask_pool(move |_, pool| names.iter().map(|name| pool.named(name)).collect()).await?
    }

    async fn machine_order(&self, command: Command, action: MachineAction) -> Result<(), Problem> {
        let verb = action.word();
        self.order(|reply| Message::Command { command, verb, skip_unfit: false, reply }).await.map(drop)
    }
}

/// How a machine stands: what was decided about it, and how it is reached.
pub(super) fn standing(member: &Member, world: &World, pool: &Pool) -> InPool {
    let known = &member.machine;
    let decided = world.standing(known.id);
    let quarantine = decided.quarantine.as_ref();
    let (line_state, detail, hint) = line(known, member);
    let name = &member.name;
    let (state, detail, hint) = match (line_state, quarantine) {
        (MachineState::Ready, _) if decided.leaving => (MachineState::Leaving, None, None),
        (MachineState::Ready, Some(quarantine)) => (
            MachineState::Quarantined,
            Some(format!(
                "{} different jobs failed on it one after another, {} last, while others completed elsewhere",
                quarantine.failures, quarantine.last
            )),
            Some(format!("nexus why {}, then nexus machine resume {name}", quarantine.last)),
        ),
        (MachineState::Ready, None) if decided.paused => {
            (MachineState::Paused, None, Some(format!("nexus machine resume {name}")))
        }
        (MachineState::Ready, None) => match decided.set_up {
            Some(set_up) => being_set_up(name, set_up, world, pool),
            None => (MachineState::Ready, detail, hint),
        },
        (state, _) => (state, detail, hint),
    };
    let (round_trip, since, again_at) = match &member.line {
        LineState::Up { round_trip, since, .. } => (Some(round_trip.as_secs_f64() * 1000.0), Some(*since), None),
        LineState::Down { since, again_at, .. } => (None, Some(*since), Some(*again_at)),
        LineState::Own | LineState::Calling(_) => (None, None, None),
    };
    let jobs = world.active_runs().filter(|run| run.lease.machines().any(|machine| machine == known.id));
    InPool {
        state,
        detail,
        hint,
        paused: decided.paused,
        class: decided.class.map(|class| pool.names.class_name(class).to_string()),
        address: member.address.clone(),
        hostname: member.hello().map(|hello| hello.hostname.clone()),
        ram_mib: Some(known.ram_mib).filter(|mib| *mib > 0),
        home: member.hello().map(|hello| hello.home.display().to_string()),
        round_trip_ms: round_trip,
        since: since.map(clock::rfc3339),
        again_at: again_at.map(clock::rfc3339),
        added_at: (known.id != MachineId::LOCAL).then(|| clock::rfc3339(member.added_at)),
        jobs: jobs.map(|run| run.id.job.to_string()).collect(),
        slurm: member.cluster.as_ref().map(|cluster| slurm::told(cluster, known.id, world)),
    }
}

/// How far its set-up is: the job that the last one waits for, and that one's, are those that are left.
fn being_set_up(
    name: &str,
    set_up: SetUp,
    world: &World,
    pool: &Pool,
) -> (MachineState, Option<String>, Option<String>) {
    let class = pool.names.class_name(set_up.class);
    let Some(last) = world.job(set_up.last) else {
        let detail = format!("its set-up for {class} failed");
        let hint =
            format!("nexus why {}, then nexus machine setup again, or nexus machine mv {class} {name}", set_up.last);
        return (MachineState::NotSetUp, Some(detail), Some(hint));
    };
    let (mut next, mut left) = (last.id, 1);
    while let Some(before) = world.parents(next).first() {
        (next, left) = (before.job, left + 1);
    }
    let detail = match left {
        1 => format!("it joins {class} when {next} has completed"),
        left => format!("it joins {class} when {left} jobs have completed, {next} first"),
    };
    (MachineState::SettingUp, Some(detail), None)
}

fn line(known: &Known, member: &Member) -> (MachineState, Option<String>, Option<String>) {
    if let Some((trouble, _)) = member.cluster.as_ref().and_then(|cluster| cluster.away.as_ref()) {
        return (MachineState::Unreachable, Some(trouble.why.clone()), trouble.hint.clone());
    }
    match &member.line {
        LineState::Own => (MachineState::Ready, None, None),
        LineState::Up { hello, .. } if known.reachable && hello.bash.is_none() => {
            let told = "there is no bash there: sh runs the commands of jobs".into();
            (MachineState::Ready, Some(told), Some("install bash there if they are more than sh can read".into()))
        }
        LineState::Up { .. } if known.reachable => (MachineState::Ready, None, None),
        LineState::Up { .. } if member.cluster.is_some() => {
            (MachineState::Connecting, Some("Slurm is asked what there is".into()), None)
        }
        LineState::Up { .. } => (MachineState::Connecting, Some("its GPUs are being read".into()), None),
        LineState::Calling(Step::Connecting) => (MachineState::Connecting, None, None),
        LineState::Calling(Step::Sending { done, of }) => {
            let told = format!("nexus is sent there: {} of {} MB", done / 1_000_000, of / 1_000_000);
            (MachineState::Connecting, Some(told), None)
        }
        LineState::Calling(Step::Starting) => (MachineState::Connecting, Some("nexus starts there".into()), None),
        LineState::Down { trouble, .. } => (MachineState::Unreachable, Some(trouble.why.clone()), trouble.hint.clone()),
    }
}
