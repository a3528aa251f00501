//! Attaches the user's terminal to that of a running job, and comes back when one of them leaves. Outlives a restart
//! of the service: the job does too, and is shown on from the very byte where it was.
//!
//! ```text
//!   keys ──> input, Ctrl+A D, window ──frames──> service ──> shim ──> the job
//!   screen <── CR LF, gaps, the end  <──frames── service <── shim <──┘
//! ```

mod keys;
mod raw;

use std::time::Duration;

use nexus_api::problem::Problem;
use nexus_api::run_dir::ExitRecord;
use nexus_api::shown::{Stream, printable};
use nexus_api::terminal::{FORMAT, FromShim, FromViewer, ViewerHello};
use nexus_node::carriage::Carriage;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};

use self::keys::Keys;
pub use self::raw::{CALM, LEAVE_ALTERNATE, RawTerminal, restore};
use crate::client::{Body, Client, Terminal};
use crate::error::CliError;
use crate::ui::{self, Ui};

/// How long a service may be away before one gives up, and how often it is looked for.
const AWAY_LIMIT: Duration = Duration::from_secs(60);
const AWAY_LOOK: Duration = Duration::from_millis(200);

/// What was typed and not yet taken; more is not kept. Keys are read all the same: one of them may detach.
const TYPED_BYTES: usize = 4 << 20;

/// Why one is back.
#[derive(Debug)]
pub enum Left {
    Detached,
    /// The run ended, and how.
    Ended(Box<ExitRecord>),
    /// The job ended while the service was away: it can tell how.
    EndedUnseen,
    /// TERM, HUP, INT or QUIT came, or the terminal is gone.
    Told,
}

/// Shows the terminal of a running job until its end or Ctrl+A D. The caller has made sure of a terminal of its own;
/// `greetings` are told once there is one on the other side as well.
pub async fn attach(
    client: &Client,
    id: &str,
    read_only: bool,
    greetings: Vec<String>,
    ui: &Ui,
) -> Result<Left, CliError> {
    // Before anything is changed: a job that cannot be attached to leaves the terminal as it is.
    let connection = client.terminal(id).await?;
    let mut view = View::enter(ui)?;
    let mut session = Session { client, id, read_only, greetings, position: None, typed: Vec::new() };
    let left = session.run(connection, &mut view).await;
    view.leave();
    left
}

/// Shows a log that grows, until Ctrl+A D, Ctrl+C, or the end of the service.
pub async fn follow(mut body: Body, ui: &Ui) -> Result<Left, CliError> {
    let mut view = View::enter(ui)?;
    let (mut keys, mut shown) = (Keys::default(), Stream::default());
    let left = loop {
        tokio::select! {
            bytes = body.next() => match bytes {
                Ok(Some(bytes)) => view.show(shown.push(&bytes).as_bytes())?,
                Ok(None) | Err(_) => break Left::EndedUnseen,
            },
            typed = view.terminal.keys() => match typed {
                Some(typed) if keys::leaves(&mut keys, &typed) => break Left::Detached,
                Some(_) => {}
                None => break Left::Told,
            },
            signal = view.signals.next() => if let Signalled::End = signal { break Left::Told },
        }
    };
    view.leave();
    Ok(left)
}

/// The user's side.
struct View<'a> {
    ui: &'a Ui,
    terminal: RawTerminal,
    signals: Signals,
    carriage: Carriage,
    /// Whether the cursor stands at the beginning of a line.
    at_left: bool,
}

impl View<'_> {
    fn enter(ui: &Ui) -> Result<View<'_>, CliError> {
        let signals = Signals::listen().map_err(CliError::io("signals cannot be received"))?;
        let terminal = RawTerminal::enter()?;
        Ok(View { ui, terminal, signals, carriage: Carriage::default(), at_left: true })
    }

    fn show(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.at_left = bytes.last().map_or(self.at_left, |byte| *byte == b'\n');
        self.ui.bytes(&self.carriage.push(bytes))
    }

    /// A word of nexus's own amid the output.
    fn note(&mut self, text: &str) {
        let begin = if self.at_left { "" } else { "\r\n" };
        self.at_left = true;
        // A terminal in raw mode needs the carriage return. It is gone where this cannot be shown.
        let _ = self.ui.error_bytes(format!("{begin}[{}]\r\n", printable(text)).as_bytes());
    }

    /// Leaves the screen as a shell expects it. What cannot be shown any more needs no care.
    fn leave(mut self) {
        if self.carriage.is_alternate() {
            let _ = self.ui.bytes(raw::LEAVE_ALTERNATE);
            self.at_left = true;
        }
        let _ = self.ui.bytes(raw::CALM);
        if !self.at_left {
            let _ = self.ui.bytes(b"\r\n");
        }
    }
}

struct Signals {
    window: Signal,
    ends: [Signal; 4],
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        use SignalKind as Kind;
        let ends =
            [signal(Kind::terminate())?, signal(Kind::hangup())?, signal(Kind::interrupt())?, signal(Kind::quit())?];
        Ok(Signals { window: signal(Kind::window_change())?, ends })
    }

    /// Waits for the next.
    async fn next(&mut self) -> Signalled {
        let [term, hup, int, quit] = &mut self.ends;
        tokio::select! {
            _ = self.window.recv() => Signalled::Window,
            _ = term.recv() => Signalled::End,
            _ = hup.recv() => Signalled::End,
            _ = int.recv() => Signalled::End,
            _ = quit.recv() => Signalled::End,
        }
    }
}

