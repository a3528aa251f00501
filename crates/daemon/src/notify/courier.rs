//! Brings notices to one recipient, on a thread of its own: one that is slow or away keeps nobody else waiting.
//!
//! ```text
//!   give ──> waits ──> told ──> done
//!              │         └ trouble that may pass: again after a wait that grows, then given up with a word
//!              └ many by then: one digest of them all
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nexus_api::notify::Notice;
use nexus_node::threads;

use super::recipient::Recipient;
use super::summary::joined;
use super::times::Times;
use super::{Complain, LINE};
use crate::clock;

/// Notices that may wait for one recipient. More are dropped, and counted.
const MOST_WAITING: usize = 1000;

/// More than this at once come as one.
const MANY: usize = 8;

#[derive(Clone)]
pub struct Courier {
    shared: Arc<Shared>,
}

struct Shared {
    recipient: Recipient,
    times: Times,
    books: Mutex<Books>,
    changed: Condvar,
    complain: Complain,
}

#[derive(Default)]
struct Books {
    waiting: VecDeque<Arc<Notice>>,
    /// Of these one is on its way; none while it has nothing to do.
    under_way: u64,
    dropped: u64,
    /// Whoever is told is told by then, or not at all.
    until: Option<Instant>,
    /// What the last attempt met with.
    trouble: Option<String>,
    /// There is no time for another attempt.
    left_off: bool,
    gone: bool,
}

impl Courier {
    pub fn start(recipient: Recipient, times: Times, complain: Complain) -> std::io::Result<Courier> {
        let shared = Arc::new(Shared { recipient, times, books: Mutex::default(), changed: Condvar::new(), complain });
        let courier = Courier { shared: shared.clone() };
        threads::start("nexus-notify", move || shared.carry())?;
        Ok(courier)
    }

    pub fn recipient(&self) -> &Recipient {
        &self.shared.recipient
    }

    pub fn give(&self, notice: Arc<Notice>) {
        let mut books = self.shared.books();
        match books.waiting.len() < MOST_WAITING {
            true => books.waiting.push_back(notice),
            false => books.dropped += 1,
        }
        let first = books.dropped == 1 && books.waiting.len() >= MOST_WAITING;
        drop(books);
        self.shared.changed.notify_all();
        if first {
            let words = format!("{MOST_WAITING} notices wait for it, and more are dropped");
            (self.shared.complain)(format!("{LINE} {}: {words}", self.shared.recipient));
        }
    }

    /// The configuration names it no more: what waits for it is dropped.
    pub fn leave(&self) {
        let mut books = self.shared.books();
        (books.gone, books.under_way) = (true, 0);
        books.waiting.clear();
        drop(books);
        self.shared.changed.notify_all();
    }

    /// What waits is told by then, or not at all.
    pub fn hurry(&self, until: Instant) {
        self.shared.books().until = Some(until);
        self.shared.changed.notify_all();
    }

    /// Waits until nothing is left to be told, or it is too late; then a word on what was not.
    pub fn end(&self, until: Instant) -> Option<String> {
        let mut books = self.shared.books();
        while !books.left_off && (books.under_way > 0 || !books.waiting.is_empty()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            books = self.shared.changed.wait_timeout(books, left).expect(UNBROKEN).0;
        }
        let count = books.under_way + books.waiting.len() as u64;
        books.gone = true;
        let why = books.trouble.as_ref().map(|why| format!("; the last attempt: {why}")).unwrap_or_default();
        let noun = if count == 1 { "notice was" } else { "notices were" };
        let line = || format!("{LINE} {}: {count} {noun} not told before the service stopped{why}", self.recipient());
        (count > 0).then(line)
    }
}

const UNBROKEN: &str = "nobody panics with the books in hand";

