//! Talks to the service: one typed call for each thing it can be asked.

mod events;
mod http;
mod import;
mod terminal;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use nexus_api::backup::{Backup, MakeBackup};
use nexus_api::config::{ConfigView, Overrides};
use nexus_api::edit::{JobEdit, JobEdited, QueueEdit, QueueEdited, QueueText};
use nexus_api::gc::{Collect, Collected};
use nexus_api::history_import::TakenOver;
use nexus_api::import::{Watch, Watched, Watching};
use nexus_api::jobs::{Action, Job, JobDetail, JobQuery, JobSpec, Move, OnJobs, Rerun, Submitted};
use nexus_api::left::{CopyResults, Results};
use nexus_api::log::{self, Place};
use nexus_api::machines::{MachineAction, NewMachine, OnMachines, SetUpBegun, SetUpMachines};
use nexus_api::notify::Tried;
use nexus_api::paths::Home;
use nexus_api::report::{By, Group, Tag, TagJobs};
use nexus_api::screens::Screen;
use nexus_api::service::{Gpu, GpuPast, Machine, OnGpus, Service, SimulatedGpus, Status, Stop};
use nexus_api::sweeps::{NewSweep, Sweep, SweepQueued};
use nexus_api::variables::{SetVariable, Variable};
use nexus_api::web::{Browser, Web, WebOn};
use nexus_api::why::Why;
use serde_json::Value;

pub use self::events::Events;
pub use self::http::Body;
pub use self::terminal::Terminal;
use crate::error::{CliError, Refused};

/// A request names at most this many jobs in its path.
const IDS_IN_A_PATH: usize = 1000;

#[derive(Clone)]
pub struct Client {
    socket: PathBuf,
    home: PathBuf,
    /// Over which the service was asked whether it answers: the first request goes the same way.
    open: Arc<Mutex<Option<http::Open>>>,
}

/// Which part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    pub stream: Option<&'static str>,
    pub attempt: Option<u32>,
    pub tail: Option<u64>,
    pub follow: bool,
}

impl Client {
    pub fn new(home: &Home) -> Client {
        Client { socket: home.socket(), home: home.dir.clone(), open: Arc::default() }
    }

    pub async fn service(&self) -> Result<Service, CliError> {
        self.get("/v1/service").await
    }

    /// `look`: failures shown now are not shown again.
    pub async fn status(&self, look: bool) -> Result<Status, CliError> {
        self.get(if look { "/v1/status?look=true" } else { "/v1/status" }).await
    }

    pub async fn jobs(&self, query: &JobQuery) -> Result<Vec<Job>, CliError> {
        self.get(&asked("/v1/jobs", None, query)).await
    }

    /// A page of jobs that wait, or of ended ones, and the cursor of the next.
    pub async fn page(&self, query: &JobQuery) -> Result<(Vec<Job>, Option<String>), CliError> {
        self.get_page(&asked("/v1/jobs", None, query)).await
    }

    /// Sums over the jobs of a query.
    pub async fn sums(&self, by: By, query: &JobQuery) -> Result<Vec<Group>, CliError> {
        self.get(&asked("/v1/report", Some(("by", by.word())), query)).await
    }

    pub async fn machines(&self) -> Result<Vec<Machine>, CliError> {
        self.get("/v1/machines").await
    }

    pub async fn machine(&self, name: &str) -> Result<Machine, CliError> {
        self.get(&format!("/v1/machines/{}", encode(name))).await
    }

    /// It is called from now on; how that goes is asked for.
    pub async fn add_machine(&self, new: &NewMachine) -> Result<Machine, CliError> {
        self.post("/v1/machines", new).await
    }

    /// Their jobs are queued; how these go is asked for.
    pub async fn set_up_machines(&self, wish: &SetUpMachines) -> Result<Vec<SetUpBegun>, CliError> {
        self.post("/v1/setups", wish).await
    }

    /// The machines as they are then, or were before they went.
    pub async fn on_machines(&self, action: MachineAction, on: &OnMachines) -> Result<Vec<Machine>, CliError> {
        self.post(&format!("/v1/machines/{}", action.word()), on).await
    }

    pub async fn tags(&self) -> Result<Vec<Tag>, CliError> {
        self.get("/v1/tags").await
    }

    /// The jobs as they are then.
    pub async fn tag(&self, tag: &str, jobs: &TagJobs) -> Result<Vec<Job>, CliError> {
        self.post(&format!("/v1/tags/{}", encode(tag)), jobs).await
    }