enum Signalled {
    /// The window has another size.
    Window,
    /// Somebody tells this process to end.
    End,
}

/// One job, over as many connections as it takes.
struct Session<'a> {
    client: &'a Client,
    id: &'a str,
    read_only: bool,
    greetings: Vec<String>,
    /// How much of the run's output was shown, once anything was.
    position: Option<u64>,
    typed: Vec<u8>,
}

/// How a connection ended.
enum Parted {
    Left(Left),
    Broken,
}

impl Session<'_> {
    async fn run(&mut self, first: Terminal, view: &mut View<'_>) -> Result<Left, CliError> {
        let mut keys = Keys::default();
        let mut connection = first;
        loop {
            if let Parted::Left(left) = self.converse(connection, &mut keys, view).await? {
                return Ok(left);
            }
            view.note(&format!("the service is away; {} goes on", self.id));
            connection = match self.reconnect(&mut keys, view).await? {
                Ok(connection) => connection,
                Err(left) => return Ok(left),
            };
            view.note("connected again");
        }
    }

    async fn converse(
        &mut self,
        mut connection: Terminal,
        keys: &mut Keys,
        view: &mut View<'_>,
    ) -> Result<Parted, CliError> {
        let mut outgoing = Vec::new();
        let (columns, rows) = ui::window().unwrap_or_default();
        let hello = ViewerHello {
            format: FORMAT,
            columns,
            rows,
            read_only: self.read_only,
            from: self.position,
            session: None,
        };
        FromViewer::Hello(hello).append_to(&mut outgoing);
        loop {
            FromViewer::Input(std::mem::take(&mut self.typed)).append_to(&mut outgoing);
            tokio::select! {
                frame = connection.reader.next() => match frame {
                    Some(frame) => if let Some(left) = self.shown(frame, view)? { return Ok(Parted::Left(left)) },
                    None => return Ok(Parted::Broken),
                },
                sent = connection.writer.send(&outgoing), if !outgoing.is_empty() => match sent {
                    Some(count) => drop(outgoing.drain(..count)),
                    None => return Ok(Parted::Broken),
                },
                typed = view.terminal.keys() => {
                    if let Some(left) = self.take_keys(typed, keys, outgoing.len()) { return Ok(Parted::Left(left)) }
                }
                signal = view.signals.next() => match signal {
                    Signalled::End => return Ok(Parted::Left(Left::Told)),
                    Signalled::Window => {
                        let (columns, rows) = ui::window().unwrap_or_default();
                        FromViewer::Resize { columns, rows }.append_to(&mut outgoing);
                    }
                },
            }
        }
    }

    fn shown(&mut self, frame: FromShim, view: &mut View<'_>) -> Result<Option<Left>, CliError> {
        match frame {
            FromShim::Hello(hello) => {
                self.position = Some(hello.position);
                std::mem::take(&mut self.greetings).iter().for_each(|greeting| view.note(greeting));
            }
            FromShim::Output(bytes) => {
                self.advance(bytes.len() as u64);
                view.show(&bytes)?;
            }
            FromShim::LeftOut(bytes) => {
                self.advance(bytes);
                view.note(&format!("{bytes} bytes were left out; nexus logs {} has them", self.id));
            }
            FromShim::Refused(why) => view.note(&why),
            // Only who asked for another limit is told that it holds.
            FromShim::TimeLimitSet(_) => {}
            FromShim::Ended(record) => return Ok(Some(Left::Ended(Box::new(record)))),
        }
        Ok(None)
    }

    fn advance(&mut self, bytes: u64) {
        self.position = self.position.map(|position| position + bytes);
    }

    fn take_keys(&mut self, typed: Option<Vec<u8>>, keys: &mut Keys, waiting: usize) -> Option<Left> {
        let Some(typed) = typed else { return Some(Left::Told) };
        let typed = keys.push(&typed);
        if !self.read_only && self.typed.len() + waiting < TYPED_BYTES {
            self.typed.extend(typed.input);
        }
        typed.detach.then_some(Left::Detached)
    }

    /// Looks for the service until it is back; keys are heard meanwhile.
    async fn reconnect(&mut self, keys: &mut Keys, view: &mut View<'_>) -> Result<Result<Terminal, Left>, CliError> {
        let until = Instant::now() + AWAY_LIMIT;
        loop {
            match self.client.terminal(self.id).await {
                Ok(connection) => return Ok(Ok(connection)),
                Err(CliError::Problem(Problem::WrongState { .. } | Problem::NoSuchJob { .. })) => {
                    return Ok(Err(Left::EndedUnseen));
                }
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(AWAY_LOOK) => {}
                typed = view.terminal.keys() => {
                    if let Some(left) = self.take_keys(typed, keys, 0) { return Ok(Err(left)) }
                }
                signal = view.signals.next() => if let Signalled::End = signal { return Ok(Err(Left::Told)) },
            }
        }
    }
}