impl Shared {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect(UNBROKEN)
    }

    fn carry(&self) {
        while let Some((notice, count)) = self.next() {
            let settled = self.deliver(&notice, count);
            let mut books = self.books();
            match settled {
                true => books.under_way = 0,
                false => books.left_off = true,
            }
            drop(books);
            self.changed.notify_all();
            if !settled {
                return;
            }
        }
    }

    /// The next to be told, and how many it stands for. None when there will be none.
    fn next(&self) -> Option<(Arc<Notice>, u64)> {
        let mut books = self.books();
        loop {
            if books.gone {
                return None;
            }
            let count = match books.waiting.len() {
                many if many > MANY && self.recipient.takes_digests() => many,
                few => few.min(1),
            };
            let taken: Vec<Arc<Notice>> = books.waiting.drain(..count).collect();
            if let Some(notice) = joined(&taken, clock::now()) {
                books.under_way = count as u64;
                return Some((notice, count as u64));
            }
            books = self.changed.wait(books).expect(UNBROKEN);
        }
    }

    /// False where it was left off: it is neither told nor given up.
    fn deliver(&self, notice: &Notice, count: u64) -> bool {
        for attempt in 1.. {
            let trouble = match self.recipient.tell(notice, self.limit()) {
                Ok(_) => {
                    let mut books = self.books();
                    books.trouble = None;
                    let dropped = std::mem::take(&mut books.dropped);
                    drop(books);
                    if dropped > 0 {
                        (self.complain)(format!(
                            "{LINE} {}: it is there again; {dropped} were dropped",
                            self.recipient
                        ));
                    }
                    return true;
                }
                Err(trouble) => trouble,
            };
            self.books().trouble = Some(trouble.why.clone());
            let wait = self.times.after(attempt).filter(|_| trouble.may_pass);
            match wait.map(|wait| wait.max(trouble.after.unwrap_or_default())) {
                Some(wait) if self.rest(wait) => {}
                Some(_) => return false,
                None => {
                    self.give_up(notice, count, attempt, &trouble.why);
                    return true;
                }
            }
        }
        unreachable!("attempts end")
    }

    /// Commands have more time: they may call others.
    fn limit(&self) -> Duration {
        let usual = match self.recipient {
            Recipient::Webhook(..) => self.times.limit,
            Recipient::Command(_) => self.times.limit * 3,
        };
        let until = self.books().until;
        until.map_or(usual, |at| usual.min(at.saturating_duration_since(Instant::now()).max(Duration::from_millis(10))))
    }

    /// Whether there is to be another attempt. In a hurry it is at once, as long as there is time.
    fn rest(&self, wait: Duration) -> bool {
        let (until, mut books) = (Instant::now() + wait, self.books());
        let hurried = books.until.is_some();
        loop {
            let now = Instant::now();
            match books.until {
                _ if books.gone => return false,
                // Once at once, when the hurry begins; another one only if there is time for it.
                Some(at) if at <= now || hurried && at <= until => return false,
                Some(_) if !hurried => return true,
                _ if until <= now => return true,
                _ => {}
            }
            let end = books.until.map_or(until, |at| at.min(until));
            books = self.changed.wait_timeout(books, end - now).expect(UNBROKEN).0;
        }
    }

    fn give_up(&self, notice: &Notice, count: u64, attempts: usize, why: &str) {
        // Whoever ended the service has told of it.
        if self.books().gone {
            return;
        }
        let what = match &notice.job {
            _ if count > 1 => format!("{count} notices were"),
            Some(job) => format!("the {} of job {} was", notice.event.word(), job.id),
            None => format!("the {} was", notice.event.word()),
        };
        let tried = if attempts == 1 { String::new() } else { format!(" after {attempts} attempts") };
        (self.complain)(format!("{LINE} {}: {what} not told{tried}: {why}", self.recipient));
    }
}

#[cfg(test)]
mod tests {
    use nexus_testkit::until;

    use super::*;
    use crate::notify::sample;

    /// What it complained of, in order.
    fn complaints() -> (Complain, Arc<Mutex<Vec<String>>>) {
        let said = Arc::new(Mutex::new(Vec::new()));
        let keep = said.clone();
        (Arc::new(move |line| keep.lock().unwrap().push(line)), said)
    }

    #[test]
    fn more_than_can_wait_is_dropped_and_said_once_and_what_is_left_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (begun, go) = (dir.path().join("begun"), dir.path().join("go"));
        // It ends with the folder too.
        let script =
            format!("touch {0}; while [ -e {0} ] && [ ! -e {1} ]; do sleep 0.02; done", begun.display(), go.display());
        let (complain, said) = complaints();
        let courier = Courier::start(Recipient::Command(script), Times::of_environment(), complain).unwrap();
        let notice = Arc::new(sample::failure());
        courier.give(notice.clone());
        until("the first is on its way", || begun.exists().then_some(()));
        for _ in 0..MOST_WAITING + 3 {
            courier.give(notice.clone());
        }
        assert_eq!(
            *said.lock().unwrap(),
            ["Notify the command of notify.command: 1000 notices wait for it, and more are dropped"]
        );
        let told = courier.end(Instant::now());
        assert_eq!(
            told.as_deref(),
            Some("Notify the command of notify.command: 1001 notices were not told before the service stopped")
        );
        courier.leave();
        std::fs::write(go, "").unwrap();
        assert_eq!(courier.end(Instant::now()), None);
    }

    #[test]
    fn in_a_hurry_there_is_one_more_attempt_and_no_wait_for_what_comes_too_late() {
        // Nobody listens at a port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let webhook = super::super::Webhook::read(&format!("http://127.0.0.1:{port}/x")).unwrap();
        let (complain, said) = complaints();
        let courier = Courier::start(Recipient::Webhook(webhook, None), Times::of_environment(), complain).unwrap();
        courier.give(Arc::new(sample::failure()));
        until("one attempt has failed", || courier.shared.books().trouble.take());
        let until = Instant::now() + Duration::from_secs(1);
        courier.hurry(until);
        let told = courier.end(until).unwrap();
        assert!(
            told.ends_with(
                "1 notice was not told before the service stopped; the last attempt: the connection was refused"
            ),
            "{told}"
        );
        assert!(said.lock().unwrap().is_empty(), "whoever ends it tells of it");
    }
}
