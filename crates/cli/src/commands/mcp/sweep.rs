//! `sweep`: one command with many values, queued or only looked at.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nexus_api::command::Command;
use nexus_api::jobs::JobSpec;
use nexus_api::sweeps::{NewSweep, Points};
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, bad};
use super::brief::Words;
use super::submit::{self, Options, new_key};
use crate::app::App;
use crate::client::Client;
use crate::commands::add;
use crate::commands::sweep::{SweepArgs, meant};
use crate::error::CliError;
use crate::render::paint::PLAIN;
use crate::render::sweep as shown;
use crate::render::text;
use crate::typed::AddArgs;

/// Commands that a dry run shows.
const SHOWN: usize = 20;

/// Ids in an answer; sweep_results has them all.
const NAMED: usize = 200;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Args {
    /// A shell command with {name} for each parameter
    pub command: String,
    /// Values of each parameter: a list ([0.1, 0.01]), or a text: 0.1,0.01 or a range (1..5, 0.1..0.5:0.1) or so many numbers
    /// between two (lin:0..1:5, log:1e-4..1e-1:5)
    pub params: BTreeMap<String, Values>,
    /// Only combinations for which this holds, as in lr*seed < 3 and opt == 'adam'
    #[serde(default, rename = "where")]
    pub only: Option<String>,
    /// The first values of all, then the second, instead of each with each
    #[serde(default)]
    pub zip: bool,
    /// So many combinations by chance; values may be spans to draw from, as in log:1e-4..1e-1
    pub random: Option<u32>,
    /// Repeats a draw of random
    pub seed: Option<u64>,
    /// So many of its jobs at once, at most
    pub max_running: Option<u32>,
    /// Holds the rest when the first so many all fail alike and at once; 0 for never [default: 3]
    pub stop_after: Option<u32>,
    /// Queues each combination so many times [default: 1]
    pub copies: Option<u32>,
    /// Queues nothing and shows what would be queued
    #[serde(default)]
    pub dry_run: bool,
    /// Any text of up to 200 letters: asked again with the same key within a week nothing is queued again
    pub key: Option<String>,
    #[serde(flatten)]
    pub options: Options,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(crate = "rmcp::schemars")]
pub enum Values {
    Text(String),
    List(Vec<One>),
    One(One),
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(crate = "rmcp::schemars")]
pub enum One {
    Whole(i64),
    Number(f64),
    Flag(bool),
    Text(String),
}

