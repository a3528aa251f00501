//! `wait`: until jobs have ended, for a while. The client can cancel it, hears how it goes, and may go away.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use nexus_api::jobs::{Job, State};
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, sleep_until};

use super::answer::{Answer, bad};
use super::asked::Texts;
use super::brief::{Brief, Words};
use super::call::Caller;
use crate::client::Client;
use crate::commands::wait::held;
use crate::error::CliError;
use crate::render::text;
use crate::{chosen, ends};

const USUAL_SECONDS: u64 = 60;
const MOST_SECONDS: u64 = 600;

/// Who waits is told so often that it goes on.
const TELL_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Args {
    /// Ids of jobs, or selectors: sweep:x, tag:x, name:x, project:x, last
    pub ids: Texts,
    /// How long at most, 0 to 600 [default: 60]; 0 only looks
    pub timeout_seconds: Option<u64>,
    /// all: when all of them have ended; any: when one of them has [default: all]
    pub until: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Waited {
    /// Whether all of them have ended
    pub all_ended: bool,
    /// Whether the time was over before what was waited for
    pub timed_out: bool,
    pub ended: Vec<Brief>,
    /// Those that have not ended yet
    pub not_ended: Vec<Brief>,
}

/// One call, through restarts of the service the same.
pub struct Call {
    args: Args,
    begun: Instant,
    limit: Duration,
    any: bool,
    ids: OnceLock<Vec<String>>,
    ended: Mutex<BTreeMap<String, Job>>,
}

impl Call {
    pub fn new(args: Args) -> Result<Call, CliError> {
        let seconds = args.timeout_seconds.unwrap_or(USUAL_SECONDS);
        if seconds > MOST_SECONDS {
            let hint = format!("timeout_seconds: 0 to {MOST_SECONDS}; call wait again to go on");
            return Err(bad(format!("timeout_seconds cannot be {seconds}"), hint));
        }
        let any = match args.until.as_deref() {
            None | Some("all") => false,
            Some("any") => true,
            Some(other) => return Err(bad(format!("until cannot be {:?}", text::cut(other, 40)), "all or any")),
        };
        let (ids, ended) = (OnceLock::new(), Mutex::default());
        Ok(Call { args, begun: Instant::now(), limit: Duration::from_secs(seconds), any, ids, ended })
    }

    fn ended(&self) -> MutexGuard<'_, BTreeMap<String, Job>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, job: Job) {
        self.ended().insert(job.id.clone(), job);
    }

    fn pending(&self) -> Vec<String> {
        let ended = self.ended();
        self.ids.get().into_iter().flatten().filter(|id| !ended.contains_key(*id)).cloned().collect()
    }

    fn is_enough(&self) -> bool {
        self.pending().is_empty() || self.any && !self.ended().is_empty()
    }

    async fn tell(&self, caller: &Caller) {
        let (ended, all) = (self.ended().len(), self.ids.get().map_or(0, Vec::len));
        let message = format!("{ended} of {} ended", text::counted(all as u64, "job"));
        caller.tell(self.begun.elapsed().as_secs_f64(), self.limit.as_secs_f64(), message).await;
    }
}

pub async fn run(call: &Call, client: &Client, caller: &Caller) -> Result<Answer, CliError> {
    if call.ids.get().is_none() {
        let jobs = chosen::current(client, &call.args.ids.list()).await?;
        let _ = call.ids.set(chosen::ids(&jobs));
        jobs.into_iter().filter(|job| job.state.has_ended()).for_each(|job| call.note(job));
    }
    if !call.is_enough() {
        watch(call, client, caller).await?;
    }
    let not_ended = client.jobs_by_id(&call.pending()).await?;
    // Some may have ended since.
    let (late, not_ended): (Vec<Job>, Vec<Job>) = not_ended.into_iter().partition(|job| job.state.has_ended());
    late.into_iter().for_each(|job| call.note(job));
    answer(call, &not_ended, client).await
}

/// Until there is enough, the time is over, or nobody waits for it any more.
async fn watch(call: &Call, client: &Client, caller: &Caller) -> Result<(), CliError> {
    let (sender, mut heard) = mpsc::unbounded_channel();
    let pending = call.pending();
    // No patience: whoever called this waits for the service, and may start it.
    let waiting = ends::wait_with(client, &pending, Duration::ZERO, move |job| {
        let _ = sender.send(job.clone());
        Ok(())
    });
    tokio::pin!(waiting);
    let mut again = interval_at(Instant::now() + TELL_EVERY, TELL_EVERY);
    call.tell(caller).await;
    while !call.is_enough() {
        tokio::select! {
            biased;
            Some(job) = heard.recv() => {
                call.note(job);
                call.tell(caller).await;
            }
            all = &mut waiting => all?.into_iter().for_each(|job| call.note(job)),
            _ = again.tick() => call.tell(caller).await,
            () = sleep_until(call.begun + call.limit) => break,
            () = caller.gone() => break,
        }
    }
    Ok(())
}

async fn answer(call: &Call, not_ended: &[Job], client: &Client) -> Result<Answer, CliError> {
    let mut ended = call.ended().clone();
    let ids = call.ids.get().cloned().unwrap_or_default();
    let ended: Vec<Job> = ids.iter().filter_map(|id| ended.remove(id)).collect();
    let words = Words::for_jobs(client, not_ended).await?;
    let waited = Waited {
        all_ended: not_ended.is_empty(),
        timed_out: !call.is_enough(),
        ended: words.briefs(&ended),
        not_ended: words.briefs(not_ended),
    };
    let mut said = words.lines(&ended);
    if !not_ended.is_empty() {
        said.push_str(&format!("not ended yet, {}:\n{}", not_ended.len(), words.lines(not_ended)));
        said.extend(held(not_ended).map(|told| format!("{told}\n")));
    }
    let failed = ended.iter().filter(|job| job.state == State::Failed).count() as u64;
    match (failed, waited.timed_out) {
        (0, false) => {}
        (0, true) => said.push_str("the time is over: call wait again, or why for what they wait for\n"),
        (failed, _) => said.push_str(&format!("{} failed: why and logs tell how\n", text::counted(failed, "job"))),
    }
    Ok(Answer::new(said, &waited))
}
