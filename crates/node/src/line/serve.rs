//! `nexus node`: a node on standard input and output. It lives as long as the line; runs go on without it.
//!
//! ```text
//!   home, lock ──> Node, Watcher ──> hello ──> obeys what it reads ──┬ the line ends, HUP, TERM: ends, 0
//!                                                                    └ what cannot be understood: one line, ends, 1
//! ```
//! Standard output carries frames and nothing else. Standard error has one line at most: why it could not go on.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_api::paths::Home;
use nexus_core::ids::RunId;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::channel::{Channels, Side};
use super::client::STACK;
use super::frames::{self, Frame, invalid};
use super::lock::{self, LockError};
use super::outgoing::Outgoing;
use super::starts::{Doer, Starts};
use super::streams::{self, Roots};
use super::words::{FromNode, ToNode};
use super::{about, copies};
use crate::gpu::{Watcher, WatcherConfig};
use crate::node::{Node, NodeError};
use crate::slurm::{self, Submitter};
use crate::socket_watch::{self, BoundFile};
use crate::system_file;
use crate::threads;
use crate::words::NodeConfig;
use crate::{Containment, home, login, processes, signals, socket_folder};

/// More at once no service needs; each is a thread.
const MOST_STREAMS: usize = 256;

/// Of a node that failed by a bug.
const BUG: i32 = 70;

pub struct ServeOptions {
    /// `~/.nexus/nodes/<service id>`; made if need be.
    pub home: PathBuf,
    /// How often the GPUs are looked at, until the service says otherwise.
    pub poll: Duration,
    /// Look at no GPUs: the service makes some up.
    pub simulate: bool,
    /// Submit to Slurm instead of running here.
    pub slurm: Option<slurm::Options>,
    /// Program and arguments that end up in [`crate::launcher::main`].
    pub launcher: Vec<OsString>,
    /// How long the login shell may take to tell its environment.
    pub login_limit: Duration,
}

