//! Brings the service up, and takes it down.

use std::fs::DirBuilder;
use std::future::IntoFuture;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nexus_api::jobs::Session;
use nexus_api::paths::Home;
use nexus_api::problem::Problem;
use nexus_api::service::StartReport;
use nexus_core::apply::Command;
use nexus_node::{
    Containment, Node, NodeConfig, Report as NodeReport, ReportsPlace, cgroup, sockets, system_file, threads, turns,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::oneshot;

use crate::config::{Config, ConfigFile, Overrides, Settings};
use crate::engine::{Calls, Engine, Message, Remnants, messages};
use crate::events::Events;
use crate::gpus::Gpus;
use crate::home::{HomeLock, Reserve, claim, with_socket_folder};
use crate::http::{self, App, OwnerOnly};
use crate::ids::IdMaker;
use crate::import::{Importer, Watches};
use crate::inbox::{self, Inbox};
use crate::launch::RunSpecs;
use crate::metrics::Metrics;
use crate::mirrors::Mirrors;
use crate::models::Source;
use crate::notify::{self, Notices, Teller};
use crate::open_sockets::OpenSockets;
use crate::pool::{Lines, Member, Pool};
use crate::queue_edit::FileNotes;
use crate::readings::Readings;
use crate::reload::{self, Reload};
use crate::results::{Copier, Ended};
use crate::service_log::{Limits, Line, ServiceLog};
use crate::service_screen::ServiceScreen;
use crate::state_file::{StateFile, View};
use crate::store::{Readers, Store};
use crate::web::{self, Web};
use crate::{blocking, clock, panics, recovery, retention, watch_file};

/// Descriptors that an idle service with a few clients needs; the soak test counts 43 of an idle one.
const MIN_OPEN_FILES: u64 = 64;

/// How long a stopping service waits for clients to take their answers.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Remembered until another number is given; None leaves it as it is.
    pub simulate_gpus: Option<u16>,
    /// Take over a home that another host made.
    pub adopt_home: bool,
    /// Keys of the configuration and what they are to be, as typed, until the next start.
    pub overrides: Vec<(String, String)>,
}

/// Runs the service in the foreground until it is stopped. Says on stdout, once, how the start went.
pub fn run(home: Home, options: Options) -> ExitCode {
    // Before any process is started, which would inherit it.
    let web_socket = web::fd_store::take_over();
    let lock = match claim(&home) {
        Ok(Some(lock)) => lock,
        Ok(None) => return say(&StartReport::AlreadyRuns, ExitCode::SUCCESS),
        Err(problem) => return say(&StartReport::Failed { problem }, ExitCode::FAILURE),
    };
    let home = match with_socket_folder(&home) {
        Ok(home) => home,
        Err(problem) => return say(&StartReport::Failed { problem }, ExitCode::FAILURE),
    };
    panics::set_hook(home.service_log());
    // At a limit of file sizes (`ulimit -f`) a write fails, and does not end the process.
    nexus_node::ignore_file_size_signal();
    // First of all: a limit that leaves no room for the service is told, and nothing has begun.
    let runtime = check_open_files().and_then(|()| blocking::runtime().map_err(|error| error.to_string()));
    let runtime = runtime.map_err(|error| Problem::NotStarted { error });
    let parts = runtime.and_then(|runtime| Ok((runtime, prepare(&home, &lock, &options)?)));
    match parts {
        Ok((runtime, parts)) => {
            // After the launcher was started: jobs keep the limit their submitter knows.
            raise_open_files();
            serve(runtime, home, parts, lock, web_socket)
        }
        Err(problem) => say(&StartReport::Failed { problem }, ExitCode::FAILURE),
    }
}

/// With fewer descriptors the service would run and accept no client.
fn check_open_files() -> Result<(), String> {
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < MIN_OPEN_FILES => Err(format!(
            "it needs {MIN_OPEN_FILES} open files at least, and may have {most} (ulimit -n); ulimit -n {MIN_OPEN_FILES} raises that, or a new login"
        )),
        _ => Ok(()),
    }
}

/// Clients that follow logs take descriptors; the soft limit is often low.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Refused: the service does with what it has.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// One line to whoever started the service; then stdout is closed to the world.
fn say(report: &StartReport, code: ExitCode) -> ExitCode {
    let line = serde_json::to_string(report).expect("a report is plain data");
    let mut stdout = std::io::stdout();
    // The starter may be gone; the service does not need it.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    if let Ok(nowhere) = system_file::null() {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
    code
}