    pub async fn jobs_by_id(&self, ids: &[String]) -> Result<Vec<Job>, CliError> {
        let mut jobs = Vec::with_capacity(ids.len());
        for some in ids.chunks(IDS_IN_A_PATH) {
            jobs.extend(self.selected(some, None).await?);
        }
        Ok(jobs)
    }

    /// What selectors name; `state` narrows those that may name many.
    pub async fn selected(&self, selectors: &[String], state: Option<String>) -> Result<Vec<Job>, CliError> {
        self.jobs(&JobQuery { select: Some(selectors.join("\n")), state, ..JobQuery::default() }).await
    }

    pub async fn job(&self, id: &str, env: bool) -> Result<JobDetail, CliError> {
        self.get(&path(&format!("/v1/jobs/{}", encode(id)), &[("env", env.then_some("true"))])).await
    }

    /// Submits `copies` of a job, all or none.
    /// `shown`: somebody is told when they are expected to start.
    pub async fn submit(
        &self,
        spec: &JobSpec,
        copies: usize,
        dry_run: bool,
        shown: bool,
    ) -> Result<Submitted, CliError> {
        let many = (copies != 1).then(|| copies.to_string());
        let flag = |it: bool| it.then_some("true");
        let path =
            path("/v1/jobs", &[("dry_run", flag(dry_run)), ("copies", many.as_deref()), ("expected", flag(shown))]);
        self.post(&path, &[spec]).await
    }

    /// The same, once: with the same key nothing is queued again, and the jobs of the first time are named.
    pub async fn submit_once(&self, spec: &JobSpec, copies: usize, key: &str) -> Result<Submitted, CliError> {
        let many = (copies != 1).then(|| copies.to_string());
        let path = path("/v1/jobs", &[("copies", many.as_deref()), ("expected", Some("true"))]);
        self.post_once(&path, &[spec], key).await
    }

    /// Submits jobs, all or none.
    pub async fn submit_all(&self, specs: &[JobSpec]) -> Result<Submitted, CliError> {
        self.post("/v1/jobs", &specs).await
    }

    /// Queues a sweep, all of its jobs or none.
    pub async fn new_sweep(&self, sweep: &NewSweep) -> Result<SweepQueued, CliError> {
        self.post("/v1/sweeps", sweep).await
    }

    /// The same, once, as [`Client::submit_once`].
    pub async fn new_sweep_once(&self, sweep: &NewSweep, key: &str) -> Result<SweepQueued, CliError> {
        self.post_once("/v1/sweeps", sweep, key).await
    }

    pub async fn sweeps(&self) -> Result<Vec<Sweep>, CliError> {
        self.get("/v1/sweeps").await
    }

    pub async fn sweep(&self, name: &str) -> Result<Sweep, CliError> {
        self.get(&format!("/v1/sweeps/{}", encode(name))).await
    }

    /// All of its jobs, whatever became of them.
    pub async fn sweep_jobs(&self, name: &str) -> Result<Vec<Job>, CliError> {
        self.get(&format!("/v1/sweeps/{}/jobs", encode(name))).await
    }

    /// Does something to jobs, all or none, and answers with their state after it.
    pub async fn act(&self, action: Action, on: OnJobs) -> Result<Vec<Job>, CliError> {
        self.post(&format!("/v1/jobs/{}", action.word()), &on).await
    }

    /// Deletes what nobody needs any more, or tells what that would be.
    pub async fn collect(&self, wish: &Collect) -> Result<Collected, CliError> {
        self.post("/v1/gc", wish).await
    }

    /// Copies the database.
    pub async fn backup(&self, wish: &MakeBackup) -> Result<Backup, CliError> {
        self.post("/v1/backups", wish).await
    }

    /// Puts a waiting job before another, or behind all.
    pub async fn move_job(&self, id: &str, to: &Move) -> Result<Job, CliError> {
        self.post(&format!("/v1/jobs/{}/move", encode(id)), to).await
    }

    /// The queue as text, or one job of it.
    pub async fn queue_text(&self, id: Option<&str>) -> Result<QueueText, CliError> {
        self.get(&path("/v1/queue/text", &[("id", id)])).await
    }

    /// What an edited text says is done, if it can be.
    pub async fn edit_queue(&self, edit: &QueueEdit) -> Result<QueueEdited, CliError> {
        self.post("/v1/queue/text", edit).await
    }

    pub async fn edit_job(&self, id: &str, edit: &JobEdit) -> Result<JobEdited, CliError> {
        self.post(&format!("/v1/jobs/{}/edit", encode(id)), edit).await
    }

