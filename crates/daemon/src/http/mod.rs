//! HTTP/JSON on the unix socket. Answers clients; decides nothing.

mod actions;
mod away;
mod backups;
mod browser_terminal;
mod changes;
mod config;
mod cursor;
mod damage;
mod edit;
mod events;
mod expected;
mod export;
mod extract;
mod folders;
mod gc;
mod gpus;
mod history;
mod import;
mod import_lines;
mod jobs;
pub(crate) mod log_range;
mod logs;
mod machines;
mod metrics;
mod moves;
mod notify;
mod openapi;
mod owner_only;
mod past;
mod problem;
mod report;
mod results;
mod screens;
mod service;
mod service_log;
mod slurm;
mod stream;
mod sweeps;
mod tags;
mod terminal;
mod time_limit;
mod variables;
mod web;
mod why;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post, put};
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_core::explain::Explainer;
use nexus_core::ids::JobId;
use nexus_core::policy::Policy;
use nexus_core::time::Time;
use nexus_core::world::World;
use tokio::sync::oneshot;

use crate::engine::{Message, Reply};
use crate::events::Events;
use crate::import::Watches;
use crate::in_queue::InQueue;
use crate::metrics::Metrics;
use crate::names::Names;
use crate::notify::Notices;
use crate::pool::{Lines, Pool};
use crate::queue_edit::FileNotes;
use crate::readings::Readings;
use crate::reload::Reload;
use crate::results::Copier;
use crate::service_screen::ServiceScreen;
use crate::store::{Reader, Readers};
use crate::trouble::Trouble;
use crate::web::Web;
use crate::{blocking, clock};
pub use damage::watch_database;
pub use folders::NearFolders;
pub use history::Turns;
pub use owner_only::OwnerOnly;

/// A submission of a hundred thousand jobs fits; a client that pours without end does not.
const BODY_LIMIT: usize = 512 << 20;

/// What every answer is made from.
pub struct App {
    pub engine: Sender<Message>,
    pub readers: Readers,
    pub events: Arc<Events>,
    pub readings: Arc<Readings>,
    pub metrics: Arc<Metrics>,
    pub home: Home,
    pub log_dir: PathBuf,
    pub host: String,
    pub started_at: Time,
    pub containment: String,
    pub memory_limits: bool,
    pub screen: Arc<ServiceScreen>,
    pub reload: Arc<Reload>,
    /// One change of specs after the other: each is made from what the one before it left.
    pub edits: tokio::sync::Mutex<()>,
    pub taking_over: Turns,
    pub near: NearFolders,
    pub notes: Arc<FileNotes>,
    pub watches: Arc<Watches>,
    pub copier: Copier,
    pub lines: Arc<Lines>,
    pub notices: Arc<Notices>,
    pub web: Web,
    /// Why the database cannot be used.
    pub trouble: Arc<Trouble>,
    /// Where jobs run whose folder goes without saying.
    pub user_home: String,
}

pub type Shared = Arc<App>;

/// What answers on the socket: all that TCP has too, and what lets others in there.
pub fn router(app: Shared) -> Router {
    let own = Router::new()
        .route("/v1/web", get(web::show).post(web::on).delete(web::off))
        .route("/v1/web/browsers", get(web::browsers))
        .route("/v1/web/browsers/{id}", delete(web::revoke));
    own.with_state(app.clone()).merge(open_router(app))
}

