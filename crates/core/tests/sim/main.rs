//! A seeded simulation of the four steps under faults: crashes, failed commits, lost, late and repeated
//! reports, launches in flight, GPUs that fail, vanish, return and are used by others, machines that come, are moved,
//! paused and removed, and lines to them that are lost and found. A ledger of what really
//! ran is compared with what nexus says, and reasons to wait are followed until the job would start.
//!
//! `NEXUS_SIM_SEED=7` plays one seed, `NEXUS_SIM_SEEDS=100000` plays more of them, `NEXUS_SIM_QUESTIONS=100` follows
//! the reasons of more waiting jobs in each turn.
#![allow(clippy::disallowed_methods, reason = "a test takes its seed from the environment")]

mod answers;
mod chance;
mod disk;
mod explained;
mod hardware;
mod leases;
mod ledger;
mod node;
mod pool;
mod rules;
mod story;
mod streaks;
mod user;
mod watch;

use std::panic::{AssertUnwindSafe, catch_unwind};

use story::Story;

const SEEDS: u64 = 600;
const STEPS: u64 = 300;
const QUESTIONS: u64 = 1;

#[test]
fn nothing_is_lost_doubled_or_made_up() {
    let seeds = match number("NEXUS_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("NEXUS_SIM_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        if play(seed, false).is_err() {
            let Err((trace, why)) = play(seed, true) else { panic!("seed {seed} failed and does not fail again") };
            panic!("{}\n\nNEXUS_SIM_SEED={seed}: {why}", trace.join("\n"));
        }
    }
}

#[test]
fn a_seed_tells_one_story() {
    assert_eq!(play(7, true), play(7, true));
    assert_ne!(play(7, true), play(9, true));
}

/// What happened, if it is to be told; a rule that was broken, and what happened up to there.
fn play(seed: u64, told: bool) -> Result<Vec<String>, (Vec<String>, String)> {
    let questions = number("NEXUS_SIM_QUESTIONS").unwrap_or(QUESTIONS) as usize;
    let mut story = Story::begin(seed, told, questions);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        story.trouble(STEPS);
        story.drain();
    }));
    let trace = story.trace.unwrap_or_default();
    outcome.map_or_else(|broken| Err((trace.clone(), words_of(&*broken))), |()| Ok(trace.clone()))
}

fn words_of(broken: &(dyn std::any::Any + Send)) -> String {
    let text = broken.downcast_ref::<String>().cloned();
    text.or(broken.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}