/// All that exists before the first client is answered.
struct Parts {
    engine: Engine,
    to_engine: mpsc::Sender<Message>,
    reload: Arc<Reload>,
    events: Arc<Events>,
    readings: Arc<Readings>,
    metrics: Arc<Metrics>,
    log_dir: PathBuf,
    jobs_file: PathBuf,
    host: String,
    containment: String,
    memory_limits: bool,
    session: Session,
    copier: Copier,
    lines: Arc<Lines>,
    notices: Arc<Notices>,
    reports: ReportsPlace,
}

/// Where screen sessions are if screen's own folder cannot be used: their sockets need a short path as well.
fn screens_dir(home: &Home) -> PathBuf {
    home.socket_dir().join("screens")
}

/// Whether a service could start with this configuration: looked at before a running one is stopped for it.
pub fn check_config(home: &Home) -> Result<(), Problem> {
    ConfigFile::of(home).settings().map(drop)
}

/// Made first where there is none; with what the next start refuses of it, for service.log.
fn read_config(file: &ConfigFile) -> Result<(Settings, Vec<Line>), Problem> {
    file.make()?;
    let settings = file.settings()?;
    Ok((settings, file.doubts().into_iter().map(Line::warn).collect()))
}

fn prepare(home: &Home, lock: &HomeLock, options: &Options) -> Result<Parts, Problem> {
    let config_file = ConfigFile::of(home);
    let (settings, doubts) = read_config(&config_file)?;
    let overrides = overrides(options)?;
    let mut config = settings.config.clone();
    overrides.over(&mut config);
    let (models, models_line) = models(&overrides, config.models_file.as_deref(), config_file.is_strict())?;
    let log_dir = config.log_dir.clone().unwrap_or_else(|| home.default_log_dir());
    let (store, host) = open_store(home, &log_dir, options.adopt_home)?;
    let simulated = simulated_gpus(&store, options)?;
    let log = open_logs(home, &log_dir, &config)?;
    let world = store.restore().map_err(|error| error.problem())?;
    let variables = store.variables_set().map_err(|error| error.problem())?;
    let (to_engine, inbox) = mpsc::channel();
    let lines = doubts.into_iter().chain(models_line.map(Line::from)).collect();
    to_engine.send(Message::Log(lines)).expect("the other end is held here");
    let reload = Arc::new(Reload::new(home, settings, overrides, models, to_engine.clone()));
    let node = open_node(home, lock, to_engine.clone())?;
    let lines = Arc::new(Lines::new(open_mirrors(to_engine.clone())?));
    let (names, copier) = (store.names().map_err(|error| error.problem())?, open_copier(to_engine.clone())?);
    let ((containment, memory_limits), reports) = (contained(&node), node.reports());
    let pool = Pool::new(Member::own(node, Gpus::new(simulated)), names);
    let (session, jobs_file) = (config.session, config.jobs_file.clone().unwrap_or_else(|| home.default_jobs_file()));
    let (events, readings) = (Arc::new(Events::new(clock::now())), Arc::new(Readings::new()));
    let metrics = Arc::new(Metrics::new());
    let (teller, notices) = open_notices(home, &log_dir, &host, to_engine.clone())?;
    let engine = Engine {
        inbox,
        outbox: to_engine.clone(),
        world,
        pool,
        lines: lines.clone(),
        calls: Calls::new(home, service_id(&store)?, to_engine.clone(), &config),
        watched: None,
        copier: copier.clone(),
        specs: RunSpecs::new(config, log_dir.clone(), screens_dir(home), home),
        log,
        events: events.clone(),
        readings: readings.clone(),
        metrics: metrics.clone(),
        ids: IdMaker::new(),
        home: home.clone(),
        reserve: Reserve::of(home),
        leaves_jobs: false,
        variables,
        remnants: Remnants::read(&store).map_err(|error| error.problem())?,
        teller,
        trouble: Arc::default(),
        store,
    };
    config_file.make_strict()?;
    Ok(Parts {
        engine,
        to_engine,
        reload,
        events,
        readings,
        metrics,
        log_dir,
        jobs_file,
        host,
        containment,
        memory_limits,
        session,
        copier,
        lines,
        notices: Arc::new(notices),
        reports,
    })
}

/// How a job's processes are held together, and whether their memory can be limited.
fn contained(node: &Node) -> (String, bool) {
    match node.containment() {
        Containment::Cgroup(base) => ("cgroup".into(), cgroup::limits_memory(&base)),
        Containment::Session => ("session".into(), false),
    }
}

