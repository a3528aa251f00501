//! A user in a hurry: adds jobs and changes its mind about them, through the real binary. An id that was printed, or
//! a verb that succeeded, is acknowledged, whatever else became of the command.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use nexus_testkit::{Chance, Nexus, Output};

/// Jobs of one client that may be on their way at a time, so that the storm ends soon after the last kill.
const MOST_AHEAD: usize = 40;

/// One acknowledged job, and what was asked of it since.
pub struct Entry {
    pub id: String,
    pub typed: String,
    pub held: bool,
    pub long: bool,
    pub asked: Vec<Asked>,
}

pub struct Asked {
    pub verb: &'static str,
    pub acknowledged: bool,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of `{}`", self.id, self.typed)?;
        for asked in &self.asked {
            write!(f, ", {}{}", asked.verb, if asked.acknowledged { "" } else { " (without success)" })?;
        }
        Ok(())
    }
}

impl Entry {
    /// Whether anybody tried to end it.
    pub fn end_tried(&self) -> bool {
        self.asked.iter().any(|asked| matches!(asked.verb, "kill" | "remove" | "cancel"))
    }

    pub fn acknowledged(&self, verb: &str) -> bool {
        self.asked.iter().any(|asked| asked.verb == verb && asked.acknowledged)
    }

    /// Certainly held: nothing later, not even a failed command, may have released it.
    pub fn is_kept(&self) -> bool {
        let since = match self.asked.iter().rposition(|asked| asked.verb == "hold" && asked.acknowledged) {
            Some(hold) => hold + 1,
            None if self.held => 0,
            None => return false,
        };
        self.asked[since..].iter().all(|asked| asked.verb == "hold" || !asked.acknowledged && asked.verb == "kill")
    }
}

pub struct Client<'a> {
    nexus: &'a Nexus,
    ledger: &'a Path,
    /// Told of every acknowledgement.
    acknowledge: Sender<()>,
    chance: Chance,
    entries: Vec<Entry>,
}

impl<'a> Client<'a> {
    pub fn new(nexus: &'a Nexus, ledger: &'a Path, acknowledge: Sender<()>, seed: u64) -> Client<'a> {
        Client { nexus, ledger, acknowledge, chance: Chance::from_seed(seed), entries: Vec::new() }
    }

    pub fn play(mut self, over: &AtomicBool) -> Vec<Entry> {
        while !over.load(Ordering::Relaxed) {
            if self.chance.below(10) < 6 && self.ahead() < MOST_AHEAD {
                self.add();
            } else if !self.entries.is_empty() {
                self.meddle();
            }
        }
        self.entries
    }

    fn ahead(&self) -> usize {
        let ended = std::fs::read_to_string(self.ledger).unwrap_or_default();
        let is_ahead = |entry: &&Entry| !ended.contains(&format!("E {} ", entry.id)) && !entry.end_tried();
        self.entries.iter().filter(is_ahead).count()
    }

    fn add(&mut self) {
        let (mode, code) = match self.chance.below(10) {
            0 => ("shot", 0),
            1 => ("retry", 7),
            2 => ("long", 0),
            _ => ("exit", self.chance.pick(&[0, 0, 0, 1, 3, 42, 255])),
        };
        let seconds = self.chance.pick(&["0", "0", "0.01", "0.05", "0.1"]);
        let (copies, gpus) = (self.chance.pick(&["1", "1", "1", "3"]), self.chance.pick(&["1", "1", "1", "2"]));
        let held = self.chance.one_in(8);
        let mut args = vec!["add".to_string(), "-x".into(), copies.into(), "--gpus".into(), gpus.into()];
        args.extend(["--priority".into(), self.chance.below(3).to_string()]);
        args.extend(["--retries".into(), if mode == "retry" { "1".into() } else { "0".into() }]);
        args.extend(held.then(|| "--hold".into()));
        let ledger = self.ledger.display().to_string();
        let words = ["sh".to_string(), "job.sh".into(), ledger, mode.into(), code.to_string(), seconds.into()];
        match self.chance.one_in(2) {
            true => args.extend(words),
            false => args.push(words.join(" ")),
        }
        let added = run(self.nexus, &args);
        self.tell(&added);
        let ids = added.stdout.lines().filter(|line| !line.is_empty());
        self.entries.extend(ids.map(|id| Entry {
            id: id.to_string(),
            typed: added.typed.clone(),
            held,
            long: mode == "long",
            asked: vec![],
        }));
    }

    /// Asks something of one of the last jobs.
    fn meddle(&mut self) {
        let recent = self.entries.len().min(MOST_AHEAD) as u64;
        let place = self.entries.len() - 1 - self.chance.below(recent) as usize;
        let entry = &mut self.entries[place];
        let verb = match entry.long {
            true => self.chance.pick(&["kill", "cancel"]),
            false => self.chance.pick(&["kill", "cancel", "remove", "hold", "hold", "release", "release", "release"]),
        };
        let done = entry.ask(self.nexus, verb);
        self.tell(&done);
    }

    fn tell(&self, done: &Output) {
        if done.code == 0 {
            // Nobody listens any more when the storm is over.
            let _ = self.acknowledge.send(());
        }
    }
}

impl Entry {
    fn ask(&mut self, nexus: &Nexus, verb: &'static str) -> Output {
        let mut args = vec![verb, &self.id];
        args.extend(matches!(verb, "kill" | "cancel").then_some("--no-wait"));
        let done = run(nexus, &args);
        self.asked.push(Asked { verb, acknowledged: done.code == 0 });
        done
    }
}

/// After the storm: every job may go on, and those that never end by themselves are ended. Nothing fails now but what
/// is too late.
pub fn finish(nexus: &Nexus, entries: &mut [Entry]) {
    let live = nexus.json(&["ls", "--json"]);
    let state = |id: &str| {
        let job = live.as_array().into_iter().flatten().find(|job| job["id"] == id);
        job.and_then(|job| job["state"].as_str()).map(str::to_string)
    };
    for entry in entries {
        let verb = match (entry.long, state(&entry.id).as_deref()) {
            (true, Some(_)) => "cancel",
            (false, Some("held")) => "release",
            _ => continue,
        };
        let done = entry.ask(nexus, verb);
        assert!(matches!(done.code, 0 | 1), "{done}");
    }
    // Added by a command whose answer was cut off: nobody knows them by id.
    for job in nexus.json(&["ls", "--json"]).as_array().into_iter().flatten() {
        let (id, command) = (job["id"].as_str().expect("an id"), job["command"].as_str().expect("a command"));
        if command.contains(" long ") {
            nexus.run(&["cancel", "--no-wait", id]);
        } else if job["state"] == "held" {
            nexus.run(&["release", id]);
        }
    }
}

/// A client may fail while the service is being killed, but neither hang nor panic.
fn run<S: AsRef<std::ffi::OsStr>>(nexus: &Nexus, args: &[S]) -> Output {
    let done = nexus.run_limited(args);
    assert!(matches!(done.code, 0 | 1 | 3) && !done.stderr.contains("panicked"), "{done}");
    done
}
