//! A machine, which is a temporary directory, and connections to its node.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use nexus_api::run_dir::{ExitRecord, RunSpec};
use nexus_node::line::serve::{self, ServeOptions};
use nexus_node::line::{Channel, FromNode, Heard, Hello, Line, Stream, ToNode};
use nexus_node::{Report, RunPlace};

use crate::stage::{PATIENCE, id, spec_in, wait_until};

const HOME: &str = "TEST_NODE_HOME";
const LOGIN_LIMIT: &str = "TEST_LOGIN_LIMIT";

/// What `node_entry` does.
pub fn serve() {
    let own = std::env::current_exe().unwrap().into_os_string();
    let arguments = ["launcher_entry", "--exact", "--ignored", "--nocapture", "--test-threads=1"].map(OsString::from);
    let home = PathBuf::from(std::env::var_os(HOME).expect("started by a test"));
    let usual = ServeOptions::new(home);
    let limit = std::env::var(LOGIN_LIMIT).ok().map(|limit| Duration::from_millis(limit.parse().unwrap()));
    let options = ServeOptions {
        simulate: true,
        launcher: [own].into_iter().chain(arguments).collect(),
        login_limit: limit.unwrap_or(usual.login_limit),
        ..usual
    };
    let code = serve::main(options);
    std::process::exit(i32::from(format!("{code:?}") != format!("{:?}", std::process::ExitCode::SUCCESS)));
}

