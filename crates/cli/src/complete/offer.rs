//! What may stand where the service has the words: ids of jobs that the verb fits, tags, sweeps, projects, GPUs, machines,
//! variables, keys of the configuration.

use std::time::Duration;

use clap_complete::engine::CompletionCandidate;
use nexus_api::jobs::{Job, JobQuery};
use nexus_api::report::By;

use crate::client::Client;
use crate::error::CliError;
use crate::in_runtime;

/// A service that takes longer is not waited for.
const ANSWERS_WITHIN: Duration = Duration::from_millis(800);

/// More ids than this help nobody.
const MOST_JOBS: u64 = 100;

const ACTIVE: &str = "starting,running,copying";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Jobs of these states, and the groups that they are in.
    Jobs(&'static str),
    /// One job.
    Job(&'static str),
    /// Running jobs, by id or GPU.
    Running,
    Gpus,
    Machines,
    Classes,
    Tags,
    Sweeps,
    Projects,
    Variables,
    Keys,
}

impl Kind {
    /// By the verbs that an argument belongs to, its own name, and what its value is called in the help.
    pub fn of(verbs: &[&str], argument: &str, value: &str) -> Option<Kind> {
        let verb = verbs.first().copied().unwrap_or_default();
        Some(match (verbs, argument, value) {
            (["var", "set" | "unset"], _, "NAME") => Kind::Variables,
            (["sweep", "show" | "csv"], _, "NAME") => Kind::Sweeps,
            (["machine", "add", ..], ..) => return None,
            (_, "machine", _) | (_, _, "MACHINE") => Kind::Machines,
            (_, "class", _) | (_, _, "CLASS") => Kind::Classes,
            (_, "tag", _) | (["tag"], _, "NAME") => Kind::Tags,
            (_, "sweep", _) => Kind::Sweeps,
            (_, "project", _) => Kind::Projects,
            (_, _, "SEL") => Kind::Jobs(fitting(verb)),
            (_, _, "ID|GPU|service") => Kind::Running,
            (["edit"], "id", _) | (["results"], "id", _) => Kind::Job(fitting(verb)),
            (_, _, "ID") => Kind::Job("alive"),
            (_, "on", _) | (_, _, "GPU") => Kind::Gpus,
            (_, _, "KEY") => Kind::Keys,
            _ => return None,
        })
    }

    /// Those that begin as what is typed.
    pub fn offers(self, typed: &str) -> Vec<CompletionCandidate> {
        let Ok(home) = nexus_node::home::find_home() else { return vec![] };
        let client = Client::new(&home);
        let asked = async { tokio::time::timeout(ANSWERS_WITHIN, self.asked(typed, &client)).await };
        let found = in_runtime(asked).ok().and_then(|answered| answered.ok()?.ok()).unwrap_or_default();
        let fit = found.into_iter().filter(|(value, _)| value.starts_with(typed));
        fit.map(|(value, about)| CompletionCandidate::new(value).help(about.map(Into::into))).collect()
    }

    async fn asked(self, typed: &str, client: &Client) -> Result<Vec<Offer>, CliError> {
        match self {
            Kind::Jobs(states) => match typed.split_once(':') {
                Some((group, _)) => groups(group, client).await,
                None => Ok([jobs(states, typed, client).await?, group_names(typed)].concat()),
            },
            Kind::Job(states) => jobs(states, typed, client).await,
            Kind::Running => Ok([jobs(ACTIVE, typed, client).await?, gpus(client).await?].concat()),
            Kind::Gpus => gpus(client).await,
            Kind::Machines => {
                let machines = client.machines().await?.into_iter();
                Ok(machines.map(|machine| (machine.name, machine.pool.and_then(|pool| pool.class))).collect())
            }
            Kind::Classes => {
                let mut classes: Vec<String> =
                    client.machines().await?.into_iter().filter_map(|it| it.pool?.class).collect();
                classes.sort();
                classes.dedup();
                Ok(plain(classes))
            }
            Kind::Tags => groups("tag", client).await.map(|found| without_group(found, "tag:")),
            Kind::Sweeps => groups("sweep", client).await.map(|found| without_group(found, "sweep:")),
            Kind::Projects => groups("project", client).await.map(|found| without_group(found, "project:")),
            Kind::Variables => Ok(plain(client.variables().await?.into_iter().map(|variable| variable.name))),
            Kind::Keys => {
                let keys = client.config().await?.keys.into_iter();
                Ok(plain(keys.map(|key| key.key)))
            }
        }
    }
}

/// What may be typed, and what it is.
type Offer = (String, Option<String>);

/// States of jobs that something can be done to.
fn fitting(verb: &str) -> &'static str {
    match verb {
        "kill" => ACTIVE,
        "remove" | "first" | "edit" => "held,queued",
        "hold" => "queued",
        "release" => "held",
        "cancel" | "wait" | "add" | "run" | "sweep" => "alive",
        "rerun" | "forget" | "results" => "ended",
        _ => "alive,ended",
    }
}

