//! The power is cut, at every moment at which something had just been put on the disk.
//!
//! One run of many commands and jobs is recorded: all that the service, its launcher and its shims wrote, in order
//! (`nexus_testkit::record`). Then, for each sync of it, the disk is made as a power cut right before that sync was done
//! may have left it, in several ways (`nexus_testkit::disk`), and held against what clients had asked for and been told
//! until then: the database on every such disk, and a real service started on one of them after each cut.
//!
//! `NEXUS_TEST_SEED=7` chooses the seed, `NEXUS_TEST_LONG=1` records 2,000 commands and 500 jobs.

mod clients;
mod database;
mod faults;
mod known;
mod service;
mod verdict;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_testkit::disk::{Body, Disk, Promise};
use nexus_testkit::record::{Event, Recording};
use nexus_testkit::{Chance, Nexus};

use crate::NEXUS;
use known::{Known, Past};

const SEED: &str = "NEXUS_TEST_SEED";
const GPUS: u16 = 4;

/// So much is recorded, and a service is started after every so manyth cut.
struct Size {
    commands: usize,
    jobs: usize,
    served: usize,
}

const SHORT: Size = Size { commands: 60, jobs: 20, served: 4 };
const LONG: Size = Size { commands: 2000, jobs: 500, served: 1 };

/// Disks on which a random part is, for each cut: a fault that needs a certain part shows on few of them.
const TORN: usize = 8;

/// Findings beyond these say nothing new.
const MOST_FINDINGS: usize = 20;

#[test]
fn a_power_cut_at_any_sync_loses_nothing_that_was_answered() {
    let seed = Chance::seed_from(SEED);
    let size = if std::env::var_os("NEXUS_TEST_LONG").is_some() { LONG } else { SHORT };
    println!("{SEED}={seed}, {} commands, {} jobs", size.commands, size.jobs);
    let begin = Instant::now();
    let nexus = Nexus::in_memory(NEXUS);
    let (events, known) = record(&nexus, &size, seed);
    let changes = events.iter().filter(|event| matches!(event, Event::Change(_))).count();
    let syncs = events.iter().filter(|event| matches!(event, Event::SyncEnds { .. })).count();
    println!("recorded in {:.1?}: {changes} changes, {syncs} syncs", begin.elapsed());
    assert_eq!(
        verdict::of_emptied_logs(&events),
        Vec::<usize>::new(),
        "the WAL is written to before it is empty on the disk"
    );

    let mut cuts = Cuts::new(&nexus, &known, Some(size.served), seed);
    cuts.play(&events);
    println!(
        "{} disks, {} databases opened in {:.1?}, {} services started in {:.1?}; all {:.1?}",
        cuts.disks,
        cuts.databases.opened,
        cuts.databases.took,
        cuts.services,
        cuts.services_took,
        begin.elapsed()
    );
    assert!(cuts.findings.is_empty(), "{SEED}={seed}: findings\n{}", cuts.findings.join("\n"));
    assert!(syncs > size.commands / 2, "too few syncs to mean anything: {syncs}");
    for (fault, events) in faults::planted(&events) {
        let known = known.in_place_of(&events);
        let mut cuts = Cuts::new(&nexus, &known, None, seed);
        cuts.play(&events);
        println!("{fault}: {:?} on disk {}", cuts.findings.first(), cuts.disks);
        assert!(!cuts.findings.is_empty(), "{SEED}={seed}: not found: {fault}");
    }
    let unsynced = faults::without_syncs_of(&events, "nexus.db-wal");
    assert!(!verdict::of_emptied_logs(&unsynced).is_empty(), "not found: the emptied WAL is not synced");
}

/// Half of the commands, the service killed while jobs run, which end without it, and the other half.
fn record(nexus: &Nexus, size: &Size, seed: u64) -> (Vec<Event>, Known) {
    let recording = Recording::of(&nexus.root());
    let start = || {
        let started = recording.run(nexus.command(&["start", "--simulate-gpus", &GPUS.to_string()]));
        assert!(started.success(), "{started}");
    };
    start();
    let clients = clients::Clients::new(nexus, &recording, size, seed);
    clients.play_half();
    clients.leave_jobs_alone();
    start();
    clients.play_half();
    clients.finish();
    let commands = clients.commands();
    let events = recording.finish();
    let mut all = Disk::new(Promise::All);
    events.iter().for_each(|event| all.play(event));
    let wrong = differences(&all, &nexus.root());
    assert!(wrong.is_empty(), "the recording is not the disk:\n{}", wrong.join("\n"));
    let known = Known::new(commands, &events);
    (events, known)
}

