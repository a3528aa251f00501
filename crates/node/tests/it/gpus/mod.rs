//! Readings of made-up GPUs through the real library calls, and the locks between services.

mod locks;
mod peers;
mod readings;
mod troubles;

use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nexus_node::gpu::locks::Locks;
use nexus_node::gpu::{Drivers, GpuSeen, GpuState, Reading, Vitals, Watcher, WatcherConfig};
use nexus_testkit::FakeGpus;

use crate::stage::PATIENCE;

/// The driver is given a second (the least deadline) before a call counts as hanging.
const POLL: Duration = Duration::from_millis(20);

/// A watcher and what it reads.
struct Watch {
    watcher: Watcher,
    readings: Receiver<Reading>,
}

impl Watch {
    fn over(fake: &FakeGpus) -> Watch {
        Watch::with_poll(fake, POLL)
    }

    fn with_poll(fake: &FakeGpus, poll: Duration) -> Watch {
        let drivers = Drivers { library: fake.library().into(), smi: Some(fake.smi()), locks: Locks::at(fake.locks()) };
        let (sender, readings) = channel();
        let sender = Mutex::new(sender);
        let sink = Box::new(move |reading| {
            // The test may have ended.
            let _ = sender.lock().unwrap().send(reading);
        });
        Watch { watcher: Watcher::start_with(WatcherConfig { poll }, drivers, sink), readings }
    }

    fn next(&self) -> Reading {
        self.readings.recv_timeout(PATIENCE).expect("a reading at every poll")
    }

    /// The first reading from now on of which this is true.
    fn until(&self, what: &str, is_so: impl Fn(&Reading) -> bool) -> Reading {
        let until = Instant::now() + PATIENCE;
        loop {
            let reading = self.next();
            if is_so(&reading) {
                return reading;
            }
            assert!(Instant::now() < until, "{what}: still {reading:?}");
        }
    }
}

fn vitals(gpu: &GpuSeen) -> &Vitals {
    match &gpu.state {
        GpuState::Read(vitals) => vitals,
        other => panic!("{other:?}"),
    }
}

fn is_read(gpu: &GpuSeen) -> bool {
    matches!(gpu.state, GpuState::Read(_))
}

/// Why it cannot be read; nothing if it can.
fn trouble(gpu: &GpuSeen) -> &str {
    match &gpu.state {
        GpuState::Unreadable { error } => error,
        _ => "",
    }
}

/// A process of the test, ended with it.
struct Sleeper(Child);

impl Sleeper {
    fn start(command: &mut Command) -> Sleeper {
        Sleeper(command.spawn().expect("it can be started"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A user that is on every machine, where the test may become it.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
