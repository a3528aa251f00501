//! Makes notices of what the engine passed on, and gives each to all who are told: at once, or collected for a while.
//! Reads the database; nobody waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use nexus_api::jobs::State;
use nexus_api::notify::{About, EndedSweep, FORMAT, Notice};
use nexus_api::standstill::Standstill;
use nexus_core::ids::{JobId, SweepId};

use super::courier::Courier;
use super::ear::Heard;
use super::recipient::Recipient;
use super::settings::Settings;
use super::summary::joined;
use super::times::Times;
use super::{Desk, LINE, text};
use crate::store::{JobRow, Readers, StoreError};
use crate::{clock, view};

/// Notices of one digest at most: then it is made, and the next begins.
const MOST_COLLECTED: usize = 1000;

pub struct Collector {
    pub inbox: Receiver<Heard>,
    pub desk: Arc<Desk>,
    pub readers: Readers,
    pub log_dir: PathBuf,
    pub host: String,
    pub times: Times,
    pub settings: Arc<Settings>,
    pub couriers: Vec<Courier>,
    pub collected: Vec<Arc<Notice>>,
    /// When the digest is to be made.
    pub due: Option<Instant>,
}

impl Collector {
    pub fn run(mut self) {
        loop {
            self.follow();
            let heard = match self.due {
                None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => self.inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            match heard {
                Ok(heard) => self.take_all(heard),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.tell_due();
            self.tell_lost();
        }
        // The service ends: nobody passes anything on any more.
        self.tell_collected();
        self.desk.hand_over(self.couriers);
    }

    /// Whoever is told as before keeps what waits for it.
    fn follow(&mut self) {
        let settings = self.desk.settings();
        if Arc::ptr_eq(&settings, &self.settings) {
            return;
        }
        let recipients = Recipient::all(&settings);
        let (kept, gone): (Vec<Courier>, Vec<Courier>) =
            std::mem::take(&mut self.couriers).into_iter().partition(|it| recipients.contains(it.recipient()));
        gone.iter().for_each(Courier::leave);
        for recipient in recipients {
            let known = kept.iter().find(|courier| *courier.recipient() == recipient).cloned();
            let started = match known {
                Some(courier) => Ok(courier),
                None => Courier::start(recipient, self.times, self.desk.complain.clone()),
            };
            match started {
                Ok(courier) => self.couriers.push(courier),
                Err(error) => (self.desk.complain)(format!("{LINE}: a thread could not be started: {error}")),
            }
        }
        self.settings = settings;
        if self.settings.digest.is_none() && !self.collected.is_empty() {
            self.tell_collected();
        }
    }

    /// This, and what came meanwhile: what was lost is told once there is room again, and not for each.
    fn take_all(&mut self, first: Heard) {
        self.take(first);
        while let Ok(heard) = self.inbox.try_recv() {
            self.take(heard);
            self.tell_due();
        }
    }

    fn take(&mut self, heard: Heard) {
        let made = match heard {
            Heard::Started(job) => self.of_job(job, true),
            Heard::Ended(job) => self.of_job(job, false),
            Heard::SweepEnded(sweep) => self.of_sweep(sweep),
            Heard::QueueEmpty => Ok(self.of_queue()),
            Heard::Blocked(standstill) => return self.tell_standstill(*standstill),
            Heard::Look => {
                self.follow();
                Ok(None)
            }
        };
        match made {
            Ok(None) => {}
            Ok(Some(notice)) => self.tell(Arc::new(notice)),
            Err(error) => (self.desk.complain)(format!("{LINE}: {}", error.problem())),
        }
    }

    fn tell(&mut self, notice: Arc<Notice>) {
        let Some(digest) = self.settings.digest else {
            return self.couriers.iter().for_each(|courier| courier.give(notice.clone()));
        };
        self.collected.push(notice);
        self.due.get_or_insert_with(|| Instant::now() + digest);
        if self.collected.len() >= MOST_COLLECTED {
            self.due = Some(Instant::now());
        }
    }

    /// At once, whatever is collected: idle GPUs are not left idle for the sake of a digest.
    fn tell_standstill(&mut self, standstill: Standstill) {
        if self.settings.tells(About::Blocked, false) {
            let text = text::blocked(&standstill, &self.host);
            let notice = Notice { standstill: Some(standstill), ..self.notice(About::Blocked, text) };
            let notice = Arc::new(notice);
            self.couriers.iter().for_each(|courier| courier.give(notice.clone()));
        }
    }

    fn tell_due(&mut self) {
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.tell_collected();
        }
    }

    fn tell_collected(&mut self) {
        self.due = None;
        if let Some(notice) = joined(&std::mem::take(&mut self.collected), clock::now()) {
            self.couriers.iter().for_each(|courier| courier.give(notice.clone()));
        }
    }

    fn tell_lost(&mut self) {
        let lost = self.desk.take_lost();
        if lost > 0 {
            (self.desk.complain)(format!("{LINE}: {lost} events came too fast, and nobody was told of them"));
        }
    }

    fn notice(&self, event: About, text: String) -> Notice {
        Notice {
            format: FORMAT,
            event,
            text,
            host: self.host.clone(),
            at: clock::rfc3339(clock::now()),
            job: None,
            last_line: None,
            sweep: None,
            digest: None,
            standstill: None,
        }
    }

    /// None where it is not to be told, or the job was forgotten meanwhile.
    fn of_job(&self, id: JobId, start: bool) -> Result<Option<Notice>, StoreError> {
        let Some(row) = self.readers.read(|reader| reader.job(id.as_str()))? else { return Ok(None) };
        let about = match row.state {
            _ if start => About::Start,
            State::Failed => About::Failure,
            _ => About::End,
        };
        // Of a sweep its end is what was asked for.
        let asked = row.spec.notify && row.spec.sweep.is_none();
        if !self.settings.tells(about, asked) {
            return Ok(None);
        }
        let last_line = (about == About::Failure).then(|| last_line(&row)).flatten();
        let around = view::Surroundings { log_dir: &self.log_dir, now: clock::now(), waiting: &Default::default() };
        let job = view::job(row, None, &around);
        let text = match start {
            true => text::started(&job, &self.host),
            false => text::ended(&job, last_line.as_deref(), &self.host),
        };
        Ok(Some(Notice { job: Some(job), last_line, ..self.notice(about, text) }))
    }

    fn of_sweep(&self, id: SweepId) -> Result<Option<Notice>, StoreError> {
        let read = self.readers.read(|reader| {
            let Some(row) = reader.sweep_by_id(id)? else { return Ok(None) };
            let first = reader.points_of_sweep(&row.name, None, Some(1))?;
            let asked = first.first().is_some_and(|job| job.spec.notify);
            Ok(Some((row, asked)))
        })?;
        let Some((row, asked)) = read else { return Ok(None) };
        let (jobs, completed, failed, killed) = (row.jobs, row.completed, row.failed, row.killed);
        let sweep = EndedSweep { name: row.name, command: row.command, jobs, completed, failed, killed };
        let text = text::sweep(&sweep, &self.host);
        let told = self.settings.tells(About::SweepEnd, asked);
        Ok(told.then(|| Notice { sweep: Some(sweep), ..self.notice(About::SweepEnd, text) }))
    }

    fn of_queue(&self) -> Option<Notice> {
        let told = self.settings.tells(About::QueueEmpty, false);
        told.then(|| self.notice(About::QueueEmpty, text::queue_empty(&self.host)))
    }
}

/// What it printed last. Where it was given secrets, only what was kept without them.
fn last_line(row: &JobRow) -> Option<String> {
    let dir = row.dir.as_deref()?;
    let line = match row.spec.variables.is_empty() {
        true => nexus_node::last_line(dir),
        false => nexus_node::kept_said(dir).and_then(|said| said.line),
    };
    line.map(|line| text::plain(&line))
}