async fn jobs(states: &str, typed: &str, client: &Client) -> Result<Vec<Offer>, CliError> {
    let contains = Some(typed.to_owned()).filter(|typed| !typed.is_empty());
    let query = JobQuery { state: Some(states.into()), limit: Some(MOST_JOBS), contains, ..JobQuery::default() };
    Ok(client.jobs(&query).await?.into_iter().rev().map(|job| (job.id.clone(), Some(about(&job)))).collect())
}

fn about(job: &Job) -> String {
    format!("{}  {}", job.state.word(), job.name.as_ref().unwrap_or(&job.command))
}

/// `last`, and what groups begin with.
fn group_names(typed: &str) -> Vec<Offer> {
    // All of them at an empty word would hide the ids among themselves.
    if typed.is_empty() {
        return vec![];
    }
    let names = [
        ("last", "the newest job"),
        ("tag:", "jobs with a tag"),
        ("sweep:", "jobs of a sweep"),
        ("name:", "jobs with a name"),
        ("project:", "jobs of a project"),
    ];
    names.map(|(name, about)| (name.into(), Some(about.into()))).into()
}

/// `tag:a`, `tag:b`.
async fn groups(group: &str, client: &Client) -> Result<Vec<Offer>, CliError> {
    let by = match group {
        "tag" => By::Tag,
        "sweep" => By::Sweep,
        "project" => By::Project,
        "name" => By::Name,
        _ => return Ok(vec![]),
    };
    let found = client.sums(by, &JobQuery::default()).await?.into_iter();
    Ok(found.filter_map(|sum| Some((format!("{group}:{}", sum.key?), None))).collect())
}

fn without_group(found: Vec<Offer>, group: &str) -> Vec<Offer> {
    let bare = |(value, about): Offer| (value.strip_prefix(group).unwrap_or(&value).to_owned(), about);
    found.into_iter().map(bare).collect()
}

async fn gpus(client: &Client) -> Result<Vec<Offer>, CliError> {
    let machines = client.gpus().await?.into_iter();
    let here = machines.filter(|machine| machine.name == "local").flat_map(|machine| machine.gpus);
    Ok(here.map(|gpu| (gpu.index.to_string(), Some(gpu.name))).collect())
}

fn plain(values: impl IntoIterator<Item = String>) -> Vec<Offer> {
    values.into_iter().map(|value| (value, None)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_known_by_its_name_and_its_verbs() {
        let table = [
            (&["kill"][..], "selectors", "SEL", Some(Kind::Jobs(ACTIVE))),
            (&["show"], "selectors", "SEL", Some(Kind::Jobs("alive,ended"))),
            (&["add"], "after", "ID", Some(Kind::Job("alive"))),
            (&["add"], "machine", "NAME", Some(Kind::Machines)),
            (&["add"], "name", "NAME", None),
            (&["machine", "add"], "name", "NAME", None),
            (&["machine", "drain"], "machines", "MACHINE", Some(Kind::Machines)),
            (&["var", "unset"], "name", "NAME", Some(Kind::Variables)),
            (&["sweep", "show"], "name", "NAME", Some(Kind::Sweeps)),
            (&["import"], "file", "FILE", None),
        ];
        for (verbs, argument, value, kind) in table {
            assert_eq!(Kind::of(verbs, argument, value), kind, "{verbs:?} {argument} {value}");
        }
    }
}