pub struct Machine {
    pub dir: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Machine {
        Machine { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn home(&self) -> PathBuf {
        self.path("nodes/service")
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["node_entry", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(HOME, self.home()).env("NEXUS_GPU_LOCKS", self.path("gpu-locks"));
        command.env("HOME", self.dir.path()).env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.command())
    }

    pub fn connect_with(&self, name: &str, value: &str) -> Connection {
        let mut command = self.command();
        command.env(name, value);
        Connection::open(command)
    }

    /// With so long a limit for the login shell.
    pub fn connect_for(&self, limit_ms: u32, shell: &str) -> Connection {
        let mut command = self.command();
        command.env(LOGIN_LIMIT, limit_ms.to_string()).env("SHELL", shell);
        Connection::open(command)
    }

    pub fn run_dir(&self, run: &str) -> PathBuf {
        self.home().join("logs").join(run)
    }

    pub fn place(&self, run: &str) -> RunPlace {
        RunPlace { run: id(run), dir: self.run_dir(run) }
    }

    /// A shell command in the machine's directory.
    pub fn shell(&self, run: &str, text: &str) -> RunSpec {
        let spec = spec_in(self.dir.path(), run, &["sh", "-c", text]);
        RunSpec { shell: true, dir: self.run_dir(run), ..spec }
    }

    /// A run that ends with this code when it is let go.
    pub fn waiting(&self, run: &str, code: u32) -> RunSpec {
        self.shell(run, &format!("while ! [ -e go ]; do sleep 0.01; done; exit {code}"))
    }

    pub fn let_go(&self) {
        std::fs::write(self.path("go"), "").unwrap();
    }
}

impl Drop for Machine {
    /// No run of a test that failed waits for ever.
    fn drop(&mut self) {
        let _ = std::fs::write(self.path("go"), "");
        std::thread::sleep(Duration::from_millis(30));
    }
}

pub struct Connection {
    pub line: Line,
    pub hello: Hello,
    pub process: Child,
    /// The node's standard input, beside the line.
    pub raw: OwnedFd,
    heard: Receiver<Heard>,
}

impl Connection {
    pub fn open(mut command: Command) -> Connection {
        let mut process = command.spawn().unwrap();
        let (input, output): (ChildStdin, _) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let raw = OwnedFd::from(input);
        let (told, heard) = mpsc::channel();
        let told = Mutex::new(told);
        let writer = File::from(raw.try_clone().unwrap());
        let line = Line::open(output, writer, move |heard| drop(told.lock().unwrap().send(heard)));
        let hello = match heard.recv_timeout(PATIENCE) {
            Ok(Heard::Said(FromNode::Hello(hello))) => *hello,
            other => panic!("{other:?}"),
        };
        Connection { line, hello, process, raw, heard }
    }

    pub fn wait_for<T>(&self, what: &str, mut pick: impl FnMut(&Heard) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        let mut passed = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(heard) = self.heard.recv_timeout(left) else { panic!("no {what}, only {passed:?}") };
            if let Some(found) = pick(&heard) {
                return found;
            }
            passed.push(heard);
        }
    }

    pub fn report<T>(&self, what: &str, mut pick: impl FnMut(&Report) -> Option<T>) -> T {
        self.wait_for(what, |heard| match heard {
            Heard::Said(FromNode::Report(report)) => pick(report),
            _ => None,
        })
    }

    pub fn start_of(&self, run: &str) -> u32 {
        self.report(&format!("start of {run}"), |report| match report {
            Report::Started { run: started, pid, .. } if *started == id(run) => Some(*pid),
            _ => None,
        })
    }

    pub fn end_of(&self, run: &str) -> ExitRecord {
        self.report(&format!("end of {run}"), |report| match report {
            Report::Ended { run: ended, record } if *ended == id(run) => Some(record.clone()),
            Report::StartFailed { .. } | Report::Lost { .. } => panic!("{report:?}"),
            _ => None,
        })
    }

    /// Why the login environment could not be had.
    pub fn wait_for_login(&self) -> Option<String> {
        self.wait_for("login environment", |heard| match heard {
            Heard::Said(FromNode::LoginEnv { error }) => Some(error.clone()),
            _ => None,
        })
    }

    pub fn start(&self, spec: RunSpec) {
        self.line.send(&ToNode::Start { runs: vec![spec] });
    }

    pub fn observe(&self, place: RunPlace) {
        self.line.send(&ToNode::Observe { runs: vec![place] });
    }

    pub fn stop(&self, place: RunPlace) {
        self.line.send(&ToNode::Stop { runs: vec![place] });
    }

    pub fn run(&self, spec: RunSpec) -> ExitRecord {
        let run = spec.run.clone();
        self.start(spec);
        self.end_of(&run)
    }

    /// Answered behind all that was said before.
    pub fn ping(&self, at_ms: i64) {
        self.line.send(&ToNode::Ping { at_ms });
        self.wait_for("pong", |heard| {
            matches!(heard, Heard::Said(FromNode::Pong { asked_at_ms, .. }) if *asked_at_ms == at_ms).then_some(())
        });
    }

    /// Why the line was lost, which is told once.
    pub fn loss(&self) -> String {
        let why = self.wait_for("loss", |heard| match heard {
            Heard::Lost(why) => Some(why.clone()),
            Heard::Said(_) => None,
        });
        assert!(self.heard.recv_timeout(Duration::from_millis(50)).is_err(), "something after the loss");
        why
    }

    /// How the node ended, by itself.
    pub fn code(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("the node to end", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }

    /// What the node leaves: its exit code, and what it had to say.
    pub fn end(mut self) -> (Option<i32>, String) {
        let stderr = self.process.stderr.take();
        self.raw = File::open("/dev/null").unwrap().into();
        self.line.close();
        let code = self.code();
        let mut said = String::new();
        stderr.unwrap().read_to_string(&mut said).unwrap();
        (code, said)
    }

    /// All bytes of a stream.
    pub fn read(&self, stream: Stream) -> std::io::Result<Vec<u8>> {
        read_all(&self.line.open_stream(stream)?)
    }
}

/// Reads a stream to its end, which comes.
pub fn read_all(mut channel: &Channel) -> std::io::Result<Vec<u8>> {
    std::thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        scope.spawn(move || is_done.recv_timeout(PATIENCE).is_err().then(|| channel.close()));
        let mut bytes = Vec::new();
        let read = channel.read_to_end(&mut bytes);
        done.send(()).unwrap();
        read.map(|_| bytes)
    })
}

pub fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
