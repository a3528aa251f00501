//! From selectors to jobs, and the question before something happens to many of them.

use std::collections::HashSet;

use nexus_api::jobs::{Job, JobQuery, OnJobs, State};
use nexus_api::problem::Problem;
use nexus_api::select::Selector;

use crate::client::Client;
use crate::error::{CliError, Refused};
use crate::render::text;
use crate::ui::Ui;

/// Jobs listed before a question; the rest is counted.
const LISTED: usize = 20;

/// What a verb can be done to.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    pub verb: &'static str,
    pub states: fn(State) -> bool,
}

pub const KILL: Fit = Fit { verb: "kill", states: |state| !pending(state) && !state.has_ended() };
pub const REMOVE: Fit = Fit { verb: "remove", states: pending };
pub const CANCEL: Fit = Fit { verb: "cancel", states: |state| !state.has_ended() };
pub const HOLD: Fit = Fit { verb: "hold", states: pending };
pub const RELEASE: Fit = Fit { verb: "release", states: pending };
pub const FIRST: Fit = Fit { verb: "first", states: pending };
pub const FORGET: Fit = Fit { verb: "forget", states: State::has_ended };
pub const ANY: Fit = Fit { verb: "select", states: |_| true };

fn pending(state: State) -> bool {
    matches!(state, State::Held | State::Queued)
}

/// The jobs meant. One named by itself is taken whatever its state, so that the service can say why the
/// verb does not fit; of a group only those that fit are taken.
pub async fn choose(client: &Client, selectors: &[String], fit: Fit) -> Result<Vec<Job>, CliError> {
    let (single, groups) = split(selectors)?;
    let mut jobs = Vec::new();
    if !single.is_empty() {
        jobs.extend(matching(client, &single).await?);
    }
    for group in &groups {
        let found = fitting(client, group, fit).await?;
        let first = found.first().map(|job| (job.id.clone(), job.state, job.gpus.clone()));
        let before = jobs.len();
        jobs.extend(found.into_iter().filter(|job| (fit.states)(job.state)));
        if let (Some((id, state, gpus)), true) = (first, jobs.len() == before) {
            return Err(Problem::WrongState { id, verb: fit.verb.into(), state, gpus }.into());
        }
    }
    let mut seen = HashSet::new();
    jobs.retain(|job| seen.insert(job.id.clone()));
    Ok(jobs)
}

/// The jobs meant, to be waited for or come after. Those that a sweep has others in the place of count only where they are
/// named by themselves.
pub async fn current(client: &Client, selectors: &[String]) -> Result<Vec<Job>, CliError> {
    let mut jobs = choose(client, selectors, ANY).await?;
    jobs.retain(|job| job.replaced_by.is_none() || selectors.contains(&job.id));
    Ok(jobs)
}

/// Exactly one job.
pub async fn choose_one(client: &Client, selector: &str) -> Result<Job, CliError> {
    let mut jobs = choose(client, &[selector.to_string()], ANY).await?;
    match jobs.len() {
        1 => Ok(jobs.remove(0)),
        count => {
            let ids: Vec<&str> = jobs.iter().take(LISTED).map(|job| job.id.as_str()).collect();
            Err(Refused {
                error: format!("{selector} means {count} jobs"),
                why: Some(ids.join(" ")),
                hint: Some("name one of them".into()),
            }
            .into())
        }
    }
}

/// Ids of the jobs that lists of selectors mean, as in `--after abc,last`.
pub async fn meant(client: &Client, lists: &[String]) -> Result<Vec<String>, CliError> {
    let mut selectors: Vec<String> = Vec::new();
    for list in lists {
        match list.starts_with('/') {
            true => selectors.push(list.clone()),
            false => selectors.extend(list.split(',').map(String::from)),
        }
    }
    match selectors.is_empty() {
        true => Ok(vec![]),
        false => Ok(current(client, &selectors).await?.into_iter().map(|job| job.id).collect()),
    }
}

/// Those that name one job, and those that may name many.
fn split(selectors: &[String]) -> Result<(Vec<String>, Vec<String>), CliError> {
    let (mut single, mut groups) = (Vec::new(), Vec::new());
    for selector in selectors {
        match selector.parse() {
            Ok(Selector::Id(_) | Selector::Last(1) | Selector::Gpu { .. }) => single.push(selector.clone()),
            Ok(_) => groups.push(selector.clone()),
            Err(bad) => {
                return Err(Problem::BadSelector { selector: selector.clone(), error: bad.to_string() }.into());
            }
        }
    }
    Ok((single, groups))
}

