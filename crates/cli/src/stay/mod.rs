//! Stays with a job until its end, or until the user leaves it.
//!
//! ```text
//!            Ctrl-C on a terminal          k, TERM, or INT off a terminal
//!  following ───────────────────> asking ─────────────────────────────────> ending ──> its end
//!      ^                            │ d, Enter, Ctrl-C, or HUP at any time
//!      └────── its end, any time    └────────────────────────> detached: it goes on
//! ```

mod follow;
mod keys;
mod screen;
mod signals;

use std::convert::Infallible;
use std::pin::pin;

use jiff::Zoned;
use nexus_api::jobs::{Action, Job, OnJobs};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use self::follow::Happening;
pub use self::keys::{Keys, are_ours as keys_are_ours};
pub use self::screen::Screen;
pub use self::signals::{Caught, Signals};
use crate::app::App;
use crate::client::Client;
use crate::ends::{RESTART_LIMIT, RESTART_LOOK, is_away};
use crate::error::CliError;
use crate::render::paint::Paint;
use crate::render::reason::Capacity;
use crate::render::{outcome, prospect, time};
use crate::ui::Ui;

/// Parts of the output on their way.
const IN_FLIGHT: usize = 64;

/// Parts of the output that wait for an answer of the user's; then the job's log keeps the rest.
const HELD_BACK: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Start,
    End,
}

pub enum Stayed {
    Started,
    /// It goes on.
    Detached,
    /// `signal`: the one that had it killed from here.
    Ended {
        job: Box<Job>,
        signal: Option<i32>,
    },
}

pub async fn stay(
    app: &App,
    client: &Client,
    job: &Job,
    until: Until,
    quiet: bool,
    mut signals: Signals,
) -> Result<Stayed, CliError> {
    let (to, mut heard) = mpsc::channel(IN_FLIGHT);
    let shows_reason = app.ui.err_is_terminal() && !quiet;
    let watch = async |to| {
        if shows_reason {
            follow::watch(client, &job.id, to).await;
        }
    };
    let both = async {
        tokio::join!(follow::follow(app, client, &job.id, to.clone()), watch(to.clone()));
        // What they found out is in the channel.
        std::future::pending::<Infallible>().await
    };
    let mut both = pin!(both);
    let mut seat = Seat::new(app, client, job, until, quiet);
    loop {
        let step = tokio::select! {
            biased;
            caught = signals.next() => seat.on_signal(caught).await,
            key = seat.key() => seat.on_key(key).await,
            Some(happening) = heard.recv(), if seat.held_back.len() < HELD_BACK => seat.on(happening).await,
            never = &mut both => match never {},
        };
        match step {
            Ok(None) => {}
            Ok(Some(stayed)) => return Ok(stayed),
            // Whoever read our output has seen enough; that is no reason to end the job.
            Err(CliError::OutputClosed) => return Ok(Stayed::Detached),
            Err(error) => return Err(error),
        }
    }
}

/// Says that the job goes on without us.
pub fn tell_detached(ui: &Ui, id: &str, has_started: bool) {
    let id = ui.talk_paint().id(id);
    match has_started {
        true => ui.say(&format!("detached: {id} goes on; nexus attach {id}")),
        false => ui.say(&format!("detached: {id} stays queued; nexus why {id}")),
    }
}

/// Where the user sits.
struct Seat<'a> {
    app: &'a App,
    client: &'a Client,
    job: &'a Job,
    until: Until,
    quiet: bool,
    screen: Screen<'a>,
    /// The newest that has begun.
    attempt: u32,
    /// Open while the user is asked.
    question: Option<Keys>,
    held_back: Vec<Happening>,
    ending: Option<Ending>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    ByKey,
    BySignal(i32),
}

type Step = Result<Option<Stayed>, CliError>;