    /// Watches a file; what stands in it is taken before this returns.
    pub async fn watch(&self, watch: &Watch) -> Result<Watching, CliError> {
        self.post("/v1/watches", watch).await
    }

    pub async fn watches(&self) -> Result<Vec<Watched>, CliError> {
        self.get("/v1/watches").await
    }

    pub async fn end_watch(&self, file: &str) -> Result<Watched, CliError> {
        self.delete(&path("/v1/watches", &[("file", Some(file))])).await
    }

    pub async fn rerun(&self, rerun: &Rerun) -> Result<Submitted, CliError> {
        self.post("/v1/jobs/rerun", rerun).await
    }

    pub async fn log(&self, id: &str, query: &LogQuery) -> Result<Body, CliError> {
        let (attempt, tail) = (query.attempt.map(|k| k.to_string()), query.tail.map(|n| n.to_string()));
        let path = path(
            &format!("/v1/jobs/{}/log", encode(id)),
            &[
                ("stream", query.stream),
                ("attempt", attempt.as_deref()),
                ("tail", tail.as_deref()),
                ("follow", query.follow.then_some("true")),
            ],
        );
        self.stream(&path).await
    }

    /// Follows a job's output from a place on, in frames.
    pub async fn log_from(&self, id: &str, place: Place) -> Result<Body, CliError> {
        let from = place.to_string();
        let body = self.stream(&path(&format!("/v1/jobs/{}/log", encode(id)), &[("from", Some(&from))])).await?;
        match body.content_type() == log::CONTENT_TYPE {
            true => Ok(body),
            false => Err(Refused {
                error: format!("job {id} is queued and cannot be followed"),
                why: Some("the service that runs is older than this nexus".into()),
                hint: Some("nexus restart".into()),
            }
            .into()),
        }
    }

    pub async fn results(&self, id: &str) -> Result<Results, CliError> {
        self.get(&format!("/v1/jobs/{}/results", encode(id))).await
    }

    /// Begins a copy of what a job left; [`Client::results`] tells how it goes.
    pub async fn copy_results(&self, id: &str, wish: &CopyResults) -> Result<Results, CliError> {
        self.post(&format!("/v1/jobs/{}/results", encode(id)), wish).await
    }

    pub async fn why(&self, id: &str) -> Result<Why, CliError> {
        self.get(&format!("/v1/jobs/{}/why", encode(id))).await
    }

    pub async fn pause_queue(&self, paused: bool) -> Result<(), CliError> {
        let path = if paused { "/v1/queue/pause" } else { "/v1/queue/resume" };
        self.post::<Value, Value>(path, &Value::Null).await.map(drop)
    }

    /// Tells everybody who is told that this is a test.
    pub async fn notify_test(&self) -> Result<Vec<Tried>, CliError> {
        self.post("/v1/notify/test", &Value::Null).await
    }

    pub async fn web(&self) -> Result<Web, CliError> {
        self.get("/v1/web").await
    }

    /// Serves the page from now on, and lets one browser in.
    pub async fn web_on(&self, wish: &WebOn) -> Result<Web, CliError> {
        self.post("/v1/web", wish).await
    }

    pub async fn web_off(&self) -> Result<Web, CliError> {
        self.delete("/v1/web").await
    }

    /// Browsers that were let in.
    pub async fn browsers(&self) -> Result<Vec<Browser>, CliError> {
        self.get("/v1/web/browsers").await
    }

    pub async fn revoke_browser(&self, id: &str) -> Result<(), CliError> {
        self.delete(&format!("/v1/web/browsers/{}", encode(id))).await
    }

    pub async fn gpus(&self) -> Result<Vec<Machine>, CliError> {
        self.get("/v1/gpus").await
    }

    /// Load and memory of the last quarter of an hour.
    pub async fn past_readings(&self) -> Result<Vec<GpuPast>, CliError> {
        self.get("/v1/gpus/readings").await
    }

    /// All of them or none; the GPUs as they are then.
    pub async fn pause_gpus(&self, on: &OnGpus, paused: bool) -> Result<Vec<Gpu>, CliError> {
        self.post(if paused { "/v1/gpus/pause" } else { "/v1/gpus/resume" }, on).await
    }

    pub async fn stop(&self, keep_jobs: bool) -> Result<(), CliError> {
        self.post::<Stop, Value>("/v1/service/stop", &Stop { keep_jobs }).await.map(drop)
    }

    pub async fn screens(&self) -> Result<Vec<Screen>, CliError> {
        self.get("/v1/screens").await
    }

