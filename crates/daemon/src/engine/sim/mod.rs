//! A seeded simulation of the whole engine: the loop of the real service with its real database, on machines, a clock and a
//! disk that pretend.
//!
//! The service is killed between any two effects and in its commits, which leaves them torn; commits fail (a disk that is
//! full, read-only, or fails midway); machines vanish, restart, and come back with old news; reports are lost, late and
//! repeated; clocks are set; the database is damaged. What machines and users know is in a ledger, and the database is held against it after every turn.
//!
//! `NEXUS_SIM_SEED=7` plays one seed and `NEXUS_SIM_SEEDS=10000` more of them, as for the simulation of core.

mod cluster;
mod disk;
mod ledger;
mod login;
mod park;
mod said;
mod site;
mod story;
mod users;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::pretend;
use story::{Counts, Story};

const SEEDS: u64 = 200;
const STEPS: u64 = 250;
const DAMAGED_SEEDS: u64 = 8;

#[test]
fn the_service_loses_nothing_whatever_happens_to_it() {
    let seeds = match number("NEXUS_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NEXUS_SIM_SEEDS").unwrap_or(SEEDS),
    };
    let mut all = Counts::default();
    for seed in seeds {
        match play(seed, false) {
            Ok((_, counts)) => all.add(counts),
            Err(_) => {
                let Err((trace, why)) = play(seed, true) else { panic!("seed {seed} failed and does not fail again") };
                panic!("{}\n\nNEXUS_SIM_SEED={seed}: {why}", trace.join("\n"));
            }
        }
    }
    println!("{all:?}");
}

#[test]
fn a_damaged_database_is_left_alone_until_a_copy_takes_its_place() {
    for seed in 0..DAMAGED_SEEDS {
        let mut story = Story::begin(seed, false);
        story.trouble(seed % 80);
        story.survives_damage();
        story.trouble(40);
        story.drain();
        pretend::clear();
    }
}

#[test]
fn damage_that_is_heard_of_while_the_database_is_away_is_for_good() {
    Story::begin(0, false).hears_of_damage_while_it_waits();
    pretend::clear();
}

/// Four days of one seed in long steps; with NEXUS_TEST_LONG 30 days in steps of minutes, of as many seeds as NEXUS_SIM_SEEDS says,
/// 20 else.
#[test]
fn a_month_leaves_no_job_and_no_idle_hour_untold() {
    let is_long = std::env::var_os("NEXUS_TEST_LONG").is_some();
    let (days, step_minutes, seeds) =
        if is_long { (30, 3, number("NEXUS_SIM_SEEDS").unwrap_or(20)) } else { (4, 12, 1) };
    let seeds = match number("NEXUS_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + seeds,
    };
    for seed in seeds {
        let told = std::env::var_os("NEXUS_SIM_SEED").is_some();
        let mut story = Story::begin(seed, told);
        let outcome = catch_unwind(AssertUnwindSafe(|| story.lives(days, step_minutes)));
        pretend::clear();
        match outcome {
            Ok(told) => println!("seed {seed}: {told:?} {:?}", story.counts),
            Err(broken) => {
                let trace = story.trace.take().unwrap_or_default();
                let end = &trace[trace.len().saturating_sub(400)..];
                panic!("{}\n\nNEXUS_SIM_SEED={seed}: {}", end.join("\n"), words_of(&*broken));
            }
        }
    }
}

#[test]
fn a_seed_tells_one_story() {
    let told = |seed| play(seed, true).map(|(trace, _)| trace);
    assert_eq!(told(7), told(7));
    assert_ne!(told(7), told(9));
}

type Told = (Vec<String>, Counts);

/// What happened, if it is to be told; a rule that was broken, and what happened up to there.
fn play(seed: u64, told: bool) -> Result<Told, (Vec<String>, String)> {
    let mut story = Story::begin(seed, told);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        story.trouble(STEPS);
        story.drain();
    }));
    pretend::clear();
    let (trace, counts) = (story.trace.take().unwrap_or_default(), story.counts);
    match outcome {
        Ok(()) => Ok((trace, counts)),
        Err(broken) => Err((trace, words_of(&*broken))),
    }
}

fn words_of(broken: &(dyn std::any::Any + Send)) -> String {
    let text = broken.downcast_ref::<String>().cloned();
    text.or(broken.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}
