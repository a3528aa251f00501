//! Stays with the jobs until all have ended, or until the user leaves them: writes down what becomes of each, shows how
//! far they are, and listens to keys and signals.
//!
//! ```text
//!            Ctrl-C on a terminal            k
//!  following ───────────────────> asking ─────────> ending ──> their ends
//!      │  TERM, HUP, INT off a terminal │ d, Enter, Ctrl-C
//!      └────────────────────────────────┴───> detached: they go on, and the same command goes on with them
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::pin;

use nexus_api::jobs::{Action, Job, JobSpec};
use tokio::sync::mpsc;

use super::follow::{Heard, follow};
use super::jobs_file::JobsFile;
use super::plan::Plan;
use super::queue::{self, Queued};
use super::record::{Record, Status};
use crate::app::App;
use crate::error::{CliError, code};
use crate::process::ExitCode;
use crate::render::{outcome, text};
use crate::stay::{Caught, Keys, Screen, Signals, keys_are_ours};

/// Changes on their way.
const IN_FLIGHT: usize = 64;

const BAR: usize = 20;

const SIGNALLED: i32 = 128;

/// Queues what is to be queued and stays. `base`: what every job has.
pub async fn run(app: &App, mut plan: Plan, base: JobSpec, quiet: bool) -> Result<ExitCode, CliError> {
    // From here on a signal means that we leave, once nothing is half done.
    let mut signals = Signals::listen()?;
    let Queued { records, refused } = queue::queue(app, &mut plan, base, quiet).await?;
    let refused = refused + plan.refused;
    let client = app.reader();
    let alive = records.iter().filter(|record| !record.status.has_ended()).map(|record| record.id.clone()).collect();
    let (to, mut heard) = mpsc::channel(IN_FLIGHT);
    let both = async {
        follow(app, &client, alive, to.clone()).await;
        // What it found out is in the channel.
        std::future::pending::<Infallible>().await
    };
    let mut both = pin!(both);
    let mut seat = Seat::new(app, records, plan.file, quiet, refused);
    seat.draw();
    while !seat.is_over() {
        let left = tokio::select! {
            biased;
            caught = signals.next() => seat.on_signal(caught),
            key = seat.key() => seat.on_key(key).await?,
            Some(heard) = heard.recv() => {
                seat.on(heard)?;
                None
            }
            never = &mut both => match never {},
        };
        if let Some(code) = left {
            return Ok(code);
        }
    }
    Ok(seat.over())
}

struct Seat<'a> {
    app: &'a App,
    quiet: bool,
    file: JobsFile,
    records: Vec<Record>,
    /// Where each job stands among them.
    places: HashMap<String, usize>,
    /// How many of them are in each state.
    counts: Counts,
    /// Lines that are no jobs.
    refused: usize,
    screen: Screen<'a>,
    /// Open while the user is asked.
    question: Option<Keys>,
    ending: bool,
    /// Writing failed, which was told.
    unwritten: bool,
}

#[derive(Default)]
struct Counts {
    completed: usize,
    failed: usize,
    running: usize,
    pending: usize,
}

impl Counts {
    fn of(&mut self, status: Status) -> &mut usize {
        match status {
            Status::Completed => &mut self.completed,
            Status::Failed => &mut self.failed,
            Status::Running => &mut self.running,
            Status::Pending => &mut self.pending,
        }
    }
}

