//! The shim: the one process that watches a run. It outlives service and launcher, owns the job's terminal, keeps
//! its output and its time limit, ends it when asked (SIGTERM), and writes down how it ended.
//!
//! ```text
//!   lock, `started` ──> fork, exec ──> watch until no process is left ──> message, exit.json ──> exit
//!      └ taken by another: exit silently
//! ```
//! One thread, no runtime; it sleeps in poll(2) until something happens.

mod failure;
mod finds;
mod folder;
mod limits;
mod oom;
mod output;
mod own_folder;
mod process;
mod ready;
mod report;
mod script;
mod session;
mod spawn;
mod terminal;
mod time_limit;
mod title;
mod tree;
mod variables;
mod viewer;
mod viewers;
mod waiting;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nexus_api::results::Found;
use nexus_api::run_dir::{Cause, ExitRecord, ExitStatus, FENCED, FORMAT, RunSpec, SPARE_FOLDERS, ShimMessage, Started};
use nexus_api::variables::Hidden;
use rustix::event::Timespec;

use self::failure::Failure;
pub use self::folder::link_job;
use self::folder::{Folder, Place};
use self::oom::Evidence;
use self::own_folder::{OwnFolder, Spare};
use self::ready::{Prepared, Ready};
use self::report::{IDLE, Line};
use self::script::Script;
use self::session::Session;
use self::spawn::Child;
use self::time_limit::Limits;
use self::title::Title;
use self::tree::Tree;
use self::waiting::{Wait, Waited};
use self::watch::{CHUNK_BYTES, End, Fence, Watch};
use crate::gpu::locks::{Held, Hold, Locks};
use crate::processes;
use crate::reports::Next;
use crate::signals::Signals;

/// Whoever heard of an end decides on the next run first, perhaps on this very processor: what is left to do here is in nobody's
/// hurry. Where runs are over at once, processors have enough to do.
const MEANWHILE: Duration = Duration::from_micros(100);

/// A service that lives has an end in its database within this time, and a next run, if there is one, on its way.
const SETTLED_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// How long until a record that could not be written is tried again.
const RECORD_AGAIN: Duration = Duration::from_secs(1);

/// What is the same for all shims of a launcher and learned once.
pub struct Known {
    pub title: Title,
    boot_id: String,
    /// Where GPUs are locked. A shim cannot look for it itself: its title lies over the environment.
    locks: Locks,
}

impl Known {
    pub fn learn() -> io::Result<Known> {
        Ok(Known { title: Title::find(), boot_id: processes::boot_id()?, locks: Locks::of_environment() })
    }
}

/// A command that has a process, and what was made for it.
struct Forked {
    ready: Ready,
    child: Child,
    gpus: Held,
    signals: Signals,
    script: Option<Script>,
    session: Option<Session>,
    start: Instant,
    started: Started,
}

/// A command that runs, and what its record will say of its beginning.
struct Begun {
    watch: Watch,
    session: Option<Session>,
    started: Started,
    gpus: Held,
    evidence: Evidence,
    /// For checkpoints and for results.
    own_folders: [Option<OwnFolder>; 2],
    script: Option<Script>,
}

/// Lives through one run, and then through those it is handed. Called in a process that was forked for it, with the
/// signals of a shim blocked. The guard is kept until the marker is made, or will never be.
pub fn run(spec: RunSpec, known: &Known, guard: OwnedFd) -> ! {
    // A panic must not unwind into the launcher's loop, of which this process is a copy.
    let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut shim = Shim::begin(known, spec.reports.clone());
        let mut next = Some(Upcoming::ToBegin(Box::new(Prepared::nothing_for(spec)), Some(guard)));
        while let Some(upcoming) = next.take() {
            let watched = match upcoming {
                Upcoming::ToBegin(prepared, guard) => shim.watch(*prepared, guard, || ()),
                Upcoming::Begun(waited) => shim.watch_begun(*waited),
            };
            if let Some(owed) = watched {
                known.title.set(c"nexus-shim", "nexus: between two jobs");
                next = shim.next(owed);
            }
        }
    }));
    // SAFETY: ends this process. Nothing is buffered.
    unsafe { libc::_exit(i32::from(lived.is_err())) }
}

