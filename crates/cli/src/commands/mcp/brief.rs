//! A job in a few words and facts: a model reads every one of them.

use std::collections::BTreeMap;

use jiff::Zoned;
use nexus_api::jobs::{Job, State};
use rmcp::schemars::JsonSchema;
use serde::Serialize;

use crate::client::Client;
use crate::error::CliError;
use crate::render::reason::{self, Capacity};
use crate::render::{expected, outcome, place, prospect, text, time};

/// Characters of a command among others.
const COMMAND: usize = 400;
const COMMAND_IN_LINE: usize = 120;

/// A job, in short. What is not known is left out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Brief {
    pub id: String,
    /// held, queued, starting, running, copying, completed, failed or killed
    pub state: String,
    pub command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<String>,
    /// Its values of the sweep's parameters
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<serde_json::Value>,
    /// How it failed, or who ended it, in one word
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// One sentence on the reason
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What it waits for, with numbers
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Place in the queue, from 1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Numbers of the GPUs that it holds, or held
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u16>,
    /// Number of the newest run, 0 before the first
    pub attempt: u32,
    pub submitted_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<String>,
    /// Values taken from its output
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extracted: Option<BTreeMap<String, String>>,
}

/// What is needed to put jobs into words.
pub struct Words {
    capacity: Capacity,
    now: Zoned,
}

impl Words {
    /// For these jobs: only what waits needs to know what there is.
    pub async fn for_jobs(client: &Client, jobs: &[Job]) -> Result<Words, CliError> {
        let waits = jobs.iter().any(|job| job.waiting.is_some());
        let capacity = match waits {
            true => Capacity::of(&client.status(false).await?),
            false => Capacity { gpus: 0, cpus: 0 },
        };
        Ok(Words { capacity, now: Zoned::now() })
    }

    pub fn briefs(&self, jobs: &[Job]) -> Vec<Brief> {
        jobs.iter().map(|job| self.brief(job)).collect()
    }

    pub fn brief(&self, job: &Job) -> Brief {
        let job = job.clone();
        let waits = Some(reason::of_job(&job, self.capacity, &self.now)).filter(|waits| !waits.is_empty());
        let (expected_start, expected_end) = match &job.expected {
            Some(expected) => (job.waiting.is_some().then(|| expected.start.clone()), expected.end.clone()),
            None => (None, None),
        };
        Brief {
            id: job.id,
            state: job.state.word().into(),
            command: text::cut(&job.command, COMMAND),
            name: job.name,
            project: job.project,
            tags: job.tags,
            sweep: job.sweep,
            params: job.params,
            reason: job.reason,
            detail: job.detail,
            waits,
            position: job.position,
            exit_code: job.exit_code,
            signal: job.signal,
            machine: job.machine,
            gpus: job.gpus,
            attempt: job.attempt,
            submitted_at: job.submitted_at,
            started_at: job.started_at,
            ended_at: job.ended_at,
            runtime_seconds: job.runtime_seconds,
            expected_start,
            expected_end,
            extracted: job.extracted.filter(|values| !values.is_empty()),
        }
    }

    /// What a job that is not there yet can expect.
    pub fn prospect(&self, job: &Job) -> String {
        prospect::of_job(job, self.capacity, &self.now)
    }

    /// `abc  running on GPU 0, 2h 15m: python train.py`
    pub fn line(&self, job: &Job) -> String {
        let name = job.name.as_ref().map(|name| format!(" ({})", text::first_line(name))).unwrap_or_default();
        let command = text::cut(&text::first_line(&job.command), COMMAND_IN_LINE);
        format!("{}{name}  {}: {command}", job.id, self.standing(job))
    }

    pub fn lines(&self, jobs: &[Job]) -> String {
        jobs.iter().map(|job| format!("{}\n", self.line(job))).collect()
    }

    fn standing(&self, job: &Job) -> String {
        let spent = || job.runtime_seconds.filter(|_| job.attempt > 0).map(|spent| time::span(spent.max(0.0) as u64));
        let mut parts = vec![format!("{}{}", outcome::state_words(job), place::on_place(job))];
        match job.state {
            State::Held | State::Queued => {
                parts.extend(job.position.map(|position| format!("position {position}")));
                parts.push(reason::of_job(job, self.capacity, &self.now));
                let start = expected::start(job, &self.now);
                parts.push(if start.is_empty() { start } else { format!("starts {start}") });
            }
            state if state.has_ended() => {
                parts.extend(spent().map(|spent| format!("after {spent}")));
                let told = matches!(job.reason.as_deref(), Some("exit" | "signal"));
                parts.extend(job.detail.iter().filter(|_| !told).map(|detail| text::first_line(detail)));
            }
            _ => parts.extend(spent()),
        }
        parts.retain(|part| !part.is_empty());
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn a_line_says_how_a_job_stands() {
        let words = Words { capacity: Capacity { gpus: 2, cpus: 8 }, now: samples::now() };
        let mut waiting = samples::queued("abc");
        waiting.position = Some(3);
        waiting.waiting = Some(samples::gpus_needed(1, [0, 2, 0, 0, 0]));
        let told = words.line(&waiting);
        assert!(told.starts_with("abc  queued, position 3, needs 1 GPU: 2 held by jobs: "), "{told}");
        let mut ended = samples::ended("abd", State::Failed, "exit");
        (ended.exit_code, ended.name) = (Some(3), Some("night".into()));
        assert_eq!(words.line(&ended), "abd (night)  failed (exit 3) on GPU 0, after 2m 10s: python train.py");
        let mut long = samples::queued("abe");
        long.command = "é".repeat(3000);
        assert_eq!(words.brief(&long).command.chars().count(), COMMAND);
    }
}