impl<'a> Seat<'a> {
    fn new(app: &'a App, client: &'a Client, job: &'a Job, until: Until, quiet: bool) -> Seat<'a> {
        Seat {
            screen: Screen::new(&app.ui),
            attempt: 0,
            question: None,
            held_back: Vec::new(),
            ending: None,
            app,
            client,
            job,
            until,
            quiet,
        }
    }

    async fn on_signal(&mut self, caught: Caught) -> Step {
        match caught {
            Caught::HangUp => Ok(Some(Stayed::Detached)),
            _ if self.ending.is_some() => {
                self.tell_grace();
                Ok(None)
            }
            Caught::Terminate => self.end(Ending::BySignal(caught.number())).await,
            Caught::Interrupt if self.question.is_some() => self.detach(),
            Caught::Interrupt if self.app.ui.can_ask() && keys::are_ours() => self.ask(),
            Caught::Interrupt => self.end(Ending::BySignal(caught.number())).await,
        }
    }

    /// The next key, while the user is asked.
    async fn key(&self) -> Option<u8> {
        match &self.question {
            Some(keys) => keys.next().await,
            None => std::future::pending().await,
        }
    }

    async fn on_key(&mut self, key: Option<u8>) -> Step {
        match key {
            Some(b'k' | b'K') => self.end(Ending::ByKey).await,
            None | Some(b'd' | b'D' | b'\n' | b'\r') => self.detach(),
            Some(_) => Ok(None),
        }
    }

    fn ask(&mut self) -> Step {
        match Keys::open() {
            Ok(keys) => self.question = Some(keys),
            // Nobody can be asked: the answer that loses nothing.
            Err(_) => return self.detach(),
        }
        self.screen.line("kill or detach? [k/d] ");
        Ok(None)
    }

    fn detach(&mut self) -> Step {
        self.question = None;
        self.screen.clear();
        if !self.quiet {
            tell_detached(&self.app.ui, &self.job.id, self.attempt > 0);
        }
        Ok(Some(Stayed::Detached))
    }

    async fn end(&mut self, how: Ending) -> Step {
        self.ending = Some(how);
        let held_back = self.answered();
        self.say(&format!("ending {}", self.job.id));
        self.ask_for_the_end().await?;
        for happening in held_back {
            self.take(happening).await?;
        }
        Ok(None)
    }

    /// Out of the queue, or TERM, grace and KILL: whichever fits. One that has ended meanwhile is left out.
    async fn ask_for_the_end(&self) -> Result<(), CliError> {
        let deadline = Instant::now() + RESTART_LIMIT;
        loop {
            let on = OnJobs { ids: vec![self.job.id.clone()], skip_unfit: true };
            match self.app.started().await?.act(Action::Cancel, on).await {
                Err(error) if is_away(&error) && Instant::now() < deadline => sleep(RESTART_LOOK).await,
                Err(error) => return Err(error),
                Ok(_) => return Ok(()),
            }
        }
    }

    fn tell_grace(&mut self) {
        let id = &self.job.id;
        let grace = match self.job.request.grace_seconds {
            Some(seconds) => format!("its grace of {}", time::limit(seconds)),
            None => "its grace".to_string(),
        };
        self.say(&format!("{id} is ending: when {grace} is over it gets KILL"));
    }

    /// The question is over; what came meanwhile.
    fn answered(&mut self) -> Vec<Happening> {
        self.question = None;
        self.screen.clear();
        std::mem::take(&mut self.held_back)
    }

    async fn on(&mut self, happening: Happening) -> Step {
        if self.question.is_none() {
            return self.take(happening).await;
        }
        if !matches!(happening, Happening::Ended(_) | Happening::Failed(_)) {
            self.held_back.push(happening);
            return Ok(None);
        }
        for earlier in self.answered() {
            self.take(earlier).await?;
        }
        self.take(happening).await
    }

    async fn take(&mut self, happening: Happening) -> Step {
        match happening {
            // Of before that attempt: it came on a way of its own.
            Happening::Waits { job, .. } if job.attempt < self.attempt => {}
            Happening::Waits { job, capacity } => self.show_reason(&job, capacity),
            Happening::Attempt(number) => {
                self.screen.clear();
                self.attempt = number;
                if self.until == Until::Start {
                    return Ok(Some(Stayed::Started));
                }
                if number > 1 && !self.quiet {
                    self.tell_attempt(number).await;
                }
            }
            Happening::Output { stderr, bytes } => self.screen.output(stderr, &bytes)?,
            Happening::Ended(job) => {
                self.screen.clear();
                let signal = self.ending.and_then(|how| match how {
                    Ending::BySignal(number) => Some(number),
                    Ending::ByKey => None,
                });
                return Ok(Some(Stayed::Ended { job, signal }));
            }
            Happening::Failed(error) => {
                self.screen.clear();
                return Err(error);
            }
        }
        Ok(None)
    }

    fn show_reason(&mut self, job: &Job, capacity: Capacity) {
        self.screen.line(&prospect::line(job, capacity, &Zoned::now(), Paint { on: false }));
    }

    async fn tell_attempt(&mut self, number: u32) {
        // What cannot be read now is not worth an error: the attempt itself is what counts.
        let runs = self.client.job(&self.job.id, false).await.map(|detail| detail.runs).unwrap_or_default();
        let before = runs.iter().find(|run| run.attempt + 1 == number).and_then(|run| run.outcome.as_ref());
        let cause = before.map(|end| format!(" ({})", outcome::cause(&end.word, end.exit_code, end.signal)));
        let cause = cause.unwrap_or_default();
        self.say(&format!("attempt {} of {} failed{cause}; this is attempt {number}", number - 1, self.job.id));
    }

    fn say(&mut self, text: &str) {
        if !self.quiet {
            self.screen.say(text);
        }
    }
}
