//! What comes from the service: that something happened, what was asked for, a log. Each has its own way, and all end in
//! one channel.

use std::time::{Duration, Instant};

use nexus_api::events::{GpuReading, What};
use nexus_api::jobs::Job;
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use super::deeds::{self, Deed, Done};
use super::known::{Ask, News, query};
use super::log::FIRST_LINES;
use super::panes::Pane;
use crate::client::{Client, LogQuery};
use crate::ends::is_away;
use crate::error::CliError;
use crate::render::outcome;
use crate::render::paint::Paint;

/// How often a service that is away is looked for.
const LOOK: Duration = Duration::from_millis(250);

pub enum Message {
    /// Something is otherwise now.
    Happened,
    Readings {
        machine: String,
        at: i64,
        gpus: Vec<GpuReading>,
    },
    /// The service does not answer; so until it is back.
    Away,
    Back,
    /// What was asked for with this filter, and how long that took.
    Read {
        filter: String,
        news: Result<Vec<News>, CliError>,
        took: Duration,
    },
    Done(Result<Done, CliError>),
    /// Of the log with this number.
    Log {
        serial: u64,
        piece: LogPiece,
    },
}

pub enum LogPiece {
    /// It comes from here on; what came before counts no more.
    Begins,
    Bytes(Vec<u8>),
    Away,
    Over(String),
}

/// Tells what happens, through restarts of the service, for as long as somebody listens.
pub async fn listen(client: Client, to: Sender<Message>) {
    loop {
        if let Ok(mut events) = client.events_and_readings().await {
            if to.send(Message::Back).await.is_err() {
                return;
            }
            while let Some(event) = events.next().await {
                let heard = match event.what {
                    What::Readings { machine, at, gpus } => Message::Readings { machine, at, gpus },
                    What::Job { .. } | What::Queue { .. } | What::Machine { .. } | What::Missed | What::Stopping => {
                        Message::Happened
                    }
                };
                if to.send(heard).await.is_err() {
                    return;
                }
            }
        }
        if to.send(Message::Away).await.is_err() {
            return;
        }
        sleep(LOOK).await;
    }
}

pub async fn read(client: Client, asks: Vec<Ask>, filter: String, to: Sender<Message>) {
    let began = Instant::now();
    let mut news = Ok(Vec::new());
    for ask in asks {
        match (one(&client, ask, &filter).await, &mut news) {
            (Ok(read), Ok(known)) => known.push(read),
            (Err(error), _) => {
                news = Err(error);
                break;
            }
            (Ok(_), Err(_)) => break,
        }
    }
    // Whoever asked may have left.
    let _ = to.send(Message::Read { filter, news, took: began.elapsed() }).await;
}

async fn one(client: &Client, ask: Ask, filter: &str) -> Result<News, CliError> {
    Ok(match ask {
        Ask::Host => News::Host(client.service().await?.host),
        Ask::Status => News::Status(Box::new(client.status(false).await?)),
        Ask::Active => News::Active(client.jobs(&query(Pane::Running, filter, None)).await?),
        Ask::Sweeps => News::Sweeps(client.sweeps().await?),
        Ask::Past => News::Past(client.past_readings().await?),
        Ask::Page { of, wanted } => {
            let (rows, next) = client.page(&query(of, filter, Some(wanted.cursor.clone()))).await?;
            News::Page { of, wanted, rows, next }
        }
    })
}

pub async fn act(client: Client, deed: Deed, to: Sender<Message>) {
    let _ = to.send(Message::Done(deeds::run(&client, deed).await)).await;
}

/// A job's log from its last lines on, until its end; after a restart of the service from its last lines again.
pub async fn follow(client: Client, id: String, serial: u64, to: Sender<Message>) {
    let tell = |piece: LogPiece| to.send(Message::Log { serial, piece });
    let query = LogQuery { tail: Some(FIRST_LINES), follow: true, ..LogQuery::default() };
    loop {
        match client.log(&id, &query).await {
            Ok(mut body) => {
                if tell(LogPiece::Begins).await.is_err() {
                    return;
                }
                while let Ok(Some(bytes)) = body.next().await {
                    if tell(LogPiece::Bytes(bytes.to_vec())).await.is_err() {
                        return;
                    }
                }
                if let Some(job) = ended(&client, &id).await {
                    let _ = tell(LogPiece::Over(outcome::ended(&job, Paint { on: false }))).await;
                    return;
                }
            }
            Err(error) if is_away(&error) => {}
            Err(error) => {
                let _ = tell(LogPiece::Over(deeds::in_a_line(&error))).await;
                return;
            }
        }
        if tell(LogPiece::Away).await.is_err() {
            return;
        }
        sleep(LOOK).await;
    }
}

/// The job, if it has ended.
async fn ended(client: &Client, id: &str) -> Option<Job> {
    let found = client.jobs_by_id(&[id.to_string()]).await.ok()?;
    found.into_iter().next().filter(|job| job.state.has_ended())
}