/// The folder of jobs' logs, and the service's own.
fn open_logs(home: &Home, log_dir: &Path, config: &Config) -> Result<ServiceLog, Problem> {
    let unusable = |path: &Path, error: std::io::Error| Problem::HomeUnusable {
        path: path.display().to_string(),
        error: error.to_string(),
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(log_dir);
    made.map_err(|error| unusable(log_dir, error))?;
    let own = home.service_log();
    ServiceLog::open(own.clone(), config.log).map_err(|error| unusable(&own, error))
}

/// A table that this very start names must be right. That of the configuration keeps no service down: jobs go without
/// it until it is right, and its trouble is told.
fn models(overrides: &Overrides, path: Option<&Path>, strict: bool) -> Result<(Source, Option<String>), Problem> {
    match overrides.has("models.file") {
        true => Ok((Source::open(path)?, None)),
        false => Ok(Source::begin(path, !strict)),
    }
}

fn overrides(options: &Options) -> Result<Overrides, Problem> {
    let mut overrides = Overrides::default();
    for (name, typed) in &options.overrides {
        overrides.set(name, typed, None).map_err(|error| reload::refused(name, typed, error))?;
    }
    Ok(overrides)
}

/// The database, and the name of this host, whose home it is.
fn open_store(home: &Home, log_dir: &Path, adopt: bool) -> Result<(Store, String), Problem> {
    recovery::refuse_if_missing(home, log_dir)?;
    let store = Store::open(&home.database(), home.network).map_err(|error| error.problem())?;
    let host = nexus_node::home::hostname();
    own_host(&store, home, &host, adopt)?;
    Ok((store, host))
}

/// A home belongs to one host: two services on one database would both run its queue.
fn own_host(store: &Store, home: &Home, here: &str, adopt: bool) -> Result<(), Problem> {
    let owner = store.meta("host").map_err(|error| error.problem())?;
    match owner {
        Some(host) if host == here => Ok(()),
        Some(host) if !adopt => {
            Err(Problem::OtherHost { path: home.dir.display().to_string(), host, here: here.to_string() })
        }
        _ => store.set_meta("host", here).map_err(|error| error.problem()),
    }
}

fn simulated_gpus(store: &Store, options: &Options) -> Result<u16, Problem> {
    let fail = |error: crate::store::StoreError| error.problem();
    match options.simulate_gpus {
        Some(count) => {
            store.set_meta("simulated_gpus", &count.to_string()).map_err(fail)?;
            Ok(count)
        }
        None => Ok(store.meta("simulated_gpus").map_err(fail)?.and_then(|text| text.parse().ok()).unwrap_or(0)),
    }
}

fn open_node(home: &Home, lock: &HomeLock, engine: mpsc::Sender<Message>) -> Result<Node, Problem> {
    let guard = lock.share().map_err(|error| Problem::NotStarted { error: error.to_string() })?;
    let config = NodeConfig {
        reports: home.reports(),
        launcher: vec!["/proc/self/exe".into(), "__launcher".into()],
        cgroups: true,
        guard: Some(guard.into()),
        shim_patience: NodeConfig::usual_shim_patience(),
    };
    let sink = move |report: NodeReport| {
        for message in messages(report) {
            // The engine is gone: the service is going down, and the next one will look for itself.
            let _ = engine.send(message);
        }
    };
    Node::open(config, Box::new(sink)).map_err(|error| Problem::NotStarted { error: error.to_string() })
}

fn open_mirrors(engine: mpsc::Sender<Message>) -> Result<Mirrors, Problem> {
    let engine = std::sync::Mutex::new(engine);
    let complain = move |line: String| {
        let engine = engine.lock().expect("nobody panics while they send");
        // The engine is gone: the service is going down.
        let _ = engine.send(Message::Log(vec![Line::warn(line)]));
    };
    Mirrors::start(Box::new(complain)).map_err(|error| Problem::NotStarted { error: error.to_string() })
}

/// Which of the services that use a machine this is: the folder of its node is called so there.
fn service_id(store: &Store) -> Result<String, Problem> {
    let fail = |error: crate::store::StoreError| error.problem();
    if let Some(known) = store.meta("service").map_err(fail)? {
        return Ok(known);
    }
    let id = crate::digest::hex(&format!("{:?} {}", clock::now(), std::process::id()))[..12].to_string();
    store.set_meta("service", &id).map_err(fail)?;
    Ok(id)
}

fn open_copier(engine: mpsc::Sender<Message>) -> Result<Copier, Problem> {
    // The engine is gone: the next service begins anew.
    let sink = move |ended: Ended| drop(engine.send(Message::Copied(ended)));
    Copier::start(Box::new(sink)).map_err(|error| Problem::NotStarted { error: error.to_string() })
}

fn open_notices(
    home: &Home,
    log_dir: &Path,
    host: &str,
    engine: mpsc::Sender<Message>,
) -> Result<(Teller, Notices), Problem> {
    let (engine, log) = (std::sync::Mutex::new(engine), home.service_log());
    let complain = move |line: String| {
        let line = Line::warn(line);
        let sent = engine.lock().expect("nobody panics while they send").send(Message::Log(vec![line.clone()]));
        if sent.is_err() {
            last_words(&log, &[line]);
        }
    };
    let readers = Readers::new(&home.database());
    notify::start(readers, log_dir.to_path_buf(), host, Arc::new(complain))
        .map_err(|error| Problem::NotStarted { error: error.to_string() })
}

/// The engine, which has service.log, is gone.
fn last_words(log: &Path, lines: &[Line]) {
    if let Ok(mut log) = ServiceLog::open(log.to_path_buf(), Limits::NONE) {
        log.write(lines);
    }
}

fn serve(runtime: Runtime, home: Home, parts: Parts, lock: HomeLock, web_socket: Option<TcpListener>) -> ExitCode {
    let (notices, folder) = (parts.notices.clone(), parts.engine.calls.controls.clone());
    let served = runtime.block_on(serve_until_stopped(&home, parts, web_socket));
    let code = served.unwrap_or_else(|problem| say(&StartReport::Failed { problem }, ExitCode::FAILURE));
    let untold: Vec<Line> = notices.end().into_iter().map(Line::warn).collect();
    last_words(&home.service_log(), &untold);
    // Open connections (followers) must not hold the service back.
    runtime.shutdown_background();
    let _ = std::fs::remove_file(folder.path().join(home.socket().file_name().unwrap_or_default()));
    drop(lock);
    code
}

/// An error is one of the start.
async fn serve_until_stopped(home: &Home, parts: Parts, web_socket: Option<TcpListener>) -> Result<ExitCode, Problem> {
    let listener = listen(home, &parts)?;
    let readers = Readers::new(&home.database());
    let state_file = StateFile::keep(parts.reload.state_file(), readers, parts.to_engine.clone(), parts.events.clone());
    let (screen, notes) = (Arc::new(ServiceScreen::new(screens_dir(home))), Arc::new(FileNotes::default()));
    let inbox = Inbox {
        path: parts.jobs_file,
        user_home: user_home(),
        readers: Readers::new(&home.database()),
        engine: parts.to_engine.clone(),
        events: parts.events.clone(),
        notes: notes.clone(),
        reload: parts.reload.clone(),
    };
    let importer = Importer { engine: parts.to_engine.clone(), reload: parts.reload.clone(), home: home.clone() };
    let own = [&home.dir, &parts.log_dir, &inbox.path].map(PathBuf::as_path);
    let watches = Arc::new(Watches::new(importer, Readers::new(&home.database()), &own));
    let app = Arc::new(App {
        web: page(home, &parts.host, &parts.reload, web_socket),
        engine: parts.to_engine.clone(),
        readers: Readers::new(&home.database()),
        events: parts.events,
        readings: parts.readings,
        metrics: parts.metrics,
        home: home.clone(),
        log_dir: parts.log_dir,
        host: parts.host.clone(),
        started_at: clock::now(),
        containment: parts.containment,
        memory_limits: parts.memory_limits,
        screen: screen.clone(),
        reload: parts.reload,
        edits: tokio::sync::Mutex::new(()),
        taking_over: http::Turns::default(),
        near: http::NearFolders::default(),
        notes,
        watches: watches.clone(),
        copier: parts.copier,
        lines: parts.lines,
        notices: parts.notices,
        trouble: parts.engine.trouble.clone(),
        user_home: user_home(),
    });
    watch_files(home, &app);
    let ended = engine_thread(parts.engine)?;
    let (close, closed) = oneshot::channel::<()>();
    begin_beside(&app).await;
    // Made into a service here, not for every connection.
    let router = http::router(app).into_make_service();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { drop(closed.await) });
    let server = tokio::spawn(server.into_future());
    if parts.session == Session::Screen {
        tokio::spawn(show_in_screen(screen, parts.to_engine.clone()));
    }
    tokio::spawn(stop_on_signal(parts.to_engine));
    keep_files(inbox, watches);
    say(&StartReport::Ready { pid: std::process::id() }, ExitCode::SUCCESS);
    let ended = ended.await;
    // The last answers, that of the stop itself among them, still go out.
    drop(close);
    let _ = tokio::time::timeout(LAST_ANSWERS, server).await;
    // The engine panicked: jobs go on, and the next start finds them.
    let Ok(view) = ended else { return Ok(ExitCode::FAILURE) };
    state_file.end(view).await;
    Ok(ExitCode::SUCCESS)
}

