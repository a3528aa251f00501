//! First contact with a machine. ssh starts a small script in its `sh`, which says whether it has this very nexus, takes
//! it if not, and becomes `nexus node`.
//!
//! ```text
//!   ssh … sh -c SCRIPT ──> TOKEN have ──────────────────────────────────────> frames of the node
//!                     └──> TOKEN want Linux x86_64 <── the binary ── TOKEN ready ──^
//! ```
//! Whatever rc files print stands before the token, which is new each time, and is skipped.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nexus_node::own_file;
use nexus_node::threads;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::address::Address;
use super::binary::Binary;
use super::trouble::Trouble;

/// A machine that lets one in answers within this time; slow rc files included.
const ANSWER: Duration = Duration::from_secs(30);

/// While the binary is sent something moves at least this often.
const STALL: Duration = Duration::from_secs(30);

/// More than that before the token is no rc file's greeting.
const MOST_CHATTER: usize = 1 << 20;

/// What is kept of standard error.
const MOST_SAID: usize = 4 << 10;

/// Bytes of the binary at a time.
const PIECE: usize = 64 << 10;

/// How a machine is reached, and what is wanted there.
#[derive(Clone, Debug)]
pub struct Order {
    /// None for the service's own host, where a cluster's programs are.
    pub address: Option<Address>,
    /// Further arguments of ssh, before ours: where both say something, theirs count.
    pub ssh_args: Vec<String>,
    /// Where others may share the connection, if there is a place for that.
    pub control: Option<PathBuf>,
    /// The folder there; none for `~/.nexus`.
    pub home: Option<String>,
    /// Which of the services that use this machine this is.
    pub service: String,
    /// What the node is told beside.
    pub node_args: Vec<String>,
}

impl Order {
    /// Where it is, for people.
    pub fn place(&self) -> String {
        self.address.as_ref().map_or_else(|| "this host".into(), ToString::to_string)
    }
}

/// A line to a node: its two ends, and the process that holds it.
pub struct Contact {
    pub ssh: Ssh,
    pub reader: Incoming,
    pub writer: ChildStdin,
}

/// The process of ssh. Killed when it is dropped.
pub struct Ssh {
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
    /// Closed when all was said.
    all_said: Receiver<()>,
}

impl Ssh {
    /// What came on standard error, with what is still on its way: an end that says why is often noticed before that.
    pub fn last_words(&self) -> String {
        // What else it started may keep the stream open.
        let _ = self.all_said.recv_timeout(LAST_WORDS);
        String::from_utf8_lossy(&self.said.lock().expect("nobody panics while they add to it")).into_owned()
    }

    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Ssh {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What goes on meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Connecting,
    Sending { done: u64, of: u64 },
    Starting,
}

impl Step {
    /// How far it is.
    pub fn percent(self) -> u64 {
        match self {
            Step::Connecting => 0,
            Step::Sending { done, of } => 1 + (done * 98).checked_div(of).unwrap_or(98),
            Step::Starting => 100,
        }
    }
}

/// Options of ours: nobody is there to type a password, a line that is dead is noticed, and what the user's own
/// configuration forwards is left to their own sessions.
const OPTIONS: &[&str] = &[
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
    "ControlPersist=no",
];

/// For the `sh` there. No single quote in it, since it stands in two of them, and nothing that a csh on the way would
/// change. What its programs complain of is read here, so they do it in English.
const SCRIPT: &str = "T=$1 N=$2 S=$3 H=$4 D=$5 I=$6; shift 6; umask 077; \
say() { printf \"\\n%s %s\\n\" \"$T\" \"$*\"; }; \
fail() { say fail \"$*\"; exit 1; }; \
test -n \"$D\" || D=${HOME:-}/.nexus; \
case $D in /*) ;; *) D=${HOME:-}/$D ;; esac; \
B=$D/bin/$N; \
if test -x \"$B\"; then say have; else \
say want \"$(uname -s)\" \"$(uname -m)\"; \
LC_ALL=C mkdir -p \"$D/bin\" || fail mkdir; \
LC_ALL=C head -c \"$S\" > \"$B.$$\" || { rm -f \"$B.$$\"; fail write; }; \
chmod 700 \"$B.$$\" && \"$B.$$\" node --check \"$H\" || { rm -f \"$B.$$\"; fail check; }; \
mv -f \"$B.$$\" \"$B\" || fail mv; \
say ready; fi; \
exec \"$B\" node --home \"$D/nodes/$I\" \"$@\"";

/// Connects, sends the binary if it is wanted, and starts the node there.
pub fn contact(order: &Order, binary: &Binary, step: &dyn Fn(Step)) -> Result<Contact, Trouble> {
    step(Step::Connecting);
    // Left by a connection that was killed: ssh would not share the new one.
    let _ = order.control.as_ref().map(std::fs::remove_file);
    let token = token();
    let (program, arguments) = match &order.address {
        Some(address) => ("ssh", arguments(order, address, binary, &token)),
        None => ("sh", words(order, binary, &token).split_off(2)),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            Trouble::lasting(format!("{program} cannot be started here: {error}"), "install the OpenSSH client")
        })?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let said = Arc::new(Mutex::new(Vec::new()));
    let (Some(writer), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(Trouble::passing("ssh was started without its streams"));
    };
    let all_said = listen(stderr, said.clone());
    let mut contact = Contact { ssh: Ssh { child, said, all_said }, reader: Incoming::new(stdout), writer };
    match contact.shake_hands(&token, binary, step) {
        Ok(()) => Ok(contact),
        Err(Broken::Trouble(trouble)) => Err(trouble),
        Err(Broken::Ended) => Err(Trouble::read(&contact.ssh.last_words(), &order.place())),
        Err(Broken::Silent) => Err(Trouble {
            why: format!("it let us in and then said nothing for {} s", ANSWER.as_secs()),
            hint: Some(format!("try ssh {} true by hand; an rc file there may hang", order.place())),
            lasts: false,
        }),
    }
}