impl ServeOptions {
    pub fn new(home: PathBuf) -> ServeOptions {
        ServeOptions {
            home,
            poll: Duration::from_secs(5),
            simulate: false,
            slurm: None,
            launcher: vec!["/proc/self/exe".into(), "__launcher".into()],
            login_limit: Duration::from_secs(10),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("cannot use {}: {source}; {}", path.display(), advice(source))]
    Home { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(LockError),
    #[error("{node}: {}", cause(node))]
    Node { node: NodeError },
    #[error("failed to {operation}: {source}")]
    System { operation: &'static str, source: io::Error },
    #[error("cannot understand what the service says: {source}")]
    Line { source: io::Error },
    #[error("the service takes nothing any more")]
    Stuck,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space there, or choose another folder",
        _ => "choose another folder, one that this user can write to",
    }
}

fn cause(error: &NodeError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

/// Serves one line until it ends.
pub fn main(options: ServeOptions) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        say(&format!("this is a bug: {panic}"));
        std::process::exit(BUG);
    }));
    match serve(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn say(words: &str) {
    // Whoever listened is gone.
    let _ = writeln!(io::stderr(), "nexus node: {}", words.replace('\n', " "));
}

/// What the threads of a node share.
struct Shared {
    outgoing: Arc<Outgoing>,
    channels: Arc<Channels>,
    starts: Starts,
    watcher: Option<Watcher>,
    roots: Roots,
}

/// Why the node is to end, and what wakes the thread that ends it.
struct Ending {
    wake: OwnedFd,
    why: Mutex<Option<ServeError>>,
}

impl Ending {
    fn begin(&self, why: Option<ServeError>) {
        if let Some(why) = why {
            self.why.lock().expect("a plain value").get_or_insert(why);
        }
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

fn serve(options: ServeOptions) -> Result<(), ServeError> {
    let system = |operation| move |source: io::Error| ServeError::System { operation, source };
    let (input, mut output) = take_over_line().map_err(system("take over standard input and output"))?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| system("make an eventfd")(errno.into()))?;
    signals::wake_on_end(wake.try_clone().map_err(system("make an eventfd"))?);
    let ending = Arc::new(Ending { wake, why: Mutex::default() });
    let boot_id = processes::boot_id().map_err(system("read which boot of the machine this is"))?;
    let home = open_home(&options.home, options.slurm.is_some())?;
    // The home is an absolute path by now; no other folder is held for as long as the node lives.
    std::env::set_current_dir("/").map_err(system("leave its folder"))?;
    let lock = lock::take(&home.dir.join("node.lock"), &boot_id).map_err(|error| match error {
        LockError::File { path, source, .. } => ServeError::Home { path, source },
        held => ServeError::Lock(held),
    })?;
    let home = socket_folder::make(&home).map_err(|source| ServeError::Home { path: home.dir.clone(), source })?;
    let outgoing = Arc::new(Outgoing::default());
    let (doer, containment) = open_doer(&home, &options, lock, &outgoing, &ending)?;
    let hello = about::hello(&home, &containment, &boot_id);
    let hello = frames::message(&FromNode::Hello(Box::new(hello))).map_err(system("say who it is"))?;
    let tells = sink(&outgoing, &ending, |told| told);
    let readings = sink(&outgoing, &ending, FromNode::Gpus);
    let shared = Arc::new(Shared {
        channels: Channels::new(outgoing.clone(), Side::Node),
        outgoing,
        starts: Starts::new(doer, home.code(), tells),
        watcher: (!options.simulate && options.slurm.is_none())
            .then(|| Watcher::start(WatcherConfig { poll: options.poll }, readings)),
        roots: Roots(vec![home.default_log_dir(), home.checkpoints(), home.results()]),
    });
    let first = [frames::MAGIC, &hello].concat();
    let (ended, writing) = (ending.clone(), shared.clone());
    spawn("nexus-line-out", move || {
        // The line is lost, and that is told to nobody.
        let _ = output.write_all(&first).and_then(|()| writing.outgoing.write(output));
        ended.begin(None);
    })?;
    let (ended, reading) = (ending.clone(), shared.clone());
    spawn("nexus-line-in", move || {
        ended.begin(reading.obey(input).err().map(|source| ServeError::Line { source }));
    })?;
    let (ended, knowing) = (ending.clone(), shared.clone());
    spawn("nexus-login", move || knowing.log_in(options.login_limit, &ended))?;
    // Jobs that wait in Slurm's queue begin by the copy that they were submitted with.
    if options.slurm.is_none() {
        spawn("nexus-copies", copies::clear_old)?;
    }
    wait_for(&ending.wake);
    shared.starts.close();
    ending.why.lock().expect("a plain value").take().map_or(Ok(()), Err)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), ServeError> {
    let spawned = threads::start_with_stack(name, STACK, work);
    spawned.map(drop).map_err(|source| ServeError::System { operation: "start a thread", source })
}

fn wait_for(wake: &OwnedFd) {
    while poll(&mut [PollFd::new(wake, PollFlags::IN)], None) != Ok(1) {}
}

/// What is reported goes to the service, for as long as it takes it.
fn sink<T: 'static>(
    outgoing: &Arc<Outgoing>,
    ending: &Arc<Ending>,
    word: fn(T) -> FromNode,
) -> Box<dyn Fn(T) + Send + Sync> {
    let (outgoing, ending) = (outgoing.clone(), ending.clone());
    Box::new(move |told| tell(&outgoing, &ending, &word(told)))
}

fn tell(outgoing: &Outgoing, ending: &Ending, message: &FromNode) {
    let sent = frames::message(message).is_ok_and(|frame| outgoing.send(frame).is_ok());
    if !sent {
        ending.begin(Some(ServeError::Stuck));
    }
}

/// Keeps the line to itself: what else reads or prints here has nothing to read and prints nowhere.
fn take_over_line() -> io::Result<(File, File)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let null = system_file::null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok((input, output))
}

/// `is_shared`: what lies in it is for other machines too.
fn open_home(folder: &Path, is_shared: bool) -> Result<Home, ServeError> {
    let found = if is_shared { home::shared_home(folder) } else { home::node_home(folder) };
    let home = found.map_err(|error| ServeError::Home { path: folder.to_owned(), source: io::Error::other(error) })?;
    make_private(&home.dir).map_err(|source| ServeError::Home { path: home.dir.clone(), source })?;
    Ok(home)
}

/// A folder that only its owner can enter.
fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let about = std::fs::metadata(dir)?;
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if about.mode() & 0o077 != 0 {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700))?;
    }
    Ok(())
}