/// Lives through one run in this very process. `taken` is called when the run is this process's to begin.
pub fn watch_here(spec: RunSpec, known: &Known, guard: OwnedFd, taken: impl FnOnce()) {
    let mut shim = Shim::begin(known, spec.reports.clone());
    if let Some(owed) = shim.watch(Prepared::nothing_for(spec), Some(guard), taken) {
        owed.write(&mut shim.line);
    }
}

/// What a shim does next.
enum Upcoming {
    ToBegin(Box<Prepared>, Option<OwnedFd>),
    Begun(Box<Waited>),
}

/// A record that nobody may need: the end was told, and a service that has it in its database says so.
struct Owed {
    folder: Folder,
    record: ExitRecord,
}

impl Owed {
    /// Writes it, however long the disk takes to be writable again.
    fn write(&self, line: &mut Line) {
        while self.folder.write_record(&self.record).is_err() && !self.folder.is_gone() {
            // Whatever was handed to this process would wait.
            line.close();
            std::thread::sleep(RECORD_AGAIN);
            line.tell(&ShimMessage::Ended(self.record.clone()));
        }
    }
}

/// What a shim has beside its run.
struct Shim<'a> {
    known: &'a Known,
    /// None while a run has them.
    signals: Option<io::Result<Signals>>,
    line: Line,
    /// What the run before made and did not need: see [`SPARE_FOLDERS`].
    spare: [Option<Spare>; 2],
    terminals: terminal::Spare,
    /// For what is read from jobs.
    buffer: Vec<u8>,
    /// When this process began, as the kernel counts.
    start: u64,
}

impl Shim<'_> {
    fn begin(known: &Known, reports: PathBuf) -> Shim<'_> {
        let signals = Some(Signals::open());
        let _ = rustix::process::setsid();
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let start = processes::stat(std::process::id()).map_or(0, |stat| stat.process.start);
        Shim {
            known,
            signals,
            line: Line::to(reports),
            spare: [None, None],
            terminals: terminal::Spare::default(),
            buffer: vec![0; CHUNK_BYTES],
            start,
        }
    }

    /// Returns what is left to do if this process is fit for another run.
    fn watch(&mut self, prepared: Prepared, guard: Option<OwnedFd>, taken: impl FnOnce()) -> Option<Owed> {
        let Prepared { spec, made } = prepared;
        // Before the marker: whoever holds one says so.
        self.known.title.set(c"nexus-shim", &format!("nexus: job {}", spec.run));
        let (place, ready) = made.unzip();
        let folder = place.map_or_else(|| Folder::take(&spec.dir), Place::begin);
        drop(guard);
        let folder = match folder {
            Ok(Some(folder)) => folder,
            Ok(None) => return None,
            Err(source) => {
                let failure = Failure::MachineFile { operation: "prepare", path: spec.dir, source };
                self.line.tell(&ShimMessage::Ended(unstarted(&spec.run, &failure, &spec.hidden)));
                return None;
            }
        };
        taken();
        if let Some(link) = &spec.project_link {
            link_job(link);
        }
        let forked = self.fork(&spec, ready, &folder);
        self.watch_forked(forked, spec, folder)
    }

    /// The same of a run that has begun while this process waited.
    fn watch_begun(&mut self, Waited { spec, folder, forked }: Waited) -> Option<Owed> {
        self.known.title.set(c"nexus-shim", &format!("nexus: job {}", spec.run));
        if let Some(link) = &spec.project_link {
            link_job(link);
        }
        self.watch_forked(Ok(forked), spec, folder)
    }

    fn watch_forked(&mut self, forked: Result<Forked, Failure>, spec: RunSpec, folder: Folder) -> Option<Owed> {
        let begun = forked.and_then(|forked| begun(forked, &spec, &folder));
        let of = Of::from(spec);
        match begun {
            Ok(begun) => see_through(begun, &of, folder, self),
            Err(failure) => {
                let record = unstarted(&of.run, &failure, &of.hidden);
                self.line.tell(&ShimMessage::Ended(record.clone()));
                if folder.write_record(&record).is_err() {
                    folder.withdraw();
                }
                None
            }
        }
    }

    /// The next run, if there is one soon. What is owed is written as soon as it may be needed.
    fn next(&mut self, owed: Owed) -> Option<Upcoming> {
        self.terminals = terminal::Spare::make();
        let (mut owed, mut announced) = (Some(owed), None);
        loop {
            let patience = if owed.is_some() { &SETTLED_WITHIN } else { &IDLE };
            let came = self.line.next(patience);
            if let Some((Next::Announced(spec), _)) = came {
                let prepared = self.prepare(spec);
                match self.await_word(prepared, &mut owed) {
                    Wait::Begun(waited) => return Some(Upcoming::Begun(waited)),
                    Wait::InVain(prepared) => announced = Some(prepared),
                }
                continue;
            }
            let is_settled = matches!(&came, Some((Next::Begin { last_settled: true, .. }, _)));
            if let Some(owed) = owed.take().filter(|_| !is_settled) {
                if owed.folder.write_record(&owed.record).is_err() {
                    // Before the line closes: whoever is to begin that run then finds its directory free.
                    drop(announced);
                    owed.write(&mut self.line);
                    return None;
                }
                if came.is_none() {
                    continue;
                }
            }
            let (Next::Begin { spec, .. }, guard) = came? else { continue };
            let prepared = spec.map(Prepared::nothing_for).map(Box::new).or(announced)?;
            return Some(Upcoming::ToBegin(prepared, guard));
        }
    }
}

