//! A live dashboard on the terminal: GPUs, jobs, queue, sweeps and machines, and keys to do something about them.
//!
//! ```text
//!   keys, clicks ──> keys.rs ──> what is seen (state.rs)  ──> draw ──> screen
//!                       │              ▲
//!                       └─> deeds      │ what is known (known.rs)
//!                             │        │
//!   service <── asks, deeds ──┴── feed.rs ──> one channel ──> this loop
//! ```
//! Nothing is asked for in vain: an event says that something changed, and then what is seen is read, no more.

mod deeds;
mod draw;
mod feed;
mod help;
mod input;
mod keys;
mod known;
mod list;
mod log;
mod pages;
mod panes;
mod past;
mod screen;
mod state;
mod text;

use std::time::Duration;

use jiff::Zoned;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use self::deeds::{Done, in_a_line};
use self::draw::Look;
use self::feed::{LogPiece, Message};
use self::input::{Input, Inputs};
use self::keys::Next;
use self::known::Ask;
use self::log::{Log, Standing};
use self::screen::Screen;
pub use self::screen::restore;
use self::state::{Bottom, State, View};
use crate::app::App;
use crate::client::Client;
use crate::ends::is_away;
use crate::error::CliError;

/// Run times move on even when nothing happens.
const TICK: Duration = Duration::from_secs(1);

/// All is read anew after this, whatever happens: some reasons change with the time alone.
const AT_LATEST: Duration = Duration::from_secs(30);

/// Between two looks at the service, however much happens; more where an answer takes long.
const APART: Duration = Duration::from_millis(200);

/// What follows the key Esc within this belongs to another key.
const ESCAPE_WAITS: Duration = Duration::from_millis(40);

/// Pieces on their way to the screen.
const CHANNEL: usize = 64;

/// Why one is back.
pub enum Left {
    Quit,
    /// Somebody wants to see the terminal of this job.
    Attach(String),
}

pub struct Top {
    client: Client,
    state: State,
    look: Look,
    inbox: Receiver<Message>,
    outbox: Sender<Message>,
    listens: JoinHandle<()>,
    follows: Option<JoinHandle<()>>,
    serial: u64,
    reading: bool,
    /// What is known is old.
    stale: bool,
    not_before: Instant,
    at_latest: Instant,
    past_known: bool,
}

impl Top {
    pub fn new(client: Client, app: &App) -> Top {
        let (outbox, inbox) = channel(CHANNEL);
        let listens = tokio::spawn(feed::listen(client.clone(), outbox.clone()));
        let now = Instant::now();
        Top {
            client,
            state: State::new(Default::default()),
            look: Look { on: app.ui.paint().on },
            inbox,
            outbox,
            listens,
            follows: None,
            serial: 0,
            reading: false,
            stale: true,
            not_before: now,
            at_latest: now + AT_LATEST,
            past_known: false,
        }
    }

    /// Something that went wrong while top was away.
    pub fn tell(&mut self, error: &CliError) {
        self.state.fails(in_a_line(error));
    }

    /// Shows it until one leaves. What is known and chosen stays for the next time.
    pub async fn show(&mut self) -> Result<Left, CliError> {
        let mut signals = Signals::listen().map_err(CliError::io("signals cannot be received"))?;
        let mut screen = Screen::enter()?;
        let mut inputs = Inputs::default();
        loop {
            self.read_if_due();
            self.draw(&mut screen)?;
            let (escape, wakes) = (Instant::now() + ESCAPE_WAITS, self.wakes());
            let typed = tokio::select! {
                typed = screen.keys() => match typed {
                    Some(bytes) => inputs.push(&bytes),
                    None => return Ok(Left::Quit),
                },
                () = sleep_until(escape), if inputs.is_amid() => inputs.settle().into_iter().collect(),
                message = self.inbox.recv() => {
                    message.into_iter().for_each(|message| self.take(message));
                    // What has come meanwhile belongs to the same picture.
                    while let Ok(message) = self.inbox.try_recv() {
                        self.take(message);
                    }
                    vec![]
                }
                () = sleep_until(wakes) => vec![],
                ended = signals.next() => match ended {
                    true => return Ok(Left::Quit),
                    false => vec![],
                },
            };
            for input in typed {
                if let Some(left) = self.press(input, &mut screen).await? {
                    return Ok(left);
                }
            }
        }
    }

    /// When something is to be done, without anybody's doing.
    fn wakes(&self) -> Instant {
        let tick = Instant::now() + TICK;
        if self.stale && !self.reading && !self.state.known.away { self.not_before.min(tick) } else { tick }
    }

    fn draw(&mut self, screen: &mut Screen) -> Result<(), CliError> {
        self.state.size = screen.size();
        self.state.settle();
        let (state, look, now) = (&mut self.state, self.look, Zoned::now());
        screen.draw(|frame| draw::draw(state, look, &now, frame))
    }