/// What answers over TCP as well.
pub fn open_router(app: Shared) -> Router {
    Router::new()
        .route("/v1/openapi.json", get(openapi::openapi))
        .route("/v1/service", get(service::service))
        .route("/v1/service/stop", post(service::stop))
        .route("/v1/service/log", get(service_log::log))
        .route("/v1/service/simulated-gpus", put(service::simulate))
        .route("/v1/service/screen", post(screens::open_own))
        .route("/v1/screens", get(screens::list))
        .route("/v1/config", get(config::show))
        .route("/v1/config/reload", post(config::reload))
        .route("/v1/config/overrides", put(config::override_keys))
        .route("/v1/notify/test", post(notify::test))
        .route("/v1/status", get(service::status))
        .route("/v1/gc", post(gc::collect))
        .route("/v1/backups", get(backups::list).post(backups::make))
        .route("/v1/queue/pause", post(service::pause))
        .route("/v1/queue/resume", post(service::resume))
        .route("/v1/machines", get(machines::list).post(machines::add))
        .route("/v1/setups", post(machines::set_up))
        .route("/v1/machines/{name}", get(machines::show).post(machines::act))
        .route("/v1/gpus", get(gpus::list))
        .route("/v1/gpus/readings", get(gpus::readings))
        .route("/v1/gpus/{word}", post(gpus::act))
        .route("/v1/queue/text", get(edit::text).post(edit::take_text))
        .route("/v1/jobs", get(jobs::list).post(jobs::submit))
        .route("/v1/jobs/rerun", post(jobs::rerun))
        .route("/v1/jobs/{id}", get(jobs::show).post(actions::act))
        .route("/v1/jobs/{id}/edit", post(edit::job))
        .route("/v1/jobs/{id}/move", post(moves::move_job))
        .route("/v1/jobs/{id}/log", get(logs::log))
        .route("/v1/jobs/{id}/results", get(results::show).post(results::copy))
        .route("/v1/jobs/{id}/why", get(why::why))
        .route("/v1/jobs/{id}/terminal", get(terminal::terminal))
        .route("/v1/sweeps", get(sweeps::list).post(sweeps::create))
        .route("/v1/sweeps/{name}", get(sweeps::show))
        .route("/v1/sweeps/{name}/jobs", get(sweeps::jobs))
        .route("/v1/export", get(export::export))
        .route("/v1/history", post(history::take_over))
        .route("/v1/import", post(import::import))
        .route("/v1/import/lines", post(import_lines::import))
        .route("/v1/import/text", post(import::import_text))
        .route("/v1/watches", get(import::watches).post(import::watch).delete(import::end_watch))
        .route("/v1/report", get(report::report))
        .route("/v1/tags", get(tags::list))
        .route("/v1/tags/{tag}", post(tags::tag))
        .route("/v1/variables", get(variables::list))
        .route("/v1/variables/{name}", put(variables::set).delete(variables::unset))
        .route("/v1/web/proof", get(web::prove))
        .route("/v1/web/keys", post(web::keys))
        .route("/v1/events", get(events::follow))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(metrics::health))
        .fallback(problem::no_such_path)
        .method_not_allowed_fallback(problem::no_such_method)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(app)
}

impl App {
    fn post(&self, message: Message) -> Result<(), Problem> {
        self.engine.send(message).map_err(|_| Problem::Stopping)
    }

    /// Sends a message and waits for its answer, which comes when it is on disk.
    async fn order<T>(&self, message: impl FnOnce(Reply<T>) -> Message) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        self.post(message(reply))?;
        answer.await.unwrap_or(Err(Problem::Stopping))
    }

    /// Asks the engine about live facts.
    async fn ask<T: Send + 'static>(&self, question: impl FnOnce(&World) -> T + Send + 'static) -> Result<T, Problem> {
        self.ask_pool(move |world, _| question(world)).await
    }

    /// The same, with one who knows why jobs wait.
    async fn explain<T, F>(&self, question: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&World, &Pool, &mut Explainer) -> T + Send + 'static,
    {
        let explain = move |world: &World, pool: &Pool, policy: &Policy| {
            question(world, pool, &mut Explainer::new(world, policy, clock::now()))
        };
        self.decided(explain).await
    }

    /// The same, with what decisions depend on.
    async fn decided<T, F>(&self, question: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&World, &Pool, &Policy) -> T + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let ask = move |world: &World, pool: &Pool, policy: &Policy| drop(reply.send(question(world, pool, policy)));
        self.post(Message::Ask(Box::new(ask)))?;
        answer.await.map_err(|_| Problem::Stopping)
    }

    /// The same, with what was read of machines.
    async fn ask_pool<T, F>(&self, question: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&World, &Pool) -> T + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.post(Message::Ask(Box::new(move |world, pool, _| drop(reply.send(question(world, pool))))))?;
        answer.await.map_err(|_| Problem::Stopping)
    }

    async fn names(&self) -> Result<Names, Problem> {
        self.ask_pool(|_, pool| pool.names.clone()).await
    }

    /// Why each of these jobs waits.
    async fn waiting(&self, ids: Vec<String>) -> Result<InQueue, Problem> {
        if ids.is_empty() {
            return Ok(InQueue::default());
        }
        let jobs = ids.into_iter().filter_map(|id| id.parse::<JobId>().ok());
        self.explain(move |world, pool, explainer| InQueue::of(jobs, world, pool, explainer)).await
    }

    /// Reads the store off the threads that serve clients.
    async fn read<T, F>(self: &Arc<App>, read: F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: FnOnce(&Reader) -> Result<T, Problem> + Send + 'static,
    {
        let app = self.clone();
        let answer = match blocking::answer(move || app.readers.read(|reader| Ok(read(reader)))).await? {
            Ok(answer) => answer,
            Err(error) => Err(error.problem()),
        };
        if let Err(problem @ Problem::DatabaseDamaged { .. }) = &answer {
            damage::look_closer(self, Some(problem.clone()));
        }
        answer
    }
}