/// The part that runs jobs: on this machine, or by Slurm.
fn open_doer(
    home: &Home,
    options: &ServeOptions,
    lock: File,
    outgoing: &Arc<Outgoing>,
    ending: &Arc<Ending>,
) -> Result<(Doer, Containment), ServeError> {
    if let Some(slurm) = &options.slurm {
        let tell: Arc<dyn Fn(slurm::Said) + Send + Sync> = Arc::from(sink(outgoing, ending, |said| match said {
            slurm::Said::Report(report) => FromNode::Report(report),
            slurm::Said::News(news) => FromNode::Slurm(news),
        }));
        let submitter = Submitter::start(&home.dir, slurm.clone(), lock, tell)
            .map_err(|source| ServeError::System { operation: "open the folder for Slurm", source })?;
        return Ok((Doer::Cluster(submitter), Containment::Session));
    }
    let config = NodeConfig {
        reports: home.reports(),
        launcher: options.launcher.clone(),
        cgroups: true,
        guard: Some(lock.into()),
        shim_patience: NodeConfig::usual_shim_patience(),
    };
    let node =
        Node::open(config, sink(outgoing, ending, FromNode::Report)).map_err(|node| ServeError::Node { node })?;
    keep_socket(home, &node).map_err(|source| ServeError::System { operation: "watch its socket", source })?;
    let containment = node.containment();
    Ok((Doer::Machine(node), containment))
}

/// Makes the socket again when it vanishes.
fn keep_socket(home: &Home, node: &Node) -> io::Result<()> {
    let (reports, made) = (node.reports(), BoundFile::at(&home.reports())?);
    let home = home.clone();
    socket_watch::keep(vec![made], move || {
        let home = socket_folder::make(&home)?;
        reports.listen_at(&home.reports())?;
        Ok(vec![BoundFile::at(&home.reports())?])
    })
}

impl Shared {
    fn log_in(&self, limit: Duration, ending: &Ending) {
        let (variables, error) = login::read(limit);
        tell(&self.outgoing, ending, &FromNode::LoginEnv { error });
        self.starts.know(variables);
    }

    /// Does what it reads until the line ends. Never waits for anything else.
    fn obey(&self, input: File) -> io::Result<()> {
        let mut line = BufReader::new(input);
        while let Some(frame) = frames::read::<ToNode>(&mut line)? {
            match frame {
                Frame::Bytes { channel, bytes } => self.channels.arrived(channel, &bytes)?,
                Frame::Message(message) => self.do_it(message)?,
            }
        }
        Ok(())
    }

    fn do_it(&self, message: ToNode) -> io::Result<()> {
        match message {
            ToNode::Start { runs } => {
                if let Some(bad) = runs.iter().find(|spec| spec.run.parse::<RunId>().is_err()) {
                    return Err(invalid(format!("{:?} is no run", bad.run)));
                }
                self.starts.start(runs);
            }
            ToNode::Observe { runs } => self.starts.observe(runs),
            ToNode::Stop { runs } => self.starts.stop(runs),
            ToNode::Terms { runs } => self.starts.know_terms(runs),
            ToNode::CodeSent { content, error } => self.starts.code_came(&content, error),
            ToNode::Clear { runs, leftovers } => self.starts.clear(runs, leftovers),
            ToNode::Poll { every_ms, now } => {
                if let Some(watcher) = &self.watcher {
                    watcher.set_poll(Duration::from_millis(every_ms.max(1)));
                    if now {
                        watcher.look_now();
                    }
                }
            }
            ToNode::AwaitLocks { uuids } => {
                if let Some(watcher) = &self.watcher {
                    watcher.await_locks(uuids);
                }
            }
            ToNode::Ping { at_ms: asked_at_ms } => {
                let pong = FromNode::Pong { asked_at_ms, at_ms: about::now_ms() };
                self.outgoing.send(frames::message(&pong)?).map_err(|_| invalid("it takes no answers".into()))?;
            }
            ToNode::Open { channel, stream } => {
                let channel = self.channels.accept(channel)?;
                match self.channels.count() > MOST_STREAMS {
                    true => channel.finish(Some(format!("the node has {MOST_STREAMS} streams already"))),
                    false => streams::begin(channel, stream, &self.roots),
                }
            }
            ToNode::Grant { channel, bytes } => self.channels.granted(channel, bytes)?,
            ToNode::Close { channel } => self.channels.closed(channel, None)?,
        }
        Ok(())
    }
}