/// What was recorded must be what is there, or the recorder has missed something.
fn differences(disk: &Disk, root: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut names = BTreeSet::new();
    for (path, body) in disk.tree().into_iter().filter(|(path, _)| path.starts_with("home")) {
        names.insert(path.clone());
        let real = root.join(&path);
        let same = match body {
            Body::Folder(_) => real.is_dir(),
            Body::Link(target) => std::fs::read_link(&real).is_ok_and(|found| found == *target),
            // Memory that is mapped is not recorded; see there.
            Body::File(_) if path.to_string_lossy().ends_with("-shm") => true,
            // Threads append to it side by side: the order of two lines may be another.
            Body::File(content) if path.ends_with("service.log") => {
                std::fs::metadata(&real).is_ok_and(|found| found.len() == content.len() as u64)
            }
            Body::File(content) => std::fs::read(&real).is_ok_and(|found| found == **content),
        };
        wrong.extend((!same).then(|| format!("{} is not as recorded", path.display())));
    }
    let mut folders = vec![root.join("home")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the test's own").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("it is there"));
            let known = names.contains(path.strip_prefix(root).expect("it lies below"));
            let counts = kind.is_dir() || kind.is_file() || kind.is_symlink();
            wrong.extend((counts && !known).then(|| format!("{} was not recorded", path.display())));
            folders.extend(kind.is_dir().then_some(path));
        }
    }
    wrong
}

/// Goes through the recording and looks at the disk before each sync is done.
struct Cuts<'a> {
    nexus: &'a Nexus,
    known: &'a Known,
    chance: Chance,
    databases: database::Databases,
    /// A service is started after every so manyth cut, on one of its disks by chance; none: after none.
    served: Option<usize>,
    disks: usize,
    services: usize,
    services_took: Duration,
    findings: Vec<String>,
}

impl<'a> Cuts<'a> {
    fn new(nexus: &'a Nexus, known: &'a Known, served: Option<usize>, seed: u64) -> Cuts<'a> {
        Cuts {
            nexus,
            known,
            chance: Chance::from_seed(seed),
            databases: database::Databases::new(nexus.file("database/nexus.db", "")),
            served,
            disks: 0,
            services: 0,
            services_took: Duration::ZERO,
            findings: Vec::new(),
        }
    }

    fn play(&mut self, events: &[Event]) {
        let promises = [Promise::Strict, Promise::Journal, Promise::All];
        let mut disks = promises.map(Disk::new);
        let mut cut = 0;
        for (at, event) in events.iter().enumerate() {
            let is_last = at + 1 == events.len();
            if matches!(event, Event::SyncEnds { .. }) || is_last {
                cut += 1;
                let past = self.known.until(at);
                let is_served = self.served.is_some_and(|served| cut % served == 0);
                let served = is_served.then(|| self.chance.below(4) as usize);
                for (number, (disk, promise)) in disks.iter().zip(promises).enumerate() {
                    self.look(disk, &past, &format!("cut {cut}, {promise:?}"), served == Some(number));
                }
                for number in 0..TORN {
                    let torn = disks[cut % 2].torn(&mut self.chance);
                    let which = format!("cut {cut}, torn {:?}", promises[cut % 2]);
                    self.look(&torn, &past, &which, number == 0 && served == Some(3));
                }
                if self.findings.len() >= MOST_FINDINGS {
                    return;
                }
            }
            disks.iter_mut().for_each(|disk| disk.play(event));
        }
    }

    fn look(&mut self, disk: &Disk, past: &Past, which: &str, is_served: bool) {
        self.disks += 1;
        let mut findings = verdict::of_records(disk);
        match self.databases.open(disk) {
            Ok(rows) => {
                findings.extend(verdict::of_rows(&rows, past));
                if is_served {
                    let begin = Instant::now();
                    findings.extend(service::started_on(self.nexus, disk, &rows, past));
                    self.services += 1;
                    self.services_took += begin.elapsed();
                }
            }
            Err(wrong) => findings.push(wrong),
        }
        self.findings.extend(findings.into_iter().map(|finding| format!("{which}: {finding}")));
    }
}

/// Where the files of a home lie on the recorded disk.
fn in_home(name: &str) -> PathBuf {
    Path::new("home").join(name)
}
