//! A user in a hurry: adds jobs and changes its mind about them, through the real binary. An id that was printed, or
//! a verb that succeeded, is acknowledged, whatever else became of the command.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use nexus_testkit::{Chance, Nexus, Output, signal};

use super::ledger::Ends;

/// Jobs of one client that may be on their way at a time, so that all ends soon after the last blow.
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

/// What differs between the tests that have clients.
#[derive(Clone, Copy)]
pub struct Ways {
    /// Machines that jobs ask for; nothing for any.
    pub machines: &'static [&'static str],
    /// Whether somebody ends clients in the midst of what they do.
    pub are_killed: bool,
}

/// Ends the clients, also when the test fails meanwhile.
pub struct Ending<'a>(pub &'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub struct Client<'a> {
    nexus: &'a Nexus,
    ledger: &'a Path,
    ends: Ends,
    ways: Ways,
    /// Told of every acknowledgement.
    acknowledge: Sender<()>,
    chance: Chance,
    entries: Vec<Entry>,
}

impl<'a> Client<'a> {
    pub fn new(nexus: &'a Nexus, ledger: &'a Path, acknowledge: Sender<()>, ways: Ways, seed: u64) -> Client<'a> {
        let (ends, chance) = (Ends::of(ledger), Chance::from_seed(seed));
        Client { nexus, ledger, ends, ways, acknowledge, chance, entries: Vec::new() }
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

    fn ahead(&mut self) -> usize {
        let ended = self.ends.look();
        let is_ahead = |entry: &&Entry| !ended.contains(&entry.id) && !entry.end_tried();
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
        if !self.ways.machines.is_empty() && self.chance.one_in(2) {
            args.extend(["--machine".into(), self.chance.pick(self.ways.machines).into()]);
        }
        let ledger = self.ledger.display().to_string();
        let words = ["sh".to_string(), "job.sh".into(), ledger, mode.into(), code.to_string(), seconds.into()];
        match self.chance.one_in(2) {
            true => args.extend(words),
            false => args.push(words.join(" ")),
        }
        let added = run(self.nexus, self.ways, &args);
        self.tell(&added);
        // One that was killed may have printed half a line.
        let ids = added.stdout.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        self.entries.extend(ids.map(|id| Entry { held, long: mode == "long", ..Entry::new(id, &added.typed) }));
    }

    /// Asks something of one of the last jobs; or ends the first that would have its GPUs for ever, since soon nothing else
    /// would run.
    fn meddle(&mut self) {
        let recent = self.entries.len().min(MOST_AHEAD) as u64;
        let place = self.entries.len() - 1 - self.chance.below(recent) as usize;
        let goes_on = |entry: &Entry| entry.long && !entry.acknowledged("kill") && !entry.acknowledged("cancel");
        let first = self.entries.iter().position(goes_on).filter(|_| self.chance.one_in(4));
        let entry = &mut self.entries[first.unwrap_or(place)];
        let verb = match entry.long {
            true => self.chance.pick(&["kill", "cancel"]),
            false => self.chance.pick(&["kill", "cancel", "remove", "hold", "hold", "release", "release", "release"]),
        };
        let done = entry.ask(self.nexus, self.ways, verb);
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
    pub fn new(id: &str, typed: &str) -> Entry {
        Entry { id: id.to_string(), typed: typed.to_string(), held: false, long: false, asked: vec![] }
    }

    fn ask(&mut self, nexus: &Nexus, ways: Ways, verb: &'static str) -> Output {
        let mut args = vec![verb, &self.id];
        args.extend(matches!(verb, "kill" | "cancel").then_some("--no-wait"));
        let done = run(nexus, ways, &args);
        self.asked.push(Asked { verb, acknowledged: done.code == 0 });
        done
    }
}

/// After the last blow: every job may go on, and those that never end by themselves are ended. Nothing fails now but what
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
        let done = entry.ask(nexus, Ways { machines: &[], are_killed: false }, verb);
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

/// A client may fail while its service is ill, but neither hang nor panic.
fn run<S: AsRef<std::ffi::OsStr>>(nexus: &Nexus, ways: Ways, args: &[S]) -> Output {
    let done = nexus.run_limited(args);
    let may_be = matches!(done.code, 0 | 1 | 3) || ways.are_killed && done.code == 128 + signal::SIGKILL;
    assert!(may_be && !done.stderr.contains("panicked"), "{done}");
    done
}