    fn read_if_due(&mut self) {
        let now = Instant::now();
        if now >= self.at_latest {
            self.state.known.touch();
            self.stale = true;
        }
        if !self.stale || self.reading || self.state.known.away || now < self.not_before {
            return;
        }
        let mut asks = self.state.asks();
        if !self.past_known {
            asks.push(Ask::Past);
        }
        self.ask(asks);
        (self.stale, self.at_latest) = (false, now + AT_LATEST);
    }

    fn ask(&mut self, asks: Vec<Ask>) {
        self.reading = true;
        tokio::spawn(feed::read(self.client.clone(), asks, self.state.filter.clone(), self.outbox.clone()));
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Happened => {
                self.state.known.touch();
                self.stale = true;
            }
            Message::Readings { machine, at, gpus } => self.state.known.take_readings(&machine, at, &gpus),
            Message::Away => self.state.known.away = true,
            Message::Back => {
                self.state.known.away = false;
                self.state.known.touch();
                (self.stale, self.past_known) = (true, false);
            }
            Message::Read { filter, news, took } => self.take_news(&filter, news, took),
            Message::Done(Ok(Done::Said(text))) => self.state.says(text),
            Message::Done(Ok(Done::Page { title, text })) => self.state.view = keys::page(title, &text),
            Message::Done(Err(error)) => self.state.fails(in_a_line(&error)),
            Message::Log { serial, piece } => self.take_log(serial, piece),
        }
    }

    fn take_news(&mut self, filter: &str, news: Result<Vec<known::News>, CliError>, took: Duration) {
        self.reading = false;
        self.not_before = Instant::now() + APART.max(took * 2);
        match news {
            Ok(news) if filter == self.state.filter => {
                for one in news {
                    self.past_known |= matches!(one, known::News::Past(_));
                    self.state.known.take(one);
                }
                self.state.settle();
                self.read_what_is_seen();
            }
            // Another filter is meant by now.
            Ok(_) => {
                self.stale = true;
                self.not_before = Instant::now();
            }
            Err(error) => {
                self.stale = true;
                if !is_away(&error) {
                    self.state.fails(in_a_line(&error));
                }
            }
        }
    }

    /// Pages that somebody has come to and that are not known.
    fn read_what_is_seen(&mut self) {
        if self.reading || self.stale || self.state.known.away {
            return;
        }
        let asks = self.state.page_asks();
        if !asks.is_empty() {
            self.ask(asks);
        }
    }

    fn take_log(&mut self, serial: u64, piece: LogPiece) {
        let View::Log(log) = &mut self.state.view else { return };
        if log.serial != serial {
            return;
        }
        match piece {
            LogPiece::Begins => log.begin(),
            LogPiece::Bytes(bytes) => log.push(&bytes),
            LogPiece::Away => log.standing = Standing::Away,
            LogPiece::Over(how) => log.standing = Standing::Over(how),
        }
    }

    /// Does what a key is for; one that leaves says so.
    async fn press(&mut self, input: Input, screen: &mut Screen) -> Result<Option<Left>, CliError> {
        let filter = self.state.filter.clone();
        match keys::press(&mut self.state, input) {
            Next::Draw => {}
            Next::Read if filter != self.state.filter => {
                self.stale = true;
                self.not_before = Instant::now();
            }
            Next::Read => self.read_what_is_seen(),
            Next::Do(deed) => drop(tokio::spawn(feed::act(self.client.clone(), deed, self.outbox.clone()))),
            Next::Follow { id, command } => self.follow(id, command),
            Next::Attach(id) => return Ok(Some(Left::Attach(id))),
            Next::Redraw => screen.forget()?,
            Next::Suspend => screen.suspend()?,
            Next::Quit => return Ok(Some(Left::Quit)),
        }
        if !matches!(self.state.view, View::Log(_)) {
            self.follows.take().into_iter().for_each(|follows| follows.abort());
        }
        Ok(None)
    }

    fn follow(&mut self, id: String, command: String) {
        self.serial += 1;
        self.state.view = View::Log(Box::new(Log::new(id.clone(), command, self.serial)));
        self.state.bottom = Bottom::Keys;
        let follows = feed::follow(self.client.clone(), id, self.serial, self.outbox.clone());
        self.follows = Some(tokio::spawn(follows));
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

struct Signals {
    window: Signal,
    ends: [Signal; 3],
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        use SignalKind as Kind;
        let ends = [signal(Kind::terminate())?, signal(Kind::hangup())?, signal(Kind::interrupt())?];
        Ok(Signals { window: signal(Kind::window_change())?, ends })
    }

    /// Waits for the next: whether it tells us to end, or that the window has another size.
    async fn next(&mut self) -> bool {
        let [term, hup, int] = &mut self.ends;
        tokio::select! {
            _ = self.window.recv() => false,
            _ = term.recv() => true,
            _ = hup.recv() => true,
            _ = int.recv() => true,
        }
    }
}
