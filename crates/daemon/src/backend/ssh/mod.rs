//! A machine over ssh: a thread that calls it, keeps the line, and calls again when that is lost.
//!
//! ```text
//!   connecting ──> up ──> lost ──> waits, longer each time ──┐
//!       ^└── trouble ────────────> (much longer if it lasts) ─┤
//!       └───────────────────────────────────────────────────┘
//! ```
//! Nothing that runs there depends on the line. Times of the machine's clock are told by this one's.

pub mod address;
pub mod binary;
mod code;
mod contact;
mod gate;
mod reached;
pub mod trouble;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nexus_api::paths::fingerprint;
use nexus_api::run_dir::ExitRecord;
use nexus_node::Report;
use nexus_node::gpu::Reading;
use nexus_node::line::{Channel, FromNode, Heard, Hello, Line, Stream, ToNode};
use nexus_node::slurm::{Options, SlurmNews};
use nexus_node::socket_folder::CurrentFolder;
use nexus_node::threads;

use crate::clock;
use address::Address;
use binary::Binary;
use code::Shipment;
pub use contact::Step;
use contact::{Contact, Order, contact};
use gate::Gate;
pub use reached::Reached;
use trouble::Trouble;

/// A node says hello at once; a slow disk is waited for.
const HELLO: Duration = Duration::from_secs(30);

/// Between two looks whether the other end is still there.
const PING: Duration = Duration::from_secs(10);

/// Unanswered for so long, the line counts as lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// The waits before a machine is called again: they double from the first to the last.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);

/// Where something has to be done there or here first.
const FIRST_WAIT_LASTING: Duration = Duration::from_secs(30);
const LAST_WAIT_LASTING: Duration = Duration::from_secs(300);

/// ssh puts a further 17 bytes behind it, and a socket's path has 108.
const LONGEST_CONTROL: usize = 90;

/// Enough of everything these threads do.
const STACK: usize = 256 << 10;

/// What is heard of a machine.
pub enum News {
    /// On the way to it.
    Step(Step),
    Up {
        hello: Box<Hello>,
        round_trip: Duration,
    },
    Report(Report),
    Gpus(Reading),
    Slurm(SlurmNews),
    /// The login environment cannot be had there: jobs have what the node has.
    NoLoginEnv(String),
    Down {
        trouble: Trouble,
        again_in: Duration,
    },
}

/// Called by threads of a machine; must not block.
pub type Sink = Arc<dyn Fn(News) + Send + Sync>;

/// What is asked of the thread that keeps the line.
enum Ask {
    /// Somebody thinks that it would work now.
    CallNow,
    End,
    Heard(FromNode),
    Lost(String),
}

/// A machine over ssh. Dropped, its line is closed; what runs there goes on.
#[derive(Clone)]
pub struct Remote {
    inner: Arc<Inner>,
}

struct Inner {
    asks: Mutex<Sender<Ask>>,
    line: Arc<Mutex<Option<Arc<Line>>>>,
    hello: Arc<Mutex<Option<Arc<Hello>>>>,
}

/// Further arguments of ssh, as they are configured at the moment.
#[derive(Clone, Debug, Default)]
pub struct SshArgs(Arc<Mutex<Vec<String>>>);

impl SshArgs {
    pub fn set(&self, args: &[String]) {
        *locked(&self.0) = args.to_vec();
    }

    fn get(&self) -> Vec<String> {
        locked(&self.0).clone()
    }
}

/// How a machine is to be reached.
#[derive(Clone, Debug)]
pub struct Way {
    /// What it is called here.
    pub name: String,
    pub reached: Reached,
    /// None for the service's own host, where a cluster's programs are.
    pub address: Option<Address>,
    pub ssh_args: SshArgs,
    /// A folder for the sockets of connections that are shared; its path is short.
    pub controls: CurrentFolder,
    pub home: Option<String>,
    /// Of this service, so that several may use one machine.
    pub service: String,
    /// Where the code of jobs is kept here.
    pub snapshots: PathBuf,
    pub simulated: bool,
    /// What runs are submitted with, where it is a cluster.
    pub slurm: Option<Options>,
    /// How often its GPUs are looked at.
    pub poll: Duration,
}

