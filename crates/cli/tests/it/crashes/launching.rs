//! The launcher dies, hangs or comes late, alone or with its service: each run starts exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nexus_testkit::{Chance, Nexus, alive, kill, proc, signal, until};

use super::gate::Gate;
use super::readopt::Awake;
use crate::NEXUS;

/// A run that the database has as `starting` while a stopped launcher holds its request.
struct Window {
    nexus: Nexus,
    gate: Gate,
    id: String,
    launcher: u32,
    _awake: Awake,
}

impl Window {
    fn open() -> Window {
        let nexus = Nexus::with_gpus(NEXUS, 1);
        let launcher = nexus.launcher();
        kill(launcher, signal::SIGSTOP);
        until("the launcher is stopped", || proc::stopped(launcher).then_some(()));
        let gate = Gate::new(&nexus, "gate");
        let id = nexus.add(&gate.command());
        assert_eq!(nexus.job(&id)["state"], "starting");
        Window { nexus, gate, id, launcher, _awake: Awake(launcher) }
    }

    fn wake_launcher(&self) {
        kill(self.launcher, signal::SIGCONT);
    }

    /// The launcher of a service that is gone has done what it had to do, and so have shims that came too late.
    fn launcher_is_through(&self) {
        until("the old launcher is gone", || (!alive(self.launcher)).then_some(()));
        self.nobody_is_on_the_way();
        until("a shim that came late is gone", || (self.shims().len() <= 1).then_some(()));
    }

    /// A shim goes by its launcher's name for its first moment.
    fn nobody_is_on_the_way(&self) {
        let launcher = self.nexus.service_process().and_then(|service| self.nexus.launcher_of(service));
        let late = |pid: &u32| proc::name(*pid) == "nexus-launcher" && Some(*pid) != launcher;
        until("shims have their own names", || (!self.nexus.processes().iter().any(late)).then_some(()));
    }

    /// The launcher has taken its request, and nothing came of it.
    fn never_ran(&self) {
        // A request behind it in the launcher's queue: when that ran, the first would have.
        assert_eq!(self.nexus.done("exit 3")["exit_code"], 3);
        self.nobody_is_on_the_way();
        let ran = || self.gate.starts() > 0 || !self.nexus.job_processes().is_empty();
        until("its shim is gone, or it runs", || (self.shims().is_empty() || ran()).then_some(()));
        assert!(!ran(), "it was killed, and runs");
    }

    fn shims(&self) -> Vec<u32> {
        let title = format!("nexus: job {}.", self.id);
        proc::all().into_iter().filter(|pid| alive(*pid) && proc::cmdline(*pid).starts_with(&title)).collect()
    }

    fn ran_once(&self) {
        self.nexus.in_state(&self.id, "running");
        assert_eq!(self.shims().len(), 1);
        self.gate.open(6);
        assert_eq!(self.nexus.ended(&self.id)["exit_code"], 6);
        assert_eq!(self.gate.starts(), 1);
    }
}

#[test]
fn a_launcher_that_dies_takes_no_job_with_it_and_is_replaced() {
    let nexus = Nexus::with_gpus(NEXUS, 2);
    let gate = Gate::new(&nexus, "gate");
    let id = nexus.add(&gate.command());
    nexus.in_state(&id, "running");
    let launcher = nexus.launcher();
    kill(launcher, signal::SIGKILL);
    until("the launcher is gone", || (!alive(launcher)).then_some(()));
    assert_eq!(nexus.done("exit 4")["exit_code"], 4);
    assert_ne!(nexus.launcher(), launcher);
    gate.open(5);
    assert_eq!(nexus.ended(&id)["exit_code"], 5);
    assert_eq!(gate.starts(), 1);
}

#[test]
fn a_launcher_that_hangs_starts_its_run_once_when_it_wakes() {
    let window = Window::open();
    window.wake_launcher();
    window.ran_once();
}

#[test]
fn a_launcher_that_dies_with_a_request_in_hand_does_not_lose_it() {
    let window = Window::open();
    kill(window.launcher, signal::SIGKILL);
    window.ran_once();
}

#[test]
fn a_run_found_starting_after_a_crash_starts_once() {
    let window = Window::open();
    window.nexus.kill_service();
    kill(window.launcher, signal::SIGKILL);
    window.launcher_is_through();
    window.nexus.ok(&["start"]);
    window.ran_once();
}