/// How long an end is waited for that says why.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How shaking hands can fail.
enum Broken {
    Trouble(Trouble),
    /// The line ended: standard error tells why.
    Ended,
    Silent,
}

impl Contact {
    fn shake_hands(&mut self, token: &str, binary: &Binary, step: &dyn Fn(Step)) -> Result<(), Broken> {
        let word = self.reader.word(token)?;
        let machine = match word.split_once(' ') {
            None if word == "have" => {
                step(Step::Starting);
                return Ok(());
            }
            Some(("want", machine)) => machine,
            _ => return Err(Broken::Ended),
        };
        let own = format!("Linux {}", std::env::consts::ARCH);
        if machine != own {
            return Err(Broken::Trouble(Trouble::lasting(
                format!("it is {machine}, and this nexus is for {own}"),
                "run a service of its own there: nexus can only send what it is itself",
            )));
        }
        self.send(binary, step)?;
        step(Step::Starting);
        match self.reader.word(token)?.as_str() {
            "ready" => Ok(()),
            _ => Err(Broken::Ended),
        }
    }

    fn send(&mut self, binary: &Binary, step: &dyn Fn(Step)) -> Result<(), Broken> {
        let unreadable =
            |error: io::Error| Broken::Trouble(Trouble::passing(format!("failed to read nexus itself: {error}")));
        let mut file = own_file::open(&binary.path).map_err(unreadable)?;
        let (mut piece, mut done) = (vec![0; PIECE], 0);
        step(Step::Sending { done, of: binary.size });
        loop {
            let length = file.read(&mut piece).map_err(unreadable)?;
            if length == 0 {
                return Ok(());
            }
            let until = Instant::now() + STALL;
            let mut rest = &piece[..length];
            while !rest.is_empty() {
                wait(&self.writer, PollFlags::OUT, until)?;
                // A pipe that can be written to takes at least this much without blocking.
                let part = rest.len().min(rustix::pipe::PIPE_BUF);
                self.writer.write_all(&rest[..part]).map_err(|_| Broken::Ended)?;
                rest = &rest[part..];
            }
            done += length as u64;
            step(Step::Sending { done, of: binary.size });
        }
    }
}

/// Arguments of ssh before the host, for something else that goes over the connection of the node.
pub fn shared(order: &Order) -> Vec<String> {
    options(order, "no")
}

/// `master`: whether others may share this connection.
fn options(order: &Order, master: &str) -> Vec<String> {
    let mut arguments = order.ssh_args.clone();
    arguments.push("-T".into());
    arguments.extend(OPTIONS.iter().flat_map(|option| ["-o".to_string(), option.to_string()]));
    let (master, path) = match &order.control {
        Some(control) => (master, control.display().to_string()),
        None => ("no", "none".into()),
    };
    arguments.extend(["-o".into(), format!("ControlMaster={master}"), "-o".into(), format!("ControlPath={path}")]);
    arguments
}

fn arguments(order: &Order, address: &Address, binary: &Binary, token: &str) -> Vec<String> {
    let mut arguments = options(order, "yes");
    arguments.extend(address.arguments());
    let words = words(order, binary, token);
    let quoted = words.iter().enumerate().map(|(place, word)| if place < 3 { word.to_string() } else { quote(word) });
    arguments.push(quoted.collect::<Vec<_>>().join(" "));
    arguments
}