impl Remote {
    pub fn call(way: Way, sink: Sink) -> io::Result<Remote> {
        let (sender, asks) = channel();
        let (line, hello) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
        let (to_self, offset_ms) = (sender.clone(), Arc::default());
        let caller = Caller { way, sink, line: line.clone(), hello: hello.clone(), asks, to_self, offset_ms };
        threads::start_with_stack("nexus-ssh", STACK, move || caller.run())?;
        Ok(Remote { inner: Arc::new(Inner { asks: Mutex::new(sender), line, hello }) })
    }

    /// Says something, if there is a line. Without one it is as if it was lost on the way.
    pub fn send(&self, what: &ToNode) {
        if let Some(line) = self.line() {
            line.send(what);
        }
    }

    pub fn open(&self, stream: Stream) -> io::Result<Channel> {
        self.line().ok_or_else(no_line)?.open_stream(stream)
    }

    pub fn open_terminal(&self, dir: PathBuf) -> io::Result<Channel> {
        self.line().ok_or_else(no_line)?.open_terminal(&dir)
    }

    /// What it said of itself, once it was reached.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        locked(&self.inner.hello).clone()
    }

    /// Calls at once, where it would wait.
    pub fn call_now(&self) {
        self.ask(Ask::CallNow);
    }

    fn ask(&self, ask: Ask) {
        let asks = self.inner.asks.lock().expect("nobody panics while they send");
        // Its thread has ended: so has the line.
        let _ = asks.send(ask);
    }

    fn line(&self) -> Option<Arc<Line>> {
        locked(&self.inner.line).clone()
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Remote")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Ok(asks) = self.asks.lock() {
            let _ = asks.send(Ask::End);
        }
    }
}

fn no_line() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "there is no line to it")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it in hand")
}

/// The thread of a machine.
struct Caller {
    way: Way,
    sink: Sink,
    line: Arc<Mutex<Option<Arc<Line>>>>,
    hello: Arc<Mutex<Option<Arc<Hello>>>>,
    asks: Receiver<Ask>,
    to_self: Sender<Ask>,
    /// What its clock is ahead of this one.
    offset_ms: Arc<AtomicI64>,
}

/// Why a call came to its end.
enum Over {
    Trouble(Trouble),
    /// Nobody wants it any more.
    Ended,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.way.reached.release(&self.way.name);
    }
}

impl Caller {
    fn run(self) {
        let mut failures = 0;
        loop {
            let (trouble, was_up) = match self.one_call() {
                (Over::Ended, _) => return,
                (Over::Trouble(trouble), was_up) => (trouble, was_up),
            };
            failures = if was_up { 0 } else { failures + 1 };
            let again_in = wait_after(&trouble, failures);
            (self.sink)(News::Down { trouble, again_in });
            if !self.rest(again_in) {
                return;
            }
        }
    }

