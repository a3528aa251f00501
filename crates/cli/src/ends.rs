//! Waits for jobs to end. Outlives a restart of the service: the jobs do too.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use nexus_api::events::What;
use nexus_api::jobs::Job;
use nexus_api::problem::Problem;
use tokio::time::{Instant, sleep};

use crate::client::{Client, Events};
use crate::error::CliError;

/// A restarting service is away for less than this.
pub const RESTART_LIMIT: Duration = Duration::from_secs(15);
pub const RESTART_LOOK: Duration = Duration::from_millis(100);

/// Returns when all of `ids` have ended, in the order given; `on_end` sees each as it ends.
pub async fn wait(
    client: &Client,
    ids: &[String],
    on_end: impl FnMut(&Job) -> Result<(), CliError>,
) -> Result<Vec<Job>, CliError> {
    wait_with(client, ids, RESTART_LIMIT, on_end).await
}

/// The same with less patience, for one who knows what to do about a service that is away.
pub async fn wait_with(
    client: &Client,
    ids: &[String],
    patience: Duration,
    mut on_end: impl FnMut(&Job) -> Result<(), CliError>,
) -> Result<Vec<Job>, CliError> {
    let mut ended: HashMap<String, Job> = HashMap::new();
    let mut pending: HashSet<String> = ids.iter().cloned().collect();
    while !pending.is_empty() {
        // First listen, then look: what ends in between is heard.
        let mut events = listen_with(client, patience).await?;
        let mut look_at: Vec<String> = pending.iter().cloned().collect();
        loop {
            let jobs = match client.jobs_by_id(&look_at).await {
                Err(error) if is_away(&error) => break,
                jobs => jobs?,
            };
            for job in jobs {
                if job.state.has_ended() && pending.remove(&job.id) {
                    on_end(&job)?;
                    ended.insert(job.id.clone(), job);
                }
            }
            if pending.is_empty() {
                break;
            }
            match next_end(&mut events, &pending).await {
                Heard::End(id) => look_at = vec![id],
                Heard::Missed => look_at = pending.iter().cloned().collect(),
                Heard::Nothing => break,
            }
        }
    }
    Ok(ids.iter().filter_map(|id| ended.remove(id)).collect())
}

enum Heard {
    End(String),
    /// Some may have ended unheard.
    Missed,
    /// The service is gone, for now at least.
    Nothing,
}

async fn next_end(events: &mut Events, pending: &HashSet<String>) -> Heard {
    loop {
        match events.next().await.map(|event| event.what) {
            Some(What::Job { id, state }) if state.has_ended() && pending.contains(&id) => return Heard::End(id),
            Some(What::Missed) => return Heard::Missed,
            Some(_) => {}
            None => return Heard::Nothing,
        }
    }
}

/// Listens, with patience for a service that restarts.
pub async fn listen(client: &Client) -> Result<Events, CliError> {
    listen_with(client, RESTART_LIMIT).await
}

async fn listen_with(client: &Client, patience: Duration) -> Result<Events, CliError> {
    let deadline = Instant::now() + patience;
    loop {
        match client.events().await {
            Err(error) if is_away(&error) && Instant::now() < deadline => sleep(RESTART_LOOK).await,
            heard => return heard,
        }
    }
}

/// Whether an error may be over when the service is back.
pub fn is_away(error: &CliError) -> bool {
    matches!(error, CliError::NoService { .. } | CliError::Connection { .. } | CliError::Problem(Problem::Stopping))
}