/// What of a run's spec counts to the end.
struct Of {
    run: String,
    shell: bool,
    hidden: Vec<Hidden>,
}

impl From<RunSpec> for Of {
    fn from(spec: RunSpec) -> Of {
        Of { run: spec.run, shell: spec.shell, hidden: spec.hidden }
    }
}

impl Shim<'_> {
    /// Who watches the run. Of its command nothing is known yet.
    fn watching(&self, spec: &RunSpec) -> Started {
        Started {
            format: FORMAT,
            run: spec.run.clone(),
            shim_pid: std::process::id(),
            shim_start: self.start,
            boot_id: self.known.boot_id.clone(),
            pid: 0,
            started_at_ms: 0,
            started_ticks: 0,
            grace_ms: Some(spec.grace_ms),
            cgroup: None,
            terminal: None,
            screen: None,
        }
    }

    /// Where GPUs cannot be locked jobs run all the same: `doctor` tells of such a folder.
    fn hold_gpus(&self, spec: &RunSpec) -> Result<Held, Failure> {
        let how = if spec.gpu_locks_shared { Hold::Shared } else { Hold::Alone };
        self.known.locks.hold(&spec.gpu_locks, how).map_err(Failure::GpuTaken)
    }

    /// Starts the command. Whatever goes wrong, no process is left.
    fn fork(&mut self, spec: &RunSpec, ready: Option<Ready>, folder: &Folder) -> Result<Forked, Failure> {
        let signals = self.signals.take().unwrap_or_else(Signals::open).map_err(Failure::machine("receive signals"))?;
        let gpus = self.hold_gpus(spec)?;
        let mut ready = ready.map_or_else(|| self.ready(spec), Ok)?;
        let script = spec.script.as_deref().map(|text| Script::write(folder.path(), text)).transpose()?;
        let session = spec.screen.as_ref().map(|wanted| Session::open(wanted, spec, &mut ready.viewers)).transpose()?;
        let (start, started_at_ms, started_ticks) = (Instant::now(), now_ms(), processes::ticks());
        let child = ready.command.fork(&ready.streams, &ready.group)?;
        let started = Started {
            pid: child.pid,
            started_at_ms,
            started_ticks,
            cgroup: child.cgroup.clone(),
            terminal: ready.viewers.name.clone(),
            screen: session.as_ref().map(|session| session.told.clone().into()),
            ..self.watching(spec)
        };
        // The blanks it goes over are on the disk already; should it fail all the same, the job runs on and the
        // service has its pid by message.
        let _ = folder.tell(&started);
        Ok(Forked { ready, child, gpus, signals, script, session, start, started })
    }
}

/// Hears that it has become the command.
fn begun(forked: Forked, spec: &RunSpec, folder: &Folder) -> Result<Begun, Failure> {
    let Forked { ready, mut child, gpus, signals, script, session, start, started } = forked;
    let Ready { output, streams, command, own_folders, finds, viewers, group } = ready;
    let (group, memory) = group.take();
    let tree = Tree::new(group, memory);
    if let Err(failure) = child.executed(&command) {
        child.collect();
        tree.remove_group();
        return Err(failure);
    }
    let limits = Limits::new(spec, start);
    let fence = spec.slurm.as_ref().map(|_| Fence::at(folder.path().join(FENCED)));
    let evidence = Evidence::new(spec, start);
    let (main, sources) = (child.pid, streams.started());
    let watch = Watch { main, signals, sources, output, finds, tree, limits, viewers, fence };
    Ok(Begun { watch, session, started, gpus, evidence, own_folders, script })
}

