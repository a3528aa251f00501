//! One misfortune after another: processes of nexus are killed and stopped, the disk is full, out of inodes or
//! read-only, the service has no descriptors or memory left, the binary is exchanged. Each is mended, and then jobs must
//! come through here and on another machine. Clients go on all the while, and are killed themselves.
//!
//! The home lies on a small disk of its own, the ledger elsewhere; at the end the ledger is held against what nexus says,
//! as after the storm. `NEXUS_TEST_SEED=7` chooses the order and the moments, `NEXUS_TEST_ROUNDS=160` how many there are.

mod misfortune;
mod stage;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Instant;

use nexus_testkit::{Chance, until};

use self::misfortune::Misfortune;
use self::stage::Stage;
use super::client::{self, Client, Ending, Entry, Ways};
use super::ledger::Ledger;
use super::verdict;

const CLIENTS: u64 = 3;
const SEED: &str = "NEXUS_TEST_SEED";
const WAYS: Ways = Ways { machines: &["local", "host1"], are_killed: true };

#[test]
fn nothing_is_lost_or_doubled_whatever_befalls_nexus() {
    let Some(stage) = Stage::set() else { return };
    let seed = Chance::seed_from(SEED);
    let rounds = super::rounds(Misfortune::ALL.len(), 10 * Misfortune::ALL.len());
    println!("{SEED}={seed}, {rounds} rounds");
    let begin = Instant::now();
    let nexus = &stage.nexus;
    let ledger = nexus.file("ledger", "");
    nexus.file("job.sh", include_str!("../job.sh"));

    let over = AtomicBool::new(false);
    let mut shot = BTreeSet::new();
    let mut entries: Vec<Entry> = std::thread::scope(|scope| {
        let (over, ledger) = (&over, &ledger);
        // Nobody waits for acknowledgements here.
        let (acknowledge, _) = channel();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client::new(nexus, ledger, acknowledge.clone(), WAYS, seed * CLIENTS + number);
                scope.spawn(move || client.play(over))
            })
            .collect();
        let ending = Ending(over);
        let probes = rage(&stage, ledger, rounds, &mut shot, &mut Chance::from_seed(seed));
        drop(ending);
        let typed = clients.into_iter().flat_map(|client| client.join().expect("a client does not panic"));
        typed.chain(probes).collect()
    });
    let raged = begin.elapsed();

    let mut wrong = verdict::of_holds(nexus, &entries);
    client::finish(nexus, &mut entries);
    stage.drains();
    let jobs = verdict::all_ended(nexus);
    let ledger = Ledger::read(&ledger);
    wrong.extend(verdict::of_jobs(&jobs, &entries, &ledger, &shot));
    wrong.extend(ledger.shared_gpus());
    wrong.extend(verdict::of_home(nexus, &jobs));
    wrong.extend(stage.left_behind());
    println!(
        "{} jobs, {} acknowledged, {} runs, {} shims shot; torture {raged:.1?}, all {:.1?}",
        jobs.len(),
        entries.len(),
        ledger.runs(),
        shot.len(),
        begin.elapsed()
    );
    assert!(wrong.is_empty(), "{SEED}={seed}: {} findings\n{}", wrong.len(), wrong.join("\n"));
    assert!(ledger.runs() >= rounds * 4, "too few jobs ran to mean anything: {}", ledger.runs());
}

/// Deals all misfortunes in an order of chance, then in another. The jobs that showed that each was over.
fn rage(stage: &Stage, ledger: &Path, rounds: usize, shot: &mut BTreeSet<String>, chance: &mut Chance) -> Vec<Entry> {
    let begin = Instant::now();
    let (mut deck, mut probes) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        if deck.is_empty() {
            deck = Misfortune::ALL.to_vec();
        }
        let misfortune = deck.swap_remove(chance.below(deck.len() as u64) as usize);
        let service = until("there is a service", || stage.nexus.service_process());
        println!("{:6} ms: {round}, {misfortune:?}, service {service}", begin.elapsed().as_millis());
        let stays = misfortune.befall(stage, service, chance, shot);
        for machine in WAYS.machines {
            probes.push(stage.comes_through(machine, ledger, misfortune));
        }
        if stays.is_some() {
            assert_eq!(stage.nexus.service_process(), stays, "{misfortune:?} ended the service");
        }
    }
    probes
}
