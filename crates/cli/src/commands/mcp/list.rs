//! `list`: jobs, a page at a time. The service has pages of those that wait and of those that ended; those that run are
//! few. Here they are one list, in this order, and a cursor that says in which part it stands.

use nexus_api::jobs::{Job, JobQuery, State};
use rmcp::schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, bad};
use super::brief::{Brief, Words};
use crate::client::Client;
use crate::error::CliError;
use crate::render::text;

const USUAL: u32 = 50;
const MOST: u32 = 500;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(crate = "rmcp::schemars")]
pub struct Args {
    /// States, with commas: held, queued, starting, running, copying, completed, failed, killed; or alive, pending, ended,
    /// all for several [default: alive]
    pub state: Option<String>,
    /// Only jobs with this tag
    pub tag: Option<String>,
    /// Only jobs of this project
    pub project: Option<String>,
    /// Only jobs of this sweep
    pub sweep: Option<String>,
    /// Only jobs with this name
    pub name: Option<String>,
    /// Only jobs whose id, name, command, project or tag contains this
    pub contains: Option<String>,
    /// How many at once, 1 to 500 [default: 50]
    pub limit: Option<u32>,
    /// next_cursor of the answer before, for those that follow
    pub cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub struct Listed {
    pub jobs: Vec<Brief>,
    /// Give it back as cursor for those that follow; left out behind the last
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Parts of the list, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Active,
    Waiting,
    Ended,
}

impl Part {
    const ALL: [Part; 3] = [Part::Active, Part::Waiting, Part::Ended];

    fn word(self) -> &'static str {
        match self {
            Part::Active => "active",
            Part::Waiting => "waiting",
            Part::Ended => "ended",
        }
    }

    fn of(state: State) -> Part {
        match state {
            State::Held | State::Queued => Part::Waiting,
            State::Starting | State::Running | State::Copying => Part::Active,
            State::Completed | State::Failed | State::Killed => Part::Ended,
        }
    }
}

pub async fn run(args: &Args, client: &Client) -> Result<Answer, CliError> {
    let states = states(args.state.as_deref().unwrap_or("alive"))?;
    let limit = args.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(bad(format!("limit cannot be {limit}"), format!("limit: 1 to {MOST}")));
    }
    let (jobs, next_cursor) = page(args, &states, limit as usize, client).await?;
    let words = Words::for_jobs(client, &jobs).await?;
    let mut said = words.lines(&jobs);
    match (&next_cursor, jobs.is_empty()) {
        (Some(next), _) => said.push_str(&format!("more follow: cursor {next}\n")),
        (None, true) => said.push_str("no such jobs\n"),
        (None, false) => said.push_str(&format!("{}\n", text::counted(jobs.len() as u64, "job"))),
    }
    Ok(Answer::new(said, &Listed { jobs: words.briefs(&jobs), next_cursor }))
}

fn states(typed: &str) -> Result<Vec<State>, CliError> {
    let mut states = Vec::new();
    for word in typed.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "all" | "any" => states.extend(State::ALL),
            "alive" | "active" => states.extend(State::ALL.into_iter().filter(|state| !state.has_ended())),
            "ended" => states.extend(State::ALL.into_iter().filter(|state| state.has_ended())),
            other => states.extend(State::from_filter(other).ok_or_else(|| unknown(word))?),
        }
    }
    states.sort_unstable();
    states.dedup();
    if states.is_empty() { Err(unknown(typed)) } else { Ok(states) }
}

fn unknown(word: &str) -> CliError {
    let all: Vec<&str> = State::ALL.into_iter().map(State::word).collect();
    bad(
        format!("state cannot be {:?}", text::cut(word, 40)),
        format!("{}, or alive, pending, ended, all", all.join(", ")),
    )
}

/// So many of them, and the cursor of those that follow.
async fn page(
    args: &Args,
    states: &[State],
    limit: usize,
    client: &Client,
) -> Result<(Vec<Job>, Option<String>), CliError> {
    let (from, mut inner) = place(args.cursor.as_deref())?;
    let mut jobs: Vec<Job> = Vec::new();
    for part in Part::ALL.into_iter().skip_while(|part| *part != from) {
        let wanted: Vec<&str> =
            states.iter().filter(|state| Part::of(**state) == part).map(|state| state.word()).collect();
        let behind = std::mem::take(&mut inner);
        if wanted.is_empty() {
            continue;
        }
        let room = limit - jobs.len();
        if room == 0 {
            return Ok((jobs, Some(format!("{}:", part.word()))));
        }
        let query = query(args, wanted.join(","));
        let (some, next) = match part {
            Part::Active => active(&query, room, &behind, client).await?,
            _ => {
                let expected = part == Part::Waiting;
                let query = JobQuery { limit: Some(room as u64), cursor: Some(behind), expected, ..query };
                client.page(&query).await?
            }
        };
        jobs.extend(some);
        if let Some(next) = next {
            return Ok((jobs, Some(format!("{}:{next}", part.word()))));
        }
    }
    Ok((jobs, None))
}

/// Part and place of a cursor.
fn place(cursor: Option<&str>) -> Result<(Part, String), CliError> {
    let Some(cursor) = cursor.filter(|cursor| !cursor.is_empty()) else { return Ok((Part::Active, String::new())) };
    let found = cursor.split_once(':').and_then(|(word, inner)| {
        let part = Part::ALL.into_iter().find(|part| part.word() == word)?;
        Some((part, inner.to_string()))
    });
    found.ok_or_else(|| bad(format!("cursor cannot be {:?}", text::cut(cursor, 40)), "next_cursor of a list, or none"))
}

fn query(args: &Args, state: String) -> JobQuery {
    let Args { tag, project, sweep, name, contains, .. } = args.clone();
    JobQuery { state: Some(state), tag, project, sweep, name, contains, ..JobQuery::default() }
}

/// By the time of their submission: the cursor is the last one's, which holds when jobs end meanwhile.
async fn active(
    query: &JobQuery,
    room: usize,
    behind: &str,
    client: &Client,
) -> Result<(Vec<Job>, Option<String>), CliError> {
    let key = |job: &Job| format!("{} {}", job.submitted_at, job.id);
    let mut jobs = client.jobs(&JobQuery { expected: true, ..query.clone() }).await?;
    jobs.retain(|job| behind.is_empty() || key(job).as_str() > behind);
    jobs.sort_by_key(key);
    let next = (jobs.len() > room).then(|| key(&jobs[room - 1]));
    jobs.truncate(room);
    Ok((jobs, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_words_with_commas() {
        let read = |typed| states(typed).map(|states| states.iter().map(|state| state.word()).collect::<Vec<_>>());
        assert_eq!(read("running, queued").unwrap(), ["queued", "running"]);
        assert_eq!(read("alive").unwrap().len(), 5);
        assert_eq!(read("all").unwrap().len(), 8);
        assert_eq!(read("ended,failed").unwrap(), ["completed", "failed", "killed"]);
        assert!(read("runing").is_err() && read("").is_err() && read(",").is_err());
    }

    #[test]
    fn a_cursor_says_where_it_stands() {
        assert_eq!(place(None).unwrap(), (Part::Active, String::new()));
        assert_eq!(place(Some("ended:12:x")).unwrap(), (Part::Ended, "12:x".into()));
        assert!(place(Some("12")).is_err() && place(Some("later:1")).is_err());
    }
}
