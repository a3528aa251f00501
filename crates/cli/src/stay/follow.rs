//! Follows a job from the queue to its end, attempt after attempt, through restarts and crashes of the service.

use std::time::Duration;

use nexus_api::events::What;
use nexus_api::jobs::{Job, State};
use nexus_api::log::{Frame, Frames, Place};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep};

use crate::app::App;
use crate::client::{Body, Client, Events};
use crate::ends::{self, RESTART_LIMIT, RESTART_LOOK, is_away};
use crate::error::CliError;
use crate::render::reason::Capacity;
use crate::start::StartOptions;

/// Events within this time make one new line.
const GATHER: Duration = Duration::from_millis(100);

/// What becomes of the job, in its order.
pub enum Happening {
    /// Why it waits is another reason now.
    Waits {
        job: Box<Job>,
        capacity: Capacity,
    },
    /// What follows was printed by this attempt.
    Attempt(u32),
    Output {
        stderr: bool,
        bytes: Vec<u8>,
    },
    Ended(Box<Job>),
    /// It can be followed no longer.
    Failed(CliError),
}

/// Tells what the job prints; its end, or what kept us from seeing it, comes last.
pub async fn follow(app: &App, client: &Client, id: &str, to: Sender<Happening>) {
    let last = match to_the_end(app, client, id, &to).await {
        Ok(Came::End(job)) => Happening::Ended(job),
        Ok(Came::Break { .. } | Came::NobodyListens) => return,
        Err(error) => Happening::Failed(error),
    };
    // Whoever listened may have left.
    let _ = to.send(last).await;
}

enum Came {
    End(Box<Job>),
    /// The service is gone, on purpose or not.
    Break {
        stopping: bool,
    },
    NobodyListens,
}

async fn to_the_end(app: &App, client: &Client, id: &str, to: &Sender<Happening>) -> Result<Came, CliError> {
    let (mut place, mut told) = (Place::START, 0);
    loop {
        let mut body = open(client, id, place).await?;
        match read(&mut body, &mut place, &mut told, to).await? {
            // Whoever stopped it starts it again, or does not want it.
            Came::Break { stopping: true } => {}
            Came::Break { stopping: false } => drop(app.start(StartOptions::default()).await?),
            over => return Ok(over),
        }
        sleep(RESTART_LOOK).await;
    }
}

/// With patience for a service that restarts.
async fn open(client: &Client, id: &str, place: Place) -> Result<Body, CliError> {
    let deadline = Instant::now() + RESTART_LIMIT;
    loop {
        match client.log_from(id, place).await {
            Err(error) if is_away(&error) && Instant::now() < deadline => sleep(RESTART_LOOK).await,
            opened => return opened,
        }
    }
}

async fn read(body: &mut Body, place: &mut Place, told: &mut u32, to: &Sender<Happening>) -> Result<Came, CliError> {
    let (mut frames, mut stopping) = (Frames::default(), false);
    // A connection that breaks off says the same as one that ends.
    while let Ok(Some(bytes)) = body.next().await {
        frames.push(&bytes);
        while let Some(frame) = frames.next_frame().map_err(|bad| CliError::ServiceLeft { source: Some(bad.into()) })? {
            *place = place.after(&frame);
            let happening = match frame {
                Frame::Attempt(number) if number == *told => continue,
                Frame::Attempt(number) => {
                    *told = number;
                    Happening::Attempt(number)
                }
                Frame::Output { stderr, bytes } => Happening::Output { stderr, bytes },
                Frame::Stopping => {
                    stopping = true;
                    continue;
                }
                Frame::Ended(job) => return Ok(Came::End(job)),
            };
            if to.send(happening).await.is_err() {
                return Ok(Came::NobodyListens);
            }
        }
    }
    Ok(Came::Break { stopping })
}

/// Tells why the job waits, as often as that may have changed. What cannot be read now is left to [`follow`].
pub async fn watch(client: &Client, id: &str, to: Sender<Happening>) {
    let id = [id.to_string()];
    loop {
        let Ok(mut events) = ends::listen(client).await else { return };
        let mut waits = true;
        loop {
            if waits {
                match reason(client, &id).await {
                    Ok(Some((job, capacity))) => {
                        if to.send(Happening::Waits { job: Box::new(job), capacity }).await.is_err() {
                            return;
                        }
                    }
                    Ok(None) => waits = false,
                    Err(error) if is_away(&error) => break,
                    Err(_) => return,
                }
            }
            match changed(&mut events, &id[0], waits).await {
                Some(now) => waits = now,
                None => break,
            }
        }
    }
}

/// The job with its reason; none if it does not wait.
async fn reason(client: &Client, id: &[String]) -> Result<Option<(Job, Capacity)>, CliError> {
    let job = client.jobs_by_id(id).await?.pop().filter(|job| is_waiting(job.state));
    Ok(match job {
        Some(job) => Some((job, Capacity::of(&client.status(false).await?))),
        None => None,
    })
}

/// Waits for an event that may change the reason; whether the job waits then. None: the service is gone.
async fn changed(events: &mut Events, id: &str, mut waits: bool) -> Option<bool> {
    let concerns_us = |what: &What| match what {
        What::Job { id: other, state } if other == id => Some(is_waiting(*state)),
        What::Missed => Some(true),
        _ => None,
    };
    loop {
        let heard = concerns_us(&events.next().await?.what);
        waits = heard.unwrap_or(waits);
        if heard.is_some() || waits {
            break;
        }
    }
    let gathered = sleep(GATHER);
    tokio::pin!(gathered);
    loop {
        tokio::select! {
            () = &mut gathered => return Some(waits),
            event = events.next() => waits = concerns_us(&event?.what).unwrap_or(waits),
        }
    }
}

fn is_waiting(state: State) -> bool {
    matches!(state, State::Held | State::Queued)
}