/// What a late launcher has in hand could start a run again whose marker was tidied away meanwhile.
#[test]
fn a_service_waits_for_the_launcher_of_the_one_before() {
    let window = Window::open();
    window.nexus.kill_service();
    let mut start = window.nexus.command(&["start"]).spawn().expect("the binary runs");
    until("the next service waits", || window.nexus.service_process());
    assert!(start.try_wait().expect("it is our child").is_none());
    window.nexus.fails(3, &["status"]);
    window.wake_launcher();
    assert!(start.wait().expect("it is our child").success());
    window.launcher_is_through();
    window.ran_once();
}

#[test]
fn a_run_that_the_launcher_started_without_a_service_is_adopted() {
    let window = Window::open();
    window.nexus.kill_service();
    window.wake_launcher();
    until("it runs, though there is no service", || (window.gate.starts() == 1).then_some(()));
    window.nexus.ok(&["start"]);
    window.ran_once();
}

#[test]
fn a_run_killed_before_its_launcher_wakes_never_starts() {
    let window = Window::open();
    window.nexus.ok(&["kill", "--no-wait", &window.id]);
    let ended = window.nexus.ended(&window.id);
    assert_eq!((&ended["state"], &ended["reason"]), (&"killed".into(), &"user".into()), "{ended:#}");
    window.wake_launcher();
    window.never_ran();
}

/// The marker that was claimed for it is tidied away by and by; what the launcher has in hand then must not start.
#[test]
fn a_run_killed_long_before_its_launcher_wakes_never_starts() {
    let window = Window::open();
    window.nexus.ok(&["kill", "--no-wait", &window.id]);
    assert_eq!(window.nexus.ended(&window.id)["state"], "killed");
    let marker = window.nexus.run_dir(&window.id, 1).join("started");
    let begin = Instant::now();
    // Tidied or kept, both are right; a tidier that tidies does it within this time.
    until("the marker had the time to go", || (!marker.exists() || begin.elapsed().as_secs() > 8).then_some(()));
    window.wake_launcher();
    window.never_ran();
}

#[test]
fn a_kill_asked_of_a_starting_run_holds_after_a_crash() {
    let window = Window::open();
    let service = window.nexus.service_pid();
    window.nexus.ok(&["kill", "--no-wait", &window.id]);
    kill(service, signal::SIGKILL);
    until("the service is gone", || (!alive(service)).then_some(()));
    window.wake_launcher();
    window.nexus.ok(&["start"]);
    let ended = window.nexus.ended(&window.id);
    assert_eq!((&ended["state"], &ended["reason"]), (&"killed".into(), &"user".into()), "{ended:#}");
    window.launcher_is_through();
    // The launcher may have been quicker than the claim, but not more than once.
    assert!(window.gate.starts() <= 1);
    assert!(window.nexus.job_processes().is_empty());
}

#[test]
fn each_run_starts_once_though_its_launcher_is_killed_over_and_over() {
    let seed = Chance::seed_from("NEXUS_TEST_SEED");
    println!("NEXUS_TEST_SEED={seed}");
    let mut chance = Chance::from_seed(seed);
    let nexus = super::with_quick_retries(8);
    let count = if std::env::var_os("NEXUS_TEST_LONG").is_some() { 3000 } else { 300 };
    let added = nexus.ok(&["add", "-x", &count.to_string(), "echo $NEXUS_JOB_ID $NEXUS_ATTEMPT >> ledger"]);
    let ids: BTreeSet<&str> = added.lines().collect();
    assert_eq!(ids.len(), count);
    let service = nexus.service_process().expect("it runs");
    let mut kills = 0;
    while kills < count / 3 && nexus.json(&["status", "--json"])["pending"] != 0 {
        for _ in 0..5 {
            if let Some(launcher) = nexus.launcher_of(service) {
                kill(launcher, signal::SIGKILL);
                kills += 1;
            }
            // The moment is the experiment.
            std::thread::sleep(Duration::from_micros(chance.below(10_000)));
        }
    }
    println!("{kills} kills");
    assert!(kills > 0);
    nexus.run_limited(&["wait", "--all"]).expect_code(0);
    let ledger = std::fs::read_to_string(nexus.work().join("ledger")).expect("they ran");
    let mut attempts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (id, attempt) in ledger.lines().filter_map(|line| line.split_once(' ')) {
        attempts.entry(id).or_default().push(attempt);
    }
    let doubled: Vec<_> = attempts.iter().filter(|(_, attempts)| attempts.len() > 1).collect();
    assert!(doubled.is_empty(), "seed {seed}, {kills} kills: ran twice, as attempts {doubled:?}");
    assert_eq!(attempts.into_keys().collect::<BTreeSet<_>>(), ids, "seed {seed}, {kills} kills");
}