/// `jobs.txt`, and files of jobs that are watched.
fn keep_files(inbox: Inbox, watches: Arc<Watches>) {
    tokio::spawn(inbox::keep(inbox));
    tokio::spawn(async move { watches.resume().await });
}

/// What there is beside answers on the socket: the page, and what is deleted by itself.
async fn begin_beside(app: &Arc<App>) {
    begin_web(app).await;
    tokio::spawn(retention::keep(app.clone()));
}

/// The page is where it was. A port that somebody else has now keeps no service down.
async fn begin_web(app: &Arc<App>) {
    if let Some(line) = app.web.begin(http::open_router(app.clone())).await {
        // The engine is gone: the service is going down.
        let _ = app.engine.send(Message::Log(vec![line.into()]));
    }
}

fn page(home: &Home, host: &str, reload: &Arc<Reload>, socket: Option<TcpListener>) -> Web {
    let reload = reload.clone();
    // As it is in force at each call: the configuration may change.
    Web::new(home, host, Arc::new(move || reload.web_session()), socket)
}

/// Where jobs run whose folder goes without saying.
fn user_home() -> String {
    std::env::var("HOME").ok().filter(|home| home.starts_with('/')).unwrap_or_else(|| "/".into())
}

/// On a thread of its own; what was known when it ended comes back.
fn engine_thread(engine: Engine) -> Result<oneshot::Receiver<View>, Problem> {
    let (engine_ended, ended) = oneshot::channel();
    let work = move || {
        turns::shorten();
        let (world, gpus) = engine.run();
        // Whoever waited for it is gone: the process ends anyway.
        let _ = engine_ended.send(View::of(&world, &gpus));
    };
    let started = threads::start("nexus-engine", work);
    started.map(|_| ended).map_err(|error| Problem::NotStarted { error: format!("failed to start a thread: {error}") })
}

