//! `kill -9` of the service at random moments while clients add, kill, remove, hold and release and jobs end.
//!
//! What really ran is told by a ledger that the jobs themselves write; at the end it is held against what nexus
//! says. `NEXUS_TEST_SEED=7` chooses the seed, `NEXUS_TEST_ROUNDS=1000` how often the service is killed.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nexus_testkit::{Chance, Nexus, alive, kill, signal, until};

use super::client::{self, Client, Ending, Entry, Ways};
use super::ledger::Ledger;
use super::verdict;

const GPUS: u16 = 4;
const CLIENTS: u64 = 3;
const SEED: &str = "NEXUS_TEST_SEED";
const WAYS: Ways = Ways { machines: &[], are_killed: false };

/// The longest a service may live in the storm.
const LONGEST_LIFE_MS: u64 = 400;

#[test]
fn nothing_is_lost_or_doubled_in_a_storm_of_kills() {
    let seed = Chance::seed_from(SEED);
    let rounds = super::rounds(30, 1000);
    println!("{SEED}={seed}, {rounds} rounds");
    let begin = Instant::now();
    let nexus = super::with_quick_retries(GPUS);
    let ledger: PathBuf = nexus.file("ledger", "");
    nexus.file("job.sh", include_str!("job.sh"));

    let over = AtomicBool::new(false);
    let (acknowledge, acknowledged) = channel();
    let mut entries: Vec<Entry> = std::thread::scope(|scope| {
        let (nexus, over, ledger) = (&nexus, &over, &ledger);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client::new(nexus, ledger, acknowledge.clone(), WAYS, seed * CLIENTS + number);
                scope.spawn(move || client.play(over))
            })
            .collect();
        let ending = Ending(over);
        rage(nexus, rounds, &acknowledged, &mut Chance::from_seed(seed));
        drop(ending);
        clients.into_iter().flat_map(|client| client.join().expect("a client does not panic")).collect()
    });
    let raged = begin.elapsed();

    nexus.ok(&["start"]);
    let mut wrong = verdict::of_holds(&nexus, &entries);
    client::finish(&nexus, &mut entries);
    let jobs = verdict::all_ended(&nexus);
    let ledger = Ledger::read(&ledger);
    wrong.extend(verdict::of_jobs(&jobs, &entries, &ledger, &BTreeSet::new()));
    wrong.extend(ledger.shared_gpus());
    wrong.extend(verdict::of_home(&nexus, &jobs));
    println!(
        "{} jobs, {} acknowledged, {} runs; storm {raged:.1?}, all {:.1?}",
        jobs.len(),
        entries.len(),
        ledger.runs(),
        begin.elapsed()
    );
    assert!(wrong.is_empty(), "{SEED}={seed}: {} findings\n{}", wrong.len(), wrong.join("\n"));
    assert!(ledger.runs() >= rounds * 2, "too few jobs ran to mean anything: {}", ledger.runs());
}

/// Kills the service over and over; clients start it again. Now and then its launcher goes with it or alone.
fn rage(nexus: &Nexus, rounds: usize, acknowledged: &Receiver<()>, chance: &mut Chance) {
    for _ in 0..rounds {
        let service = until("clients have started the service again", || nexus.service_process());
        // The moment is the experiment.
        std::thread::sleep(Duration::from_millis(chance.below(LONGEST_LIFE_MS)));
        let launcher = chance.one_in(4).then(|| nexus.launcher_of(service)).flatten();
        if let Some(launcher) = launcher {
            kill(launcher, signal::SIGKILL);
            if chance.one_in(2) {
                continue;
            }
        }
        if chance.one_in(2) {
            // At once after something was acknowledged: that holds all the same.
            acknowledged.try_iter().for_each(drop);
            let _ = acknowledged.recv_timeout(Duration::from_millis(LONGEST_LIFE_MS));
        }
        kill(service, signal::SIGKILL);
        until("the service is gone", || (!alive(service)).then_some(()));
    }
}
