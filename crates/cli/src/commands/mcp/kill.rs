//! `kill`: ends jobs, whether they run or wait, and stays until they are gone, for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nexus_api::jobs::{Action, Job, OnJobs};
use nexus_api::select::Selector;
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::answer::{Answer, bad};
use super::asked::Texts;
use super::brief::{Brief, Words};
use super::call::Caller;
use crate::client::Client;
use crate::error::CliError;
use crate::{chosen, ends};

/// Ending takes a grace, which may be long: who wants to know calls wait.
const STAYS: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Args {
    /// Ids of jobs, or groups of them: tag:x, sweep:x, name:x, project:x
    pub ids: Texts,
    /// Ends nothing and says which jobs would be ended
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Ended {
    /// Whether nothing was ended
    pub dry_run: bool,
    /// Taken out of the queue before they had started
    pub removed: Vec<Brief>,
    /// Ran and have ended
    pub killed: Vec<Brief>,
    /// Were asked to end and have not yet
    pub ending: Vec<Brief>,
}

/// One call, through restarts of the service the same.
pub struct Call {
    selectors: Vec<String>,
    dry_run: bool,
    /// Whether the service was asked already, and may have done it without our hearing of it.
    was_asked: AtomicBool,
}

impl Call {
    pub fn new(args: Args) -> Result<Call, CliError> {
        let selectors = args.ids.list();
        if selectors.is_empty() {
            return Err(bad("ids is empty", "ids of jobs, as list has them"));
        }
        // A number would be whatever runs on that GPU, and last whatever came last: easily another than was meant.
        let is_certain =
            |text: &String| !matches!(text.parse(), Ok(Selector::Gpu { .. } | Selector::Last(_) | Selector::Regex(_)));
        match selectors.iter().find(|selector| !is_certain(selector)) {
            Some(vague) => Err(bad(
                format!("ids: {vague:?} does not name jobs for certain"),
                "ids, or tag:x, sweep:x, name:x, project:x",
            )),
            None => Ok(Call { selectors, dry_run: args.dry_run, was_asked: AtomicBool::new(false) }),
        }
    }
}

pub async fn run(call: &Call, client: &Client, caller: &Caller) -> Result<Answer, CliError> {
    let jobs = chosen::choose(client, &call.selectors, chosen::CANCEL).await?;
    if call.dry_run {
        let (waits, runs) = apart(jobs);
        return answer(true, &waits, &[], &runs, client).await;
    }
    let again = call.was_asked.swap(true, Ordering::Relaxed);
    let on = chosen::on(&jobs, chosen::CANCEL);
    let asked = client.act(Action::Cancel, OnJobs { skip_unfit: on.skip_unfit || again, ..on }).await?;
    // The first time may have done some of it.
    let after = if again { client.jobs_by_id(&chosen::ids(&jobs)).await? } else { asked };
    let (removed, ending) = apart(after);
    let ids = chosen::ids(&ending);
    tokio::select! {
        // That it takes long, or the service goes meanwhile, is no failure: all were asked.
        _ = timeout(STAYS, ends::wait(client, &ids, |_| Ok(()))) => {}
        () = caller.gone() => {}
    }
    let now = if ids.is_empty() { vec![] } else { client.jobs_by_id(&ids).await? };
    let (killed, ending): (Vec<Job>, Vec<Job>) = now.into_iter().partition(|job| job.state.has_ended());
    answer(false, &removed, &killed, &ending, client).await
}

/// Those that never started, and the others.
fn apart(jobs: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
    jobs.into_iter().partition(|job| job.attempt == 0)
}

async fn answer(
    dry_run: bool,
    removed: &[Job],
    killed: &[Job],
    ending: &[Job],
    client: &Client,
) -> Result<Answer, CliError> {
    let words = Words::for_jobs(client, &[removed, ending].concat()).await?;
    let ended =
        Ended { dry_run, removed: words.briefs(removed), killed: words.briefs(killed), ending: words.briefs(ending) };
    let mut said = String::new();
    for (jobs, did, would) in
        [(removed, "removed", "would be removed"), (killed, "ended", ""), (ending, "asked to end", "would be ended")]
    {
        let what = if dry_run { would } else { did };
        said.extend(jobs.iter().map(|job| format!("{what}: {}\n", words.line(job))));
    }
    said.push_str(match (dry_run, ending.is_empty()) {
        (true, _) => "nothing was ended (dry run)\n",
        (false, false) => "some are still ending: wait tells when they have\n",
        (false, true) => "",
    });
    Ok(Answer::new(said, &ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certain_is_killed() {
        let call = |ids: &[&str]| {
            let ids = Texts::Many(ids.iter().map(|id| id.to_string()).collect());
            Call::new(Args { ids, dry_run: false }).map(|call| call.selectors.len()).map_err(|error| error.to_string())
        };
        assert_eq!(call(&["abc", "tag:x", "sweep:y"]), Ok(3));
        for vague in ["0", "last", "last:3", "/python/", "box:0"] {
            assert!(call(&["abc", vague]).is_err_and(|error| error.contains(vague)), "{vague}");
        }
        assert!(call(&[]).is_err());
    }
}