    /// False where nobody wants it any more.
    fn rest(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        loop {
            match self.asks.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Ask::CallNow) | Err(RecvTimeoutError::Timeout) => return true,
                Ok(Ask::End) | Err(RecvTimeoutError::Disconnected) => return false,
                // Late words of a line that is gone.
                Ok(Ask::Heard(_) | Ask::Lost(_)) => {}
            }
        }
    }

    /// From the first ring to the end of the line, and whether it was up.
    fn one_call(&self) -> (Over, bool) {
        let binary = match Binary::own() {
            Ok(binary) => binary,
            Err(error) => {
                return (Over::Trouble(Trouble::passing(format!("failed to read nexus itself: {error}"))), false);
            }
        };
        let told = std::cell::Cell::new(None);
        let step = |step: Step| {
            // Not every piece that was sent is news.
            if told.replace(Some(step.percent())) != Some(step.percent()) {
                (self.sink)(News::Step(step));
            }
        };
        let Contact { mut ssh, reader, writer } = match contact(&self.order(), binary, &step) {
            Ok(contact) => contact,
            Err(trouble) => return (Over::Trouble(trouble), false),
        };
        let gate = Arc::new(Gate::new(self.sink.clone()));
        let line = Arc::new(Line::open(reader, writer, self.listener(gate.clone())));
        let (over, was_up) = match self.greeted(&line) {
            Ok((hello, round_trip)) => {
                let code = hello.code.clone();
                *locked(&self.line) = Some(line.clone());
                *locked(&self.hello) = Some(Arc::new((*hello).clone()));
                gate.open(News::Up { hello, round_trip });
                (self.keep(&line, &code), true)
            }
            Err(over) => (over, false),
        };
        gate.close();
        self.forget_words();
        *locked(&self.line) = None;
        line.close();
        let over = match over {
            Over::Trouble(trouble) if trouble.hint.is_none() => {
                let said = ssh.last_words();
                let place = self.order().place();
                Over::Trouble(if said.trim().is_empty() { trouble } else { Trouble::read(&said, &place) })
            }
            over => over,
        };
        ssh.kill();
        (over, was_up)
    }

    /// Words of a line that is over must not be taken for those of the next. What somebody wants is kept.
    fn forget_words(&self) {
        let wishes: Vec<Ask> = self.asks.try_iter().filter(|ask| matches!(ask, Ask::CallNow | Ask::End)).collect();
        for wish in wishes {
            // This very thread has the other end.
            let _ = self.to_self.send(wish);
        }
    }

    fn order(&self) -> Order {
        let Way { address, ssh_args, controls, home, service, simulated, slurm, .. } = self.way.clone();
        let shared = |address: &Address| {
            let control = controls.path().join(format!("c{:016x}", fingerprint(address.to_string().as_ref())));
            Some(control).filter(|path| path.as_os_str().len() < LONGEST_CONTROL)
        };
        let control = address.as_ref().and_then(shared);
        let slurm = slurm.map(|options| serde_json::to_string(&options).expect("options are plain data"));
        let slurm = slurm.into_iter().flat_map(|options| ["--slurm".to_string(), options]);
        let node_args = simulated.then(|| "--simulate-gpus".to_string()).into_iter().chain(slurm).collect();
        Order { address, ssh_args: ssh_args.get(), control, home, service, node_args }
    }

    /// Reports and readings go to the engine, through the gate of this line; the rest is for the calling thread.
    fn listener(&self, gate: Arc<Gate>) -> Box<dyn Fn(Heard) + Send + Sync> {
        let offset = self.offset_ms.clone();
        let to_self = Mutex::new(self.to_self.clone());
        let tell = move |ask| {
            let to_self = to_self.lock().expect("nobody panics while they send");
            // Its thread has ended: so has the line.
            let _ = to_self.send(ask);
        };
        Box::new(move |heard| match heard {
            Heard::Said(FromNode::Report(report)) => {
                gate.pass(News::Report(by_our_clock(report, offset.load(Ordering::Relaxed))));
            }
            Heard::Said(FromNode::Gpus(reading)) => gate.pass(News::Gpus(reading)),
            Heard::Said(FromNode::Slurm(news)) => gate.pass(News::Slurm(news)),
            Heard::Said(FromNode::LoginEnv { error: Some(error) }) => gate.pass(News::NoLoginEnv(error)),
            Heard::Said(said) => {
                if let FromNode::Hello(hello) = &said {
                    offset.store(hello.at_ms - clock::now().0, Ordering::Relaxed);
                }
                gate.tell_caller(|| tell(Ask::Heard(said)));
            }
            Heard::Lost(why) => gate.tell_caller(|| tell(Ask::Lost(why))),
        })
    }

    /// The node's first word, and what the clocks differ by.
    fn greeted(&self, line: &Line) -> Result<(Box<Hello>, Duration), Over> {
        let silent = || Over::Trouble(Trouble::passing("nexus was started there and says nothing"));
        let until = Instant::now() + HELLO;
        let hello = loop {
            match self.next(until) {
                Some(Ask::Heard(FromNode::Hello(hello))) => break hello,
                Some(Ask::End) => return Err(Over::Ended),
                Some(Ask::Lost(why)) => return Err(Over::Trouble(Trouble::passing(why))),
                Some(_) => {}
                None => return Err(silent()),
            }
        };
        line.send(&ToNode::Poll { every_ms: self.way.poll.as_millis() as u64, now: false });
        line.send(&ToNode::Ping { at_ms: clock::now().0 });
        let asked = Instant::now();
        loop {
            match self.next(until) {
                Some(Ask::Heard(FromNode::Pong { asked_at_ms, at_ms })) => {
                    let round_trip = asked.elapsed();
                    let middle = asked_at_ms + round_trip.as_millis() as i64 / 2;
                    self.offset_ms.store(at_ms - middle, Ordering::Relaxed);
                    return self.is_the_only_name(&hello).map(|()| (hello, round_trip));
                }
                Some(Ask::End) => return Err(Over::Ended),
                Some(Ask::Lost(why)) => return Err(Over::Trouble(Trouble::passing(why))),
                Some(_) => {}
                None => return Err(silent()),
            }
        }
    }

    fn is_the_only_name(&self, hello: &Hello) -> Result<(), Over> {
        let name = &self.way.name;
        self.way.reached.claim(name, hello).map_err(|other| {
            let why = format!("it is the machine {other} under another name");
            Over::Trouble(Trouble::lasting(why, format!("nexus machine rm {name}, or --home DIR to have both")))
        })
    }

    fn next(&self, until: Instant) -> Option<Ask> {
        match self.asks.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(ask) => Some(ask),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Ask::End),
        }
    }

    /// Until the line is lost, or nobody wants it any more.
    fn keep(&self, line: &Arc<Line>, code: &Path) -> Over {
        let mut answered = Instant::now();
        loop {
            match self.next(Instant::now() + PING) {
                Some(Ask::Heard(FromNode::Pong { .. })) => answered = Instant::now(),
                Some(Ask::Heard(FromNode::WantCode { content, beside })) => {
                    let (snapshots, to) = (self.way.snapshots.clone(), code.to_owned());
                    self.send_code(line.clone(), Shipment { snapshots, to, content, beside });
                }
                Some(Ask::Lost(why)) => return Over::Trouble(Trouble::passing(why)),
                Some(Ask::End) => return Over::Ended,
                Some(Ask::Heard(_) | Ask::CallNow) => {}
                None if answered.elapsed() > PATIENCE => {
                    return Over::Trouble(Trouble::passing("it does not answer any more"));
                }
                None => line.send(&ToNode::Ping { at_ms: clock::now().0 }),
            }
        }
    }
}