impl<'a> Seat<'a> {
    fn new(app: &'a App, records: Vec<Record>, file: JobsFile, quiet: bool, refused: usize) -> Seat<'a> {
        let places = records.iter().enumerate().map(|(place, record)| (record.id.clone(), place)).collect();
        let screen = Screen::new(&app.ui);
        let mut counts = Counts::default();
        records.iter().for_each(|record| *counts.of(record.status) += 1);
        Seat {
            app,
            quiet,
            file,
            records,
            places,
            counts,
            refused,
            screen,
            question: None,
            ending: false,
            unwritten: false,
        }
    }

    fn alive(&self) -> Vec<String> {
        self.records.iter().filter(|record| !record.status.has_ended()).map(|record| record.id.clone()).collect()
    }

    fn is_over(&self) -> bool {
        self.counts.running + self.counts.pending == 0
    }

    fn on_signal(&mut self, caught: Caught) -> Option<ExitCode> {
        let asks = caught == Caught::Interrupt && self.app.ui.can_ask() && keys_are_ours();
        match asks {
            true if self.ending => {
                let jobs = text::counted(self.alive().len() as u64, "job");
                self.say(&format!("{jobs} left to end: what does not end within its grace gets KILL"));
                self.draw();
                None
            }
            true if self.question.is_some() => Some(self.detach(0)),
            true => self.ask(),
            // The jobs are nexus's: who ends the dispatcher ends the dispatcher.
            false => Some(self.detach(SIGNALLED + caught.number())),
        }
    }

    /// The next key, while the user is asked.
    async fn key(&self) -> Option<u8> {
        match &self.question {
            Some(keys) => keys.next().await,
            None => std::future::pending().await,
        }
    }

    async fn on_key(&mut self, key: Option<u8>) -> Result<Option<ExitCode>, CliError> {
        match key {
            Some(b'k' | b'K') => {
                self.question = None;
                self.ending = true;
                let alive = self.alive();
                self.say(&format!("ending {}", text::counted(alive.len() as u64, "job")));
                queue::act(self.app, Action::Cancel, &alive).await?;
                self.draw();
                Ok(None)
            }
            None | Some(b'd' | b'D' | b'\n' | b'\r') => Ok(Some(self.detach(0))),
            Some(_) => Ok(None),
        }
    }

    fn ask(&mut self) -> Option<ExitCode> {
        match Keys::open() {
            Ok(keys) => self.question = Some(keys),
            // Nobody can be asked: the answer that loses nothing.
            Err(_) => return Some(self.detach(0)),
        }
        self.draw();
        None
    }

    fn detach(&mut self, code: i32) -> ExitCode {
        self.question = None;
        self.tell_left(|count| if count == 1 { "goes on" } else { "go on" });
        ExitCode::from((code & 0xff) as u8)
    }

    /// What becomes of those that have not ended, and what to type.
    fn tell_left(&mut self, what: fn(usize) -> &'static str) {
        let count = self.alive().len();
        let them = if count == 1 { "it" } else { "them" };
        let jobs = text::counted(count as u64, "job");
        self.say(&format!("{jobs} {}; the same command picks {them} up again", what(count)));
    }

    fn on(&mut self, heard: Heard) -> Result<(), CliError> {
        match heard {
            Heard::Job { job, log_file } => self.take(&job, log_file),
            Heard::Gone(id) => self.lose(&id),
            Heard::Failed(error) => {
                self.question = None;
                self.tell_left(|count| match count {
                    1 => "is not followed to its end",
                    _ => "are not followed to their ends",
                });
                return Err(error);
            }
        }
        self.draw();
        Ok(())
    }

    fn take(&mut self, job: &Job, log_file: Option<String>) {
        let Some(place) = self.places.get(&job.id).copied() else { return };
        let (before, record) = (self.records[place].status, Record::of(job, log_file));
        if before == Status::Pending
            && let Some(running) = record.running()
        {
            self.write(place, running);
        }
        self.write(place, record);
        let ended = job.state.has_ended() && !before.has_ended();
        let is_told = !self.app.ui.err_is_terminal() || self.records[place].status == Status::Failed;
        if ended && is_told {
            self.say(&outcome::ended(job, self.app.ui.talk_paint()));
        }
    }

    /// How it ended is not known, and that is no success.
    fn lose(&mut self, id: &str) {
        let Some(place) = self.places.get(id).copied() else { return };
        self.app.ui.warn(&format!("{id} is unknown now: somebody made nexus forget it; it counts as failed"));
        let record = Record { status: Status::Failed, exit_code: None, ..self.records[place].clone() };
        self.write(place, record);
    }

    fn write(&mut self, place: usize, record: Record) {
        if record.says_the_same(&self.records[place]) {
            return;
        }
        *self.counts.of(self.records[place].status) -= 1;
        *self.counts.of(record.status) += 1;
        let written = self.file.append(&record);
        self.records[place] = record;
        // What is missing there is made up for when it goes on with the file.
        if let Err(error) = written
            && !std::mem::replace(&mut self.unwritten, true)
        {
            self.screen.clear();
            self.app.ui.warn(&format!("{} cannot be written: {error}; the jobs go on", self.file.path.display()));
        }
    }

    /// How far they are, or the question that is open.
    fn draw(&mut self) {
        if self.question.is_some() {
            self.screen.line("kill the jobs, or leave them to nexus? [k/d] ");
        } else if self.app.ui.err_is_terminal() && !self.quiet {
            self.screen.line(&progress(&self.counts));
        }
    }

    fn say(&mut self, text: &str) {
        if !self.quiet {
            self.screen.say(text);
        }
    }

    /// All have ended.
    fn over(mut self) -> ExitCode {
        self.question = None;
        self.screen.clear();
        let (completed, failed) = (self.counts.completed, self.counts.failed);
        if !self.records.is_empty() {
            let jobs = text::counted(self.records.len() as u64, "job");
            let words = match failed {
                0 => format!("{jobs}: all completed"),
                failed => format!(
                    "{jobs}: {} completed, {failed} failed; nexus run --status --jobs-file {} shows which",
                    completed,
                    self.file.path.display()
                ),
            };
            self.say(&words);
        }
        match failed + self.refused {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(code::CANNOT_BE_MET),
        }
    }
}

/// `[######              ] 12/40 done, 2 failed, 4 running, 22 pending`
fn progress(counts: &Counts) -> String {
    let total = counts.completed + counts.failed + counts.running + counts.pending;
    let full = (counts.completed + counts.failed) * BAR / total.max(1);
    let bar = format!("{}{}", "#".repeat(full), " ".repeat(BAR - full));
    let Counts { completed, failed, running, pending } = counts;
    format!("[{bar}] {completed}/{total} done, {failed} failed, {running} running, {pending} pending")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_in_one_line() {
        let counts = Counts { completed: 12, failed: 2, running: 4, pending: 22 };
        assert_eq!(progress(&counts), "[#######             ] 12/40 done, 2 failed, 4 running, 22 pending");
        assert!(progress(&Counts { completed: 3, ..Counts::default() }).starts_with("[####################] 3/3 done"));
        assert!(progress(&Counts::default()).starts_with("[                    ] 0/0 done"));
    }
}