fn listen(home: &Home, parts: &Parts) -> Result<OwnerOnly, Problem> {
    let path = home.socket();
    let fail = |error: std::io::Error| Problem::HomeUnusable {
        path: path.display().to_string(),
        error: format!("the socket cannot be made: {error}"),
    };
    // One that is there was left by a service that was killed: the lock is ours.
    let listener = sockets::listen_at(&path).map_err(fail)?;
    let signer = HomeLock::signer(home).map_err(fail)?;
    signer.sign(&path);
    let (moved, here) = unbounded_channel();
    let (home, reports, engine) = (home.clone(), parts.reports.clone(), parts.to_engine.clone());
    let open = OpenSockets { home, folder: parts.engine.calls.controls.clone(), reports, moved, signer, engine };
    if let Err(error) = open.keep() {
        let line = Line::warn(format!("Sockets are not watched: {error}; if they vanish nexus stop ends the service"));
        // The engine is not running yet, and holds the other end.
        let _ = parts.to_engine.send(Message::Log(vec![line]));
    }
    OwnerOnly::new(listener, here).map_err(fail)
}

/// Without a session the service does its work all the same.
async fn show_in_screen(screen: Arc<ServiceScreen>, engine: mpsc::Sender<Message>) {
    if let Err(problem) = screen.open().await {
        // The engine is gone: the service is going down.
        let _ = engine.send(Message::Log(vec![Line::error(problem)]));
    }
}

/// Changes of the configuration count at once, those since it was read included. Changes of the database by others are noticed.
fn watch_files(home: &Home, app: &Arc<App>) {
    let watching = app.clone();
    let changed = move || watching.reload.look();
    if let Err(error) = watch_file::watch(&home.config(), changed) {
        let line = format!("Config is not watched: {error}; nexus config set and nexus restart still take changes");
        // The engine is not running yet, and holds the other end.
        let _ = app.engine.send(Message::Log(vec![Line::warn(line)]));
    }
    app.reload.look();
    http::watch_database(app);
}

/// TERM and INT end the service alone; its jobs go on.
async fn stop_on_signal(engine: mpsc::Sender<Message>) {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    let (reply, _) = oneshot::channel();
    let _ = engine.send(Message::Command {
        command: Command::Stop { kill: false },
        verb: "stop",
        skip_unfit: false,
        reply,
    });
}