impl Values {
    /// In the language of sweeps. What stands in a list is a value as it is, whatever it looks like.
    fn typed(&self) -> String {
        let one = |value: &One| match value {
            One::Whole(number) => number.to_string(),
            One::Number(number) => number.to_string(),
            One::Flag(flag) => flag.to_string(),
            One::Text(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        };
        match self {
            Values::Text(text) => text.clone(),
            Values::List(values) => values.iter().map(one).collect::<Vec<_>>().join(","),
            Values::One(value) => one(value),
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Queued {
    /// Whether nothing was queued
    pub dry_run: bool,
    /// The name of the sweep; sweep:NAME names its jobs
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many jobs it has, or would have
    pub jobs: u64,
    pub params: Vec<String>,
    /// The seed of a random draw
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Of its jobs, the first 200
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// The first commands, of a dry run
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// The folder its jobs run in
    pub cwd: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One call, through restarts of the service the same: the draw too.
pub struct Call {
    /// As it is meant, but for the jobs that it comes after.
    sweep: NewSweep,
    whole: OnceLock<NewSweep>,
    points: Points,
    dry_run: bool,
    key: String,
}

impl Call {
    pub fn new(args: Args, app: &App) -> Result<Call, CliError> {
        for (name, number) in [("random", args.random), ("max_running", args.max_running), ("copies", args.copies)] {
            if number == Some(0) {
                return Err(bad(format!("{name} cannot be 0"), format!("{name}: 1 or more, or none")));
            }
        }
        let mut words = vec![args.command];
        words.extend(args.params.iter().map(|(name, values)| format!("{name}={}", values.typed())));
        let typed = args.options.typed(words);
        let sweep = SweepArgs {
            only: args.only,
            from: None,
            zip: args.zip,
            random: args.random,
            seed: args.seed,
            max_running: args.max_running,
            stop_after: args.stop_after,
            add: AddArgs { copies: args.copies.unwrap_or(1), dry_run: args.dry_run, ..typed },
            noun: None,
        };
        let (sweep, points) = meant(&sweep, app)?;
        Ok(Call { sweep, whole: OnceLock::new(), points, dry_run: args.dry_run, key: args.key.unwrap_or_else(new_key) })
    }

    /// The jobs that it comes after are looked up once: `last` is another one when it was queued.
    async fn whole(&self, client: &Client) -> Result<&NewSweep, CliError> {
        if self.whole.get().is_none() {
            let mut sweep = self.sweep.clone();
            add::name_parents(client, &mut sweep.spec).await?;
            let _ = self.whole.set(sweep);
        }
        Ok(self.whole.get().expect("it was set"))
    }

    fn command(&self, row: &[String]) -> Command {
        self.points.command(&self.sweep.spec.command, row)
    }
}

pub async fn run(call: &Call, client: &Client) -> Result<Answer, CliError> {
    let sweep = call.whole(client).await?;
    let queued = Queued {
        dry_run: call.dry_run,
        name: sweep.name.clone(),
        jobs: call.points.rows.len() as u64,
        params: call.points.names.clone(),
        seed: sweep.plan.random.map(|random| random.seed),
        ids: vec![],
        commands: vec![],
        cwd: sweep.spec.cwd.clone(),
        warnings: vec![],
    };
    match call.dry_run {
        true => would_queue(call, &sweep.spec, queued, client).await,
        false => queue(call, sweep, queued, client).await,
    }
}

/// What it comes to, and what its first job would meet: the others need the same.
async fn would_queue(call: &Call, spec: &JobSpec, queued: Queued, client: &Client) -> Result<Answer, CliError> {
    let rows = &call.points.rows;
    let commands: Vec<String> = rows.iter().take(SHOWN).map(|row| call.command(row).text()).collect();
    let mut said = format!("{} would be queued:\n", text::counted(queued.jobs, "job"));
    said.extend(commands.iter().map(|command| format!("  {}\n", text::first_line(command))));
    if rows.len() > SHOWN {
        said.push_str(&format!("  … and {} more\n", rows.len() - SHOWN));
    }
    let mut warnings = vec![];
    if let Some(row) = rows.first() {
        let first = JobSpec { command: call.command(row), ..spec.clone() };
        let tried = client.submit(&first, 1, true, true).await?;
        warnings.extend(tried.notes.iter().map(|note| note.to_string()));
        warnings.extend(add::hopeless(client, &tried.jobs).await);
        let words = Words::for_jobs(client, &tried.jobs).await?;
        said.extend(tried.jobs.iter().map(|job| format!("the first {}\n", submit::would(job, &words))));
    }
    said.extend(warnings.iter().map(|warning| format!("warning: {warning}\n")));
    said.push_str(&format!("nothing was queued (dry run); its jobs would run in {}\n", queued.cwd));
    Ok(Answer::new(said, &Queued { commands, warnings, ..queued }))
}

async fn queue(call: &Call, sweep: &NewSweep, queued: Queued, client: &Client) -> Result<Answer, CliError> {
    let made = client.new_sweep_once(sweep, &call.key).await?;
    let mut warnings: Vec<String> = made.notes.iter().map(|note| note.to_string()).collect();
    let first = made.ids.first().cloned().into_iter().collect::<Vec<_>>();
    warnings.extend(add::hopeless(client, &client.jobs_by_id(&first).await?).await);
    let name = made.sweep.name.clone();
    let mut said = shown::queued(&made, PLAIN);
    said.extend(warnings.iter().map(|warning| format!("warning: {warning}\n")));
    let ids: Vec<String> = made.ids.iter().take(NAMED).cloned().collect();
    said.push_str(&format!("{}{}\n", ids.join(" "), if made.ids.len() > NAMED { " …" } else { "" }));
    said.push_str(&format!("wait for sweep:{name} with wait; sweep_results of {name} has what came of it\n"));
    Ok(Answer::new(said, &Queued { name: Some(name), jobs: made.ids.len() as u64, ids, warnings, ..queued }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_its_values_and_a_text_is_typed() {
        let typed = |json: &str| serde_json::from_str::<Values>(json).unwrap().typed();
        assert_eq!(typed("\"1..5\""), "1..5");
        assert_eq!(typed("[0.1, 0.01, 3]"), "0.1,0.01,3");
        assert_eq!(typed("[\"a,b\", \"1..5\", \"say \\\"hi\\\"\", true]"), "\"a,b\",\"1..5\",\"say \"\"hi\"\"\",true");
        assert_eq!(typed("7"), "7");
    }
}