impl Caller {
    /// Beside all else that goes over the line.
    fn send_code(&self, line: Arc<Line>, shipment: Shipment) {
        let (order, content) = (self.order(), shipment.content.clone());
        let answer = line.clone();
        let send = move || {
            let error = code::send(&order, &shipment).err();
            line.send(&ToNode::CodeSent { content: shipment.content, error });
        };
        if let Err(error) = threads::start_with_stack("nexus-code", STACK, send) {
            let error = Some(format!("its code cannot be sent: {error}"));
            answer.send(&ToNode::CodeSent { content, error });
        }
    }
}

/// How long a machine is left alone after trouble, the `failures`th in a row.
fn wait_after(trouble: &Trouble, failures: u32) -> Duration {
    let (first, last) = match trouble.lasts {
        true => (FIRST_WAIT_LASTING, LAST_WAIT_LASTING),
        false => (FIRST_WAIT, LAST_WAIT),
    };
    (first * 2u32.saturating_pow(failures.saturating_sub(1).min(16))).min(last)
}

fn by_our_clock(report: Report, offset_ms: i64) -> Report {
    match report {
        Report::Started { run, pid, at_ms } => Report::Started { run, pid, at_ms: at_ms - offset_ms },
        Report::Ended { run, record } => {
            let started_at_ms = record.started_at_ms.map(|at| at - offset_ms);
            let record = ExitRecord { started_at_ms, ended_at_ms: record.ended_at_ms - offset_ms, ..record };
            Report::Ended { run, record }
        }
        report => report,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_called_again_less_and_less_often() {
        let wait = |lasts, failures| wait_after(&Trouble { lasts, ..Trouble::passing("x") }, failures).as_secs();
        assert_eq!([0, 1, 2, 3, 7, 100].map(|failures| wait(false, failures)), [1, 1, 2, 4, 60, 60]);
        assert_eq!([1, 2, 9].map(|failures| wait(true, failures)), [30, 60, 300]);
    }

    #[test]
    fn times_are_told_by_the_clock_of_the_service() {
        let run = "abc.1".parse().unwrap();
        let report = by_our_clock(Report::Started { run, pid: 1, at_ms: 5_000 }, -1_000);
        assert_eq!(report, Report::Started { run, pid: 1, at_ms: 6_000 });
    }
}
