//! The wall clock may be set while jobs run: by NTP after a boot, by hand, when a virtual machine goes on.
//!
//! Times are stored by the wall clock, and run times and GPU hours are differences of them. So that each difference is what passed on the
//! boot clock (CLOCK_BOOTTIME, which nobody sets and which counts while the machine sleeps), the times of runs on their way move
//! when the wall clock is set: [`Event::ClockSet`](nexus_core::event::Event::ClockSet). What lies between both clocks is in the
//! database with the id of the boot, so that a step is found too that came while no service ran. A run's end is its start and
//! what its shim measured.

use std::sync::OnceLock;
use std::time::Duration;

use nexus_core::apply::{self, MAX_CLOCK_SKEW, Report};
use nexus_core::run::Phase;
use nexus_core::time::Time;

use super::{Engine, Turn, Watch};
use crate::clock;

/// In `meta`: the id of the boot, and the milliseconds from the boot clock to the wall clock.
const KEY: &str = "clock";

/// NTP slews the clock for less; both clocks go slower or faster then.
const MIN_STEP_MS: i64 = 200;

impl Engine {
    /// Before anything else of a turn. Until it is called, [`clock::now`] goes on by the clock as it was.
    pub(super) fn follow_clock(&mut self, turn: &mut Turn, watch: &mut Watch) {
        let offset_ms = clock::offset_ms();
        let known_ms = match watch.clock_ms {
            Some(known_ms) => known_ms,
            None => self.known_clock().unwrap_or_else(|| {
                // Nothing is known of this boot: runs of the last one are compared by the wall clock.
                turn.batch.meta.push((KEY, told(offset_ms)));
                offset_ms
            }),
        };
        let by_ms = offset_ms.saturating_sub(known_ms);
        if by_ms.abs() < MIN_STEP_MS {
            watch.clock_ms = Some(known_ms);
            return clock::follow(known_ms);
        }
        watch.clock_ms = Some(offset_ms);
        clock::follow(offset_ms);
        turn.add_events(apply::clock_set(&mut self.world, by_ms, &self.specs.config.policy, clock::now()));
        turn.batch.meta.push((KEY, told(offset_ms)));
        turn.is_due = true;
    }

    fn known_clock(&self) -> Option<i64> {
        // A database that cannot be read is found by those who need more of it.
        let text = self.store.meta(KEY).ok()??;
        let (boot, offset_ms) = text.split_once(' ')?;
        (boot == boot_id()).then(|| offset_ms.parse().ok())?
    }

    /// The report by the clock as it is set now. `took`: how long the run that ended ran, by its shim.
    pub(super) fn dated(&self, report: Report, took: Option<Duration>) -> Report {
        match report {
            Report::Started { run, pid, at } => {
                let planned_at = self.world.run(run).map_or(at, |run| run.planned_at);
                let now = clock::now().max(planned_at);
                // It was told by a clock that has been set since.
                let is_odd = planned_at.since(at) > MAX_CLOCK_SKEW || at.since(now) > MAX_CLOCK_SKEW;
                Report::Started { run, pid, at: if is_odd { at.clamp(planned_at, now) } else { at } }
            }
            Report::Ended { run, outcome, at } => {
                let since = match self.world.run(run).map(|run| run.phase) {
                    Some(Phase::Running { since, .. }) => Some(since),
                    _ => None,
                };
                let at: Time = since.zip(took).map_or(at, |(since, took)| since.after(took));
                Report::Ended { run, outcome, at }
            }
            other => other,
        }
    }
}

fn told(offset_ms: i64) -> String {
    format!("{} {offset_ms}", boot_id())
}

fn boot_id() -> &'static str {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    BOOT_ID.get_or_init(|| nexus_node::processes::boot_id().unwrap_or_default())
}
