//! Follows set-ups until each machine is ready, or will not be. A restart of the service is outlived.

use std::collections::{BTreeMap, BTreeSet};

use nexus_api::events::What;
use nexus_api::jobs::{Action, Job, OnJobs, State};
use nexus_api::machines::{InPool, MachineAction, MachineState, OnMachines, SetUpBegun};
use nexus_api::service::Machine;

use crate::app::App;
use crate::client::{Client, Events};
use crate::ends;
use crate::error::{CliError, Refused};
use crate::render;
use crate::render::outcome;

/// How far a machine is.
enum Stage {
    /// On the way to it, or between two jobs.
    Waits(String),
    /// One of its jobs runs: which, and what was said of it.
    Works(String, String),
    Ready,
    Failed(Refused),
    /// It could not be reached at all.
    Unreached(Refused),
}

/// Returns when nothing more happens to any of them; why some are not in their class.
pub async fn until_settled(client: &Client, begun: &[SetUpBegun], app: &App) -> Result<Vec<Refused>, CliError> {
    let mut follower = Follower { client, app, left: begun.to_vec(), reached: BTreeSet::new(), told: BTreeMap::new() };
    let mut failures = Vec::new();
    while !follower.left.is_empty() {
        // First listen, then look: what happens in between is heard.
        let mut events = ends::listen(client).await?;
        loop {
            match follower.look().await {
                Err(error) if ends::is_away(&error) => break,
                failed => failures.extend(failed?),
            }
            if follower.left.is_empty() || !follower.next(&mut events).await {
                break;
            }
        }
    }
    follower.draw("");
    Ok(failures)
}

struct Follower<'a> {
    client: &'a Client,
    app: &'a App,
    left: Vec<SetUpBegun>,
    /// Machines that answered once.
    reached: BTreeSet<String>,
    /// The job of each machine that was told of last.
    told: BTreeMap<String, String>,
}

impl Follower<'_> {
    /// What is settled now is told, and left no more.
    async fn look(&mut self) -> Result<Vec<Refused>, CliError> {
        let machines = self.client.machines().await?;
        let ids: Vec<String> = self.left.iter().flat_map(|begun| begun.jobs.clone()).collect();
        let jobs = self.client.jobs_by_id(&ids).await?;
        let (mut failures, mut still, mut now) = (Vec::new(), Vec::new(), Vec::new());
        for begun in std::mem::take(&mut self.left) {
            let name = &begun.machine;
            let machine = machines.iter().find(|machine| machine.name == *name);
            match self.stage(&begun, machine, &jobs) {
                Stage::Waits(detail) => now.push(format!("{name}: {detail}")),
                Stage::Works(id, said) => {
                    now.push(format!("{name}: {said}"));
                    if self.told.insert(name.clone(), id.clone()).as_ref() != Some(&id) {
                        self.say(&format!("{name}: {said}"));
                    }
                }
                Stage::Ready => {
                    if let Some(machine) = machine {
                        self.say(&render::machines::added(machine));
                    }
                    continue;
                }
                Stage::Failed(refused) => {
                    failures.push(refused);
                    continue;
                }
                Stage::Unreached(refused) => {
                    self.give_up(&begun).await?;
                    failures.push(refused);
                    continue;
                }
            }
            still.push(begun);
        }
        self.left = still;
        self.draw(&now.join("   "));
        Ok(failures)
    }

    fn stage(&mut self, begun: &SetUpBegun, machine: Option<&Machine>, jobs: &[Job]) -> Stage {
        let name = &begun.machine;
        let refused = |why: Option<String>, hint: Option<String>| {
            let error = format!("{name} was not set up");
            Refused { error, why, hint }
        };
        let Some(pool) = machine.and_then(|machine| machine.pool.as_ref()) else {
            return Stage::Failed(refused(Some("it was taken out of the pool meanwhile".into()), None));
        };
        let own: Vec<&Job> = begun.jobs.iter().filter_map(|id| jobs.iter().find(|job| job.id == *id)).collect();
        let ended_badly = |job: &&&Job| job.state.has_ended() && job.state != State::Completed;
        if let Some(job) = own.iter().find(ended_badly) {
            let why = outcome::ended(job, self.app.ui.talk_paint());
            let hint = format!("nexus logs {}, then nexus machine setup again", job.id);
            return Stage::Failed(refused(Some(why), Some(hint)));
        }
        if own.iter().all(|job| job.state == State::Completed) && pool.class.is_some() {
            return Stage::Ready;
        }
        match pool.state {
            MachineState::Connecting => Stage::Waits(pool.detail.clone().unwrap_or_else(|| "connecting".into())),
            MachineState::Unreachable if self.reached.contains(name) => Stage::Waits("unreachable".into()),
            MachineState::Unreachable => Stage::Unreached(refused(pool.detail.clone(), pool.hint.clone())),
            _ => {
                self.reached.insert(name.clone());
                working(&own, pool)
            }
        }
    }

    /// Its jobs do not stay in the queue, nor a new machine in the pool.
    async fn give_up(&self, begun: &SetUpBegun) -> Result<(), CliError> {
        self.client.act(Action::Cancel, OnJobs { ids: begun.jobs.clone(), skip_unfit: true }).await?;
        if begun.is_new {
            let on = OnMachines { machines: vec![begun.machine.clone()], ..OnMachines::default() };
            self.client.on_machines(MachineAction::Rm, &on).await?;
        }
        Ok(())
    }

    /// False when the service is away.
    async fn next(&self, events: &mut Events) -> bool {
        loop {
            match events.next().await.map(|event| event.what) {
                Some(What::Job { id, .. }) if self.left.iter().any(|begun| begun.jobs.contains(&id)) => return true,
                Some(What::Machine { name }) if self.left.iter().any(|begun| begun.machine == name) => return true,
                Some(What::Missed) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }

    /// For good, above what is drawn.
    fn say(&self, text: &str) {
        self.draw("");
        self.app.ui.say(text);
    }

    fn draw(&self, text: &str) {
        if self.app.ui.err_is_terminal() {
            self.app.ui.draw_line(text);
        }
    }
}

/// What its jobs do, where it can be reached.
fn working(jobs: &[&Job], pool: &InPool) -> Stage {
    let of = jobs.len();
    let (place, next) = match jobs.iter().enumerate().find(|(_, job)| job.state != State::Completed) {
        Some((place, job)) => (place + 1, job),
        None => return Stage::Waits("it joins its class".into()),
    };
    let command = render::text::first_line(&next.command);
    match next.state {
        State::Starting | State::Running => {
            Stage::Works(next.id.clone(), format!("{place} of {of}: {} {command}", next.id))
        }
        _ if pool.state == MachineState::Paused => Stage::Waits("paused".into()),
        _ => Stage::Waits(format!("{place} of {of} waits: {} {command}", next.id)),
    }
}
