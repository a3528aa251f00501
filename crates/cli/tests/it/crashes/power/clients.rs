//! Users who add jobs and change their minds about them, through the real binary, one command after the other each.
//! What they ask, and what is answered, has its place in the recording.

use std::sync::Mutex;

use nexus_testkit::record::Recording;
use nexus_testkit::{Chance, Nexus, until};
use serde_json::Value;

use super::Size;
use super::known::{Asked, Command, End, answered_note, asked_note};

const CLIENTS: usize = 3;

/// A client changes one of its newest jobs.
const RECENT: usize = 6;

pub struct Clients<'a> {
    nexus: &'a Nexus,
    recording: &'a Recording,
    /// Of each client.
    commands_a_half: usize,
    /// Every so manyth command adds a job.
    add_every: usize,
    ledger: String,
    all: Mutex<Vec<Command>>,
    hands: Vec<Mutex<Hand>>,
}

/// One client.
struct Hand {
    chance: Chance,
    /// Number and id of its jobs.
    jobs: Vec<(usize, String)>,
    /// A job that does not end by itself.
    endless: Option<(usize, String)>,
}

impl<'a> Clients<'a> {
    pub fn new(nexus: &'a Nexus, recording: &'a Recording, size: &Size, seed: u64) -> Clients<'a> {
        let hand = |number| Hand {
            chance: Chance::from_seed(seed * CLIENTS as u64 + number as u64),
            jobs: Vec::new(),
            endless: None,
        };
        Clients {
            nexus,
            recording,
            commands_a_half: size.commands.div_ceil(2 * CLIENTS),
            add_every: size.commands / size.jobs,
            ledger: nexus.file("ledger", "").display().to_string(),
            all: Mutex::default(),
            hands: (0..CLIENTS).map(|number| Mutex::new(hand(number))).collect(),
        }
    }

    pub fn play_half(&self) {
        std::thread::scope(|scope| {
            for hand in &self.hands {
                scope.spawn(move || {
                    let mut hand = hand.lock().expect("no client panics");
                    for turn in 0..self.commands_a_half {
                        match hand.endless.take() {
                            Some((job, id)) => drop(self.ask(job, Asked::Cancel, &["cancel", "--no-wait", &id])),
                            None if turn % self.add_every == 0 => self.add(&mut hand),
                            None => self.meddle(&mut hand),
                        }
                    }
                });
            }
        });
    }

    /// Kills the service while jobs run, and waits until they have ended: their records alone know how.
    pub fn leave_jobs_alone(&self) {
        let mut hand = self.hands[0].lock().expect("no client panics");
        if let Some((job, id)) = hand.endless.take() {
            self.ask(job, Asked::Cancel, &["cancel", "--no-wait", &id]);
        }
        let left: Vec<String> = [0, 7].map(|code| self.submit(&mut hand, code, "sleep 1", false)).into();
        left.iter().for_each(|id| drop(self.nexus.in_state(id, "running")));
        self.nexus.kill_service();
        for id in left {
            let record = self.nexus.run_dir(&id, 1).join("exit.json");
            until("the job has left its record", || record.exists().then_some(()));
        }
    }

    /// What runs may end; the service goes.
    pub fn finish(&self) {
        for hand in &self.hands {
            let endless = hand.lock().expect("no client panics").endless.take();
            if let Some((job, id)) = endless {
                self.ask(job, Asked::Cancel, &["cancel", "--no-wait", &id]);
            }
        }
        until("nothing runs any more", || {
            let live = self.nexus.json(&["ls", "--json"]);
            live.as_array().is_some_and(|jobs| jobs.iter().all(|job| job["state"] == "held")).then_some(())
        });
        self.nexus.ok(&["stop", "-y"]);
    }

    pub fn commands(self) -> Vec<Command> {
        self.all.into_inner().expect("no client panics")
    }

    fn add(&self, hand: &mut Hand) {
        let code = hand.chance.pick(&[0, 0, 0, 1, 3, 42]);
        let body = hand.chance.pick(&["", "", "", "echo said", "sleep 0.1", "sleep 1000"]);
        let held = hand.chance.one_in(2);
        self.submit(hand, code, body, held);
    }

    fn submit(&self, hand: &mut Hand, code: i64, body: &str, held: bool) -> String {
        let endless = body == "sleep 1000";
        let held = held && !endless;
        let priority = hand.chance.below(3) as i64;
        let asked = Asked::Add { code, held, endless, priority };
        let priority = priority.to_string();
        let body = if body.is_empty() { ":" } else { body };
        let text = format!("echo $NEXUS_JOB_ID >> {}; {body}; exit {code}", self.ledger);
        let (job, answer) = self.ask_numbered(None, asked, |name| {
            let mut args = vec!["add".to_string(), "--name".into(), name, "--priority".into(), priority.clone()];
            args.extend(held.then(|| "--hold".into()));
            args.push(text.clone());
            args
        });
        let id = answer.trim_end().to_string();
        hand.jobs.push((job, id.clone()));
        hand.endless = endless.then(|| (job, id.clone()));
        id
    }

    fn meddle(&self, hand: &mut Hand) {
        let recent = hand.jobs.len().min(RECENT) as u64;
        let (job, id) = hand.jobs[hand.jobs.len() - 1 - hand.chance.below(recent) as usize].clone();
        match hand.chance.below(8) {
            0 => drop(self.ask(job, Asked::Hold, &["hold", &id])),
            1 | 2 => drop(self.ask(job, Asked::Release, &["release", &id])),
            3 | 4 => {
                let tag = format!("t{}", hand.chance.below(1000));
                drop(self.ask(job, Asked::Tag(tag.clone()), &["tag", &tag, &id]));
            }
            5 => {
                let priority = hand.chance.below(100) as i64;
                let text = priority.to_string();
                drop(self.ask(job, Asked::Priority(priority), &["edit", &id, "--priority", &text]));
            }
            6 if hand.chance.one_in(2) => drop(self.ask(job, Asked::Cancel, &["cancel", "--no-wait", &id])),
            _ => self.look(job, &id),
        }
    }

    /// What a client saw is as good as an answer.
    fn look(&self, job: usize, id: &str) {
        let (number, answer) = self.ask(job, Asked::Look(None), &["show", id, "--json"]);
        let seen: Value = serde_json::from_str(&answer).expect("a job as JSON");
        let state = seen["state"].as_str().expect("a state").to_string();
        if matches!(state.as_str(), "completed" | "failed" | "killed") {
            let reason = seen["reason"].as_str().map(str::to_string);
            let end = End { state, reason, code: seen["exit_code"].as_i64() };
            self.all.lock().expect("no client panics")[number].asked = Asked::Look(Some(end));
        }
    }

    fn ask(&self, job: usize, asked: Asked, args: &[&str]) -> (usize, String) {
        self.ask_numbered(Some(job), asked, |_| args.iter().map(|arg| arg.to_string()).collect())
    }

    /// Notes that something is asked, asks, and notes the answer; the number of the command, which is that of a new job.
    fn ask_numbered(
        &self,
        job: Option<usize>,
        asked: Asked,
        args: impl FnOnce(String) -> Vec<String>,
    ) -> (usize, String) {
        let number = {
            let mut all = self.all.lock().expect("no client panics");
            let number = all.len();
            all.push(Command { job: job.unwrap_or(number), asked, succeeded: false });
            number
        };
        let args = args(super::known::name_of(number));
        self.recording.note(asked_note(number));
        let done = self.nexus.run_limited(&args);
        self.recording.note(answered_note(number));
        // It may be too late for what was asked.
        assert!(matches!(done.code, 0 | 1) && !done.stderr.contains("panicked"), "{done}");
        assert!(job.is_some() || done.code == 0, "{done}");
        self.all.lock().expect("no client panics")[number].succeeded = done.code == 0;
        (number, done.stdout)
    }
}
