//! Follows many jobs to their ends by what the service tells, through its restarts and crashes.

use std::collections::{HashMap, HashSet};

use nexus_api::events::What;
use nexus_api::jobs::{Job, State};
use nexus_api::problem::Problem;
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use super::queue::known;
use crate::app::App;
use crate::client::{Client, Events};
use crate::ends::{self, RESTART_LOOK, is_away};
use crate::error::CliError;
use crate::start::StartOptions;

/// Looks at a service that says nothing, before it counts as killed.
const LEAVING_LOOKS: usize = 20;

pub enum Heard {
    /// It is so now. `log_file`: of its newest run.
    Job { job: Box<Job>, log_file: Option<String> },
    /// The service does not know it any more.
    Gone(String),
    /// They can be followed no longer.
    Failed(CliError),
}

/// Tells each change of these jobs until all have ended, or what kept us from seeing it.
pub async fn follow(app: &App, client: &Client, ids: Vec<String>, to: Sender<Heard>) {
    let alive = ids.into_iter().map(|id| (id, None)).collect();
    let mut follower = Follower { client, alive, to };
    if let Err(error) = follower.until_they_end(app).await {
        // Whoever listened may have left.
        let _ = follower.to.send(Heard::Failed(error)).await;
    }
}

struct Follower<'a> {
    client: &'a Client,
    /// State and attempt as they were told last.
    alive: HashMap<String, Option<(State, u32)>>,
    to: Sender<Heard>,
}

impl Follower<'_> {
    async fn until_they_end(&mut self, app: &App) -> Result<(), CliError> {
        while !self.alive.is_empty() {
            // First listen, then look: what happens in between is heard.
            let mut events = ends::listen(self.client).await?;
            let stopping = match self.hear(&mut events).await {
                Err(error) if is_away(&error) => false,
                stopping => stopping?,
            };
            if self.alive.is_empty() {
                break;
            }
            // Whoever stopped it starts it again, or does not want it.
            if !stopping && was_killed(self.client).await {
                app.start(StartOptions::default()).await?;
            }
            sleep(RESTART_LOOK).await;
        }
        Ok(())
    }

    /// Until all have ended or the service is gone; whether it said so before.
    async fn hear(&mut self, events: &mut Events) -> Result<bool, CliError> {
        self.look().await?;
        let mut stopping = false;
        while !self.alive.is_empty() {
            match events.next().await.map(|event| event.what) {
                Some(What::Job { id, state }) => self.changed(&id, state).await?,
                Some(What::Missed) => self.look().await?,
                Some(What::Stopping) => stopping = true,
                Some(_) => {}
                None => break,
            }
        }
        Ok(stopping)
    }

    async fn look(&mut self) -> Result<(), CliError> {
        let ids: Vec<String> = self.alive.keys().cloned().collect();
        let jobs = known(self.client, &ids).await?;
        let mut unknown: HashSet<String> = ids.into_iter().collect();
        for job in jobs {
            unknown.remove(&job.id);
            if self.alive.get(&job.id) != Some(&Some((job.state, job.attempt))) {
                self.tell(job).await?;
            }
        }
        for id in unknown {
            self.gone(id).await;
        }
        Ok(())
    }

    async fn changed(&mut self, id: &str, state: State) -> Result<(), CliError> {
        let Some(told) = self.alive.get(id) else { return Ok(()) };
        // One that still waits was only moved.
        if is_waiting(state) && told.is_some_and(|(before, _)| is_waiting(before)) {
            return Ok(());
        }
        match known(self.client, &[id.to_string()]).await?.pop() {
            Some(job) => self.tell(job).await,
            None => {
                self.gone(id.to_string()).await;
                Ok(())
            }
        }
    }

    async fn tell(&mut self, job: Job) -> Result<(), CliError> {
        let (job, log_file) = match is_waiting(job.state) {
            true => (job, None),
            false => match self.client.job(&job.id, false).await {
                Ok(detail) => {
                    let log_file = detail.runs.into_iter().next_back().and_then(|run| run.out);
                    (detail.job, log_file)
                }
                Err(CliError::Problem(Problem::NoSuchJob { id })) => {
                    self.gone(id).await;
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
        };
        match job.state.has_ended() {
            true => drop(self.alive.remove(&job.id)),
            false => drop(self.alive.insert(job.id.clone(), Some((job.state, job.attempt)))),
        }
        let _ = self.to.send(Heard::Job { job: Box::new(job), log_file }).await;
        Ok(())
    }

    async fn gone(&mut self, id: String) {
        self.alive.remove(&id);
        let _ = self.to.send(Heard::Gone(id)).await;
    }
}

/// Whether nobody answers and nobody took leave: a service that stops takes its socket with it, a moment after its last
/// word.
async fn was_killed(client: &Client) -> bool {
    for _ in 0..LEAVING_LOOKS {
        if !client.has_socket() || client.answers().await.unwrap_or(false) {
            return false;
        }
        sleep(RESTART_LOOK).await;
    }
    true
}

/// Whether it has not run yet, or not again.
fn is_waiting(state: State) -> bool {
    matches!(state, State::Held | State::Queued | State::Starting)
}