/// Those of a group that the verb fits. Where there is none, all of it, so that the reason can be told.
pub async fn fitting(client: &Client, group: &String, fit: Fit) -> Result<Vec<Job>, CliError> {
    let group = std::slice::from_ref(group);
    let words: Vec<&str> = State::ALL.into_iter().filter(|state| (fit.states)(*state)).map(State::word).collect();
    match client.selected(group, Some(words.join(","))).await {
        Err(CliError::Problem(Problem::NothingMatches { .. })) => matching(client, group).await,
        other => other,
    }
}

/// What a verb is done to. When all fitted as they were chosen, one that has moved on since is left out; one
/// that was named although it never fitted is refused.
pub fn on(jobs: &[Job], fit: Fit) -> OnJobs {
    OnJobs { ids: ids(jobs), skip_unfit: jobs.iter().all(|job| (fit.states)(job.state)) }
}

async fn matching(client: &Client, selectors: &[String]) -> Result<Vec<Job>, CliError> {
    let jobs = client.jobs_by_id(selectors).await?;
    match jobs.is_empty() {
        true => Err(Problem::NothingMatches { selector: selectors.join(" ") }.into()),
        false => Ok(jobs),
    }
}

/// Everything alive.
pub async fn all_alive(client: &Client) -> Result<Vec<Job>, CliError> {
    client.jobs(&JobQuery { state: Some("alive".into()), ..JobQuery::default() }).await
}

/// Asks before something happens to jobs: on a terminal, and elsewhere `-y` must have said it.
pub fn confirm(ui: &Ui, verb: &str, jobs: &[Job], yes: bool) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    let what = format!("{verb} {}", text::counted(jobs.len() as u64, "job"));
    if !ui.can_ask() {
        return Err(Refused {
            error: format!("{what}? nobody can be asked here"),
            why: Some(jobs.iter().take(LISTED).map(|job| job.id.as_str()).collect::<Vec<_>>().join(" ")),
            hint: Some(format!("nexus {verb} -y {}", if jobs.len() > 5 { "…".into() } else { ids(jobs).join(" ") })),
        }
        .into());
    }
    ui.say(&listing(ui, jobs));
    match ui.confirm(&format!("{what}?")) {
        true => Ok(()),
        false => Err(Refused { error: "nothing was done".into(), why: None, hint: None }.into()),
    }
}

/// Asks only when more than one is meant.
pub fn confirm_many(ui: &Ui, verb: &str, jobs: &[Job], yes: bool) -> Result<(), CliError> {
    confirm(ui, verb, jobs, yes || jobs.len() < 2)
}

pub fn listing(ui: &Ui, jobs: &[Job]) -> String {
    let paint = ui.talk_paint();
    let line = |job: &Job| {
        format!("  {}  {}  {}", paint.id(&job.id), job.state.word(), paint.command(&text::first_line(&job.command)))
    };
    let mut lines: Vec<String> = jobs.iter().take(LISTED).map(line).collect();
    if jobs.len() > LISTED {
        lines.push(format!("  and {} more", jobs.len() - LISTED));
    }
    lines.join("\n")
}

pub fn ids(jobs: &[Job]) -> Vec<String> {
    jobs.iter().map(|job| job.id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_from_single_jobs() {
        let typed = ["abc", "tag:x", "0", "last:3", "last", "/re/"].map(String::from);
        let (single, groups) = split(&typed).unwrap();
        assert_eq!(single, ["abc", "0", "last"]);
        assert_eq!(groups, ["tag:x", "last:3", "/re/"]);
        assert!(split(&["A!".to_string()]).is_err());
    }

    #[test]
    fn verbs_fit_their_states() {
        let fitting = |fit: Fit| State::ALL.into_iter().filter(|state| (fit.states)(*state)).collect::<Vec<_>>();
        assert_eq!(fitting(KILL), [State::Starting, State::Running, State::Copying]);
        assert_eq!(fitting(REMOVE), [State::Held, State::Queued]);
        assert_eq!(fitting(FORGET), [State::Completed, State::Failed, State::Killed]);
        assert_eq!(fitting(CANCEL).len(), 5);
    }
}
