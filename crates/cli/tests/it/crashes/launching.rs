//! The launcher dies, hangs or comes late, alone or with its service: each run starts exactly once.

use nexus_testkit::{Nexus, alive, kill, proc, signal, until};

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
        // A shim goes by its launcher's name for its first moment.
        let launcher = self.nexus.service_process().and_then(|service| self.nexus.launcher_of(service));
        let late = |pid: &u32| proc::name(*pid) == "nexus-launcher" && Some(*pid) != launcher;
        until("a shim that came late is gone", || {
            let nobody_is_late = !self.nexus.processes().iter().any(late);
            (nobody_is_late && self.shims().len() <= 1).then_some(())
        });
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
    // A request behind it in the launcher's queue: when that ran, the first would have.
    assert_eq!(window.nexus.done("exit 3")["exit_code"], 3);
    until("its shim is gone", || window.shims().is_empty().then_some(()));
    assert_eq!(window.gate.starts(), 0);
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