    /// Has the service show itself in a session of GNU screen.
    pub async fn open_screen(&self) -> Result<(), CliError> {
        self.post::<Value, Value>("/v1/service/screen", &Value::Null).await.map(drop)
    }

    /// service.log from its last lines on, as it grows. `session`: of which this is the window.
    pub async fn service_log(&self, tail: u64, session: Option<&str>) -> Result<Body, CliError> {
        let tail = tail.to_string();
        self.stream(&path("/v1/service/log", &[("tail", Some(&tail)), ("session", session)])).await
    }

    pub async fn config(&self) -> Result<ConfigView, CliError> {
        self.get("/v1/config").await
    }

    /// Has the service read its configuration now.
    pub async fn reload_config(&self) -> Result<ConfigView, CliError> {
        self.post("/v1/config/reload", &Value::Null).await
    }

    /// Puts values over those of the file until the next start.
    pub async fn override_config(&self, keys: &[(String, String)]) -> Result<(), CliError> {
        let overrides = Overrides { keys: keys.iter().cloned().collect() };
        self.put("/v1/config/overrides", &overrides).await
    }

    pub async fn variables(&self) -> Result<Vec<Variable>, CliError> {
        self.get("/v1/variables").await
    }

    pub async fn set_variable(&self, name: &str, value: &SetVariable) -> Result<(), CliError> {
        self.put(&format!("/v1/variables/{}", encode(name)), value).await
    }

    pub async fn unset_variable(&self, name: &str) -> Result<Variable, CliError> {
        self.delete(&format!("/v1/variables/{}", encode(name))).await
    }

    pub async fn simulate_gpus(&self, count: u16) -> Result<(), CliError> {
        self.put("/v1/service/simulated-gpus", &SimulatedGpus { count }).await
    }

    /// All jobs, or those of these states and times, in the words of `GET /v1/export`. It breaks off where the service
    /// cannot go on.
    pub async fn export(&self, format: &str, query: &JobQuery) -> Result<Body, CliError> {
        self.stream(&asked("/v1/export", Some(("format", format)), query)).await
    }

    /// Takes ended jobs of an export over as history: whole lines as they stand in the file from `first_line` on, at most
    /// [`MOST_LINES`](nexus_api::history_import::MOST_LINES). To send them again changes nothing.
    pub async fn take_over(&self, first_line: u64, lines: Vec<u8>) -> Result<TakenOver, CliError> {
        self.post_bytes(&format!("/v1/history?first_line={first_line}"), lines.into()).await
    }

    /// Begins to listen; what happens from now on is heard.
    pub async fn events(&self) -> Result<Events, CliError> {
        Ok(Events::new(self.stream("/v1/events").await?))
    }

    /// The same, with each reading of GPUs.
    pub async fn events_and_readings(&self) -> Result<Events, CliError> {
        Ok(Events::new(self.stream("/v1/events?readings=true").await?))
    }
}

/// A path that asks for the jobs of a query.
fn asked(of: &str, first: Option<(&str, &str)>, query: &JobQuery) -> String {
    let limit = query.limit.map(|limit| limit.to_string());
    let mut parameters = vec![
        ("select", query.select.as_deref()),
        ("state", query.state.as_deref()),
        ("since", query.since.as_deref()),
        ("limit", limit.as_deref()),
        ("project", query.project.as_deref()),
        ("tag", query.tag.as_deref()),
        ("sweep", query.sweep.as_deref()),
        ("name", query.name.as_deref()),
        ("contains", query.contains.as_deref()),
        ("cursor", query.cursor.as_deref()),
        ("expected", query.expected.then_some("true")),
    ];
    parameters.extend(first.map(|(name, value)| (name, Some(value))));
    path(of, &parameters)
}

/// A path with those of the parameters that are there.
fn path(base: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut path = base.to_string();
    let given = parameters.iter().filter_map(|(name, value)| value.map(|value| (name, value)));
    for (place, (name, value)) in given.enumerate() {
        path.push(if place == 0 { '?' } else { '&' });
        path.push_str(&format!("{name}={}", encode(value)));
    }
    path
}

/// Percent-encodes all but unreserved bytes.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_encoded_and_absent_ones_left_out() {
        let parameters = [("select", Some("a\nname:é &")), ("state", None), ("limit", Some("3"))];
        assert_eq!(path("/v1/jobs", &parameters), "/v1/jobs?select=a%0Aname%3A%C3%A9%20%26&limit=3");
        assert_eq!(path("/v1/jobs", &[("a", None)]), "/v1/jobs");
    }
}
