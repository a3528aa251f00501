//! What befalls nexus, one thing at a time, and how it is mended.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nexus_testkit::{Chance, Filler, Inodes, Limited, alive, kill, proc, signal, until};

use super::stage::Stage;
use crate::crashes::readopt::Awake;

/// The longest that something lasts.
const LONGEST_MS: u64 = 500;

/// Who is killed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Service,
    Launcher,
    Shim,
    Client,
    Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfortune {
    Killed(Victim),
    Stopped(Victim),
    DiskFull,
    NoInodes,
    ReadOnly,
    NoDescriptors,
    NoMemory,
    Upgraded,
}

use Misfortune::*;
use Victim::*;

impl Misfortune {
    pub const ALL: [Misfortune; 16] = [
        Killed(Service),
        Killed(Launcher),
        Killed(Shim),
        Killed(Client),
        Killed(Node),
        Stopped(Service),
        Stopped(Launcher),
        Stopped(Shim),
        Stopped(Client),
        Stopped(Node),
        DiskFull,
        NoInodes,
        ReadOnly,
        NoDescriptors,
        NoMemory,
        Upgraded,
    ];

    /// Happens at a moment of chance, lasts for a time of chance, and is mended. Runs whose shims die of it are noted. The
    /// service that must be there still; none if it may have died.
    pub fn befall(self, stage: &Stage, service: u32, chance: &mut Chance, shot: &mut BTreeSet<String>) -> Option<u32> {
        last(chance);
        match self {
            Killed(victim) => {
                let pid = find(victim, stage, service, chance, Some(shot));
                // In the midst of its command, if it is a client's.
                std::thread::sleep(Duration::from_micros(chance.below(5_000)));
                // A shim may have another run by now: which one, it tells while it stands still.
                kill(pid, signal::SIGSTOP);
                shot.extend(stage.shims().into_iter().filter(|(shim, _)| *shim == pid).map(|(_, run)| run));
                kill(pid, signal::SIGKILL);
                until("it is gone", || (!alive(pid)).then_some(()));
            }
            Stopped(victim) => {
                let pid = find(victim, stage, service, chance, None);
                let _awake = Awake(pid);
                kill(pid, signal::SIGSTOP);
                last(chance);
            }
            DiskFull => {
                // Of a service that begins the log of the database has no room yet: nothing can be written down.
                let service = stage.restart(service);
                let mut filler = Filler::of(stage.disk.path());
                let end = Instant::now() + Duration::from_millis(chance.below(LONGEST_MS));
                while Instant::now() < end {
                    // Whoever makes room for itself loses it again.
                    filler.fill();
                    std::thread::sleep(Duration::from_millis(1));
                }
                return Some(service);
            }
            NoInodes => {
                let _inodes = Inodes::of(stage.disk.path());
                last(chance);
            }
            ReadOnly => {
                let _read_only = stage.disk.read_only();
                last(chance);
            }
            NoDescriptors => {
                let _limited = Limited::descriptors(service, chance.below(4)).expect("the service runs");
                last(chance);
            }
            NoMemory => {
                let _limited = Limited::memory(service, chance.below(256 << 10)).expect("the service runs");
                last(chance);
            }
            Upgraded => {
                stage.exchange();
                last(chance);
                stage.restart(service);
            }
        }
        (!matches!(self, Killed(Service) | NoMemory | Upgraded)).then_some(service)
    }
}

/// The moment, or the time it lasts, is the experiment.
fn last(chance: &mut Chance) {
    std::thread::sleep(Duration::from_millis(chance.below(LONGEST_MS)));
}

/// A process of this kind; of one that is to be shot, its run is noted.
fn find(victim: Victim, stage: &Stage, service: u32, chance: &mut Chance, shot: Option<&mut BTreeSet<String>>) -> u32 {
    match victim {
        Service => service,
        Launcher => until("there is a launcher", || stage.nexus.launcher_of(service)),
        Node => until("there is a node", || stage.nodes().first().copied()),
        Client => until("there is a client", || stage.clients().first().copied()),
        Shim => {
            let (pid, run) = stage.until_resumed("there is a shim", || {
                let shims = stage.shims();
                let shim = (!shims.is_empty()).then(|| chance.pick(&shims))?;
                proc::alive(shim.0).then_some(shim)
            });
            shot.map(|shot| shot.insert(run));
            pid
        }
    }
}