/// The command there.
fn words(order: &Order, binary: &Binary, token: &str) -> Vec<String> {
    let size = binary.size.to_string();
    let mut words = vec!["exec", "sh", "-c", SCRIPT, "nexus", token, &binary.name, &size, &binary.hash];
    words.extend([order.home.as_deref().unwrap_or_default(), &order.service]);
    words.extend(order.node_args.iter().map(String::as_str));
    words.into_iter().map(String::from).collect()
}

/// For every shell there is: one word.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Not to be guessed by what an rc file prints.
fn token() -> String {
    format!("nexus-{:016x}", RandomState::new().build_hasher().finish())
}

/// Collects what comes, the last of it. The channel is closed when all has come.
fn listen(mut stderr: impl Read + Send + 'static, said: Arc<Mutex<Vec<u8>>>) -> Receiver<()> {
    let (until_the_end, all_said) = channel::<()>();
    let collect = move || {
        let mut piece = [0; 1024];
        while let Ok(length @ 1..) = stderr.read(&mut piece) {
            let mut said = said.lock().expect("nobody panics while they read it");
            said.extend_from_slice(&piece[..length]);
            let over = said.len().saturating_sub(MOST_SAID);
            said.drain(..over);
        }
        drop(until_the_end);
    };
    // Without a thread nobody tells why a line broke; it still does its work.
    let _ = threads::start_with_stack("nexus-ssh-said", 64 << 10, collect);
    all_said
}

fn wait(what: &impl AsFd, flags: PollFlags, until: Instant) -> Result<(), Broken> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut [PollFd::new(what, flags)], Some(&left)) {
            Ok(0) => return Err(Broken::Silent),
            Err(rustix::io::Errno::INTR) => {}
            _ => return Ok(()),
        }
    }
}

/// What comes from a machine: lines at first, then whatever follows them.
pub struct Incoming {
    stdout: ChildStdout,
    buffer: Vec<u8>,
}

impl Incoming {
    fn new(stdout: ChildStdout) -> Incoming {
        Incoming { stdout, buffer: Vec::new() }
    }

    /// What stands behind the token in the next line that begins with it.
    fn word(&mut self, token: &str) -> Result<String, Broken> {
        let (until, mut skipped) = (Instant::now() + ANSWER, 0);
        loop {
            let line = self.line(until)?;
            if let Some(word) = line.strip_prefix(token.as_bytes()) {
                return Ok(String::from_utf8_lossy(word).trim().to_string());
            }
            skipped += line.len();
            if skipped > MOST_CHATTER {
                let why = "it prints without end before it runs a command";
                return Err(Broken::Trouble(Trouble::lasting(why, "look at the rc files of the shell there")));
            }
        }
    }

    fn line(&mut self, until: Instant) -> Result<Vec<u8>, Broken> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                return Ok(line);
            }
            if self.buffer.len() > MOST_CHATTER {
                return Ok(std::mem::take(&mut self.buffer));
            }
            wait(&self.stdout, PollFlags::IN, until)?;
            let mut piece = [0; 4096];
            match self.stdout.read(&mut piece) {
                Ok(length @ 1..) => self.buffer.extend_from_slice(&piece[..length]),
                _ => return Err(Broken::Ended),
            }
        }
    }
}

impl Read for Incoming {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.buffer.is_empty() {
            return self.stdout.read(into);
        }
        let length = self.buffer.len().min(into.len());
        into[..length].copy_from_slice(&self.buffer[..length]);
        self.buffer.drain(..length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_stands_in_quotes_and_no_shell_on_the_way_changes_it() {
        assert!(!SCRIPT.contains('\'') && !SCRIPT.contains('!') && !SCRIPT.contains('\n'));
        assert_eq!(quote("it's"), "'it'\\''s'");
    }

    #[test]
    fn the_users_own_arguments_come_first_and_the_host_last() {
        let order = Order {
            address: Address::parse("ann@box:2222"),
            ssh_args: vec!["-J".into(), "gate".into()],
            control: Some("/run/c".into()),
            home: Some("/data/my nexus".into()),
            service: "abc".into(),
            node_args: vec!["--simulate-gpus".into()],
        };
        let binary = Binary { path: "/x".into(), size: 7, hash: "ff".into(), name: "nexus-1".into() };
        let told = arguments(&order, order.address.as_ref().unwrap(), &binary, "tok");
        assert_eq!(told[..3], ["-J", "gate", "-T"]);
        let end: Vec<&str> = told[told.len() - 7..].iter().map(String::as_str).collect();
        assert_eq!(end[..6], ["-p", "2222", "-l", "ann", "--", "box"]);
        assert!(end[6].starts_with("exec sh -c '"), "{}", end[6]);
        assert!(
            end[6].ends_with(" 'nexus' 'tok' 'nexus-1' '7' 'ff' '/data/my nexus' 'abc' '--simulate-gpus'"),
            "{}",
            end[6]
        );
    }
}