/// Watches to the end, then says so: by message first, since the disk may be slow. That it began is said before only if
/// it lasts: the end says it too. Returns what is left to do if this process is fit for another run.
fn see_through(mut begun: Begun, of: &Of, folder: Folder, shim: &mut Shim) -> Option<Owed> {
    let Started { pid, started_at_ms, started_ticks, .. } = begun.started;
    let started = ShimMessage::Started(begun.started);
    let mut lasted = false;
    // What is not heard now is heard with the end.
    let tell_start = || (lasted, _) = (true, shim.line.tell(&started));
    let mut end = begun.watch.until_gone(&mut shim.buffer, tell_start);
    // Before the end is told: the next run on these GPUs may be started at once.
    drop(begun.gpus);
    for ((own, name), spare) in begun.own_folders.into_iter().zip(SPARE_FOLDERS).zip(&mut shim.spare) {
        *spare = own.and_then(|own| own.close(&folder.path().join(name)));
    }
    drop(begun.script);
    if let (ExitStatus::Exited { code: code @ (126 | 127) }, true, Cause::Own) = (&end.status, of.shell, end.cause) {
        end.status = unreached(*code, &folder);
    }
    let oom = begun.evidence.judge(&end, begun.watch.tree.memory(), folder.path());
    let End { status, cause, .. } = end;
    let ended_at_ms = now_ms();
    let mut record = ExitRecord {
        format: FORMAT,
        run: of.run.clone(),
        status,
        cause,
        pid: Some(pid),
        started_at_ms: Some(processes::started_by_now(started_at_ms, started_ticks, ended_at_ms)),
        ended_at_ms,
        lost_output_bytes: begun.watch.output.lost(),
        oom,
        found: begun.watch.finds.end(),
    };
    script::hide(&mut record, &of.hidden);
    script::keep_said(folder.path(), &of.hidden);
    let line = &mut shim.line;
    let heard = line.tell(&ShimMessage::Ended(record.clone()));
    let mut reusable = heard && cause == Cause::Own && begun.session.is_none() && begun.watch.fence.is_none();
    if !reusable {
        line.close();
    }
    // Viewers show an end, and a frame is short.
    begun.watch.viewers.end(&ExitRecord { found: Found::default(), ..record.clone() });
    if begun.watch.viewers.are_behind() {
        reusable = false;
        line.close();
    }
    if reusable && lasted {
        std::thread::sleep(MEANWHILE);
    }
    begun.watch.tree.remove_group();
    if !heard {
        // Without a service nobody else removes the group that held this run's, once it is empty.
        begun.watch.tree.remove_base();
    }
    shim.signals = Some(Ok(begun.watch.signals));
    let owed = Owed { folder, record };
    if reusable {
        return Some(owed);
    }
    owed.write(line);
    if !heard {
        // Nobody has it but this directory: a power cut must not undo the rename either.
        owed.folder.sync();
    }
    begun.watch.viewers.see_off();
    if let Some(session) = begun.session {
        session.close();
    }
    None
}

/// The command was not executed: its environment could not be activated, or the shell could not run it.
fn unreached(code: i32, folder: &Folder) -> ExitStatus {
    match folder.take_start_error() {
        Some(error) => ExitStatus::StartError { error, code: None },
        None => ExitStatus::StartError { error: format!("the shell could not run it (exit {code})"), code: Some(code) },
    }
}

/// The record of a run of which nothing began.
fn unstarted(run: &str, failure: &Failure, hidden: &[Hidden]) -> ExitRecord {
    let mut record = ExitRecord {
        format: FORMAT,
        run: run.to_owned(),
        status: failure.into(),
        cause: Cause::Own,
        pid: None,
        started_at_ms: None,
        ended_at_ms: now_ms(),
        lost_output_bytes: 0,
        oom: None,
        found: Found::default(),
    };
    script::hide(&mut record, hidden);
    record
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
