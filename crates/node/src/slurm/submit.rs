//! How runs come into Slurm's hands: those of one shape together, written down before it is asked.

use std::time::Duration;

use nexus_core::ids::RunId;

use super::batch::{self, Batch, job_name};
use super::keeper::{COMPANY, Entry, Keeper, Kept, Stage, tell};
use super::shape::Shape;
use super::site::{Cancel, Site, Submission};
use super::words::Told;
use crate::words::{Report, RunPlace};

/// After Slurm said that it takes no more.
const FULL_AGAIN: Duration = Duration::from_secs(30);

/// A batch that may have been taken is submitted again when Slurm did not have it for so long. Whatever of it starts
/// twice starts once: the marker in its run directory sees to that.
const UNCLEAR: Duration = Duration::from_secs(20);
const LONGEST_DOUBLED: u32 = 4;

/// Runs that are given no GPUs are submitted again so often.
const MOST_IN_VAIN: u32 = 3;

/// After Slurm did not answer.
const AFTER_UNCLEAR: Duration = Duration::from_secs(2);

impl<S: Site> Keeper<S> {
    pub(super) fn submit(&mut self) {
        let now = self.site.now();
        let is_due = self.gather_until.is_some_and(|at| at <= now) && self.not_before <= now;
        if !is_due || self.pace.away || !self.pace.is_known {
            return;
        }
        self.gather_until = None;
        self.submit_waiting();
        // Whatever did not go out this time is not forgotten.
        if self.runs.values().any(|entry| matches!(entry.stage, Stage::Waiting(_))) {
            self.gather_until.get_or_insert(now + COMPANY);
        }
    }

    fn submit_waiting(&mut self) {
        let waiting = self.runs.iter().filter_map(|(run, entry)| match &entry.stage {
            Stage::Waiting(shape) => Some((entry.turn, *run, shape.clone())),
            Stage::Sent(_) | Stage::Found => None,
        });
        let mut waiting: Vec<(u64, RunId, Shape)> = waiting.collect();
        waiting.sort_unstable();
        let mut shapes: Vec<(Shape, Vec<RunId>)> = Vec::new();
        for (_, run, shape) in waiting {
            match shapes.iter_mut().find(|(known, _)| *known == shape) {
                Some((_, runs)) => runs.push(run),
                None => shapes.push((shape, vec![run])),
            }
        }
        for (shape, runs) in shapes {
            for runs in runs.chunks(self.chunk.clamp(1, self.max_array)) {
                if !self.submit_together(&shape, runs) {
                    return;
                }
            }
        }
    }

    /// False where nothing more is to be submitted now.
    fn submit_together(&mut self, shape: &Shape, runs: &[RunId]) -> bool {
        let Some(first) = runs.first() else { return true };
        let name = format!("{first}-{:x}", self.site.at_ms());
        let place = |run: &RunId| RunPlace { run: *run, dir: self.runs[run].dir.clone() };
        let batch = Batch {
            format: batch::FORMAT,
            name,
            runs: runs.iter().map(place).collect(),
            shape: shape.clone(),
            grace_ms: runs.iter().map(|run| self.runs[run].grace.as_millis() as u64).max().unwrap_or(0),
            job: None,
        };
        if let Err(error) = self.site.keep(&batch) {
            self.site.forget(&batch.name);
            for run in runs {
                self.runs.remove(run);
                self.start_failed(*run, format!("what is submitted cannot be written down: {error}"));
            }
            return false;
        }
        for run in runs {
            if let Some(entry) = self.runs.get_mut(run) {
                entry.stage = Stage::Sent(batch.name.clone());
            }
        }
        let name = batch.name.clone();
        self.batches.insert(name.clone(), Kept { batch, unclear: None, sent: 0 });
        self.send(&name)
    }

    /// Calls sbatch for a batch that is kept.
    pub(super) fn send(&mut self, name: &str) -> bool {
        let Some(kept) = self.batches.get_mut(name) else { return true };
        let was_unclear = kept.unclear.is_some();
        kept.sent += 1;
        let submission = self.site.submit(&kept.batch);
        let now = self.site.now();
        match submission {
            // An earlier call may have come through all the same.
            Submission::Full(error) if was_unclear => {
                kept.unclear = Some(now);
                self.say_of(name, "REFUSED", &error);
                false
            }
            Submission::Taken(job) => {
                kept.unclear = None;
                self.chunk = self.max_array;
                self.number(name, job);
                self.pace.soon = true;
                true
            }
            Submission::Unclear(error) => {
                kept.unclear = Some(now);
                // The rest waits until Slurm has answered something.
                (self.not_before, self.gather_until) = (now + AFTER_UNCLEAR, Some(now + AFTER_UNCLEAR));
                self.say_of(name, "UNCLEAR", &error);
                self.pace.soon = true;
                false
            }
            Submission::Full(error) => {
                let count = kept.batch.runs.len();
                self.say_of(name, "REFUSED", &error);
                self.take_back(name);
                self.chunk = (count / 2).max(1);
                self.not_before = now + if count > 1 { AFTER_UNCLEAR } else { FULL_AGAIN };
                self.gather_until = Some(self.not_before);
                false
            }
            Submission::Never(error) => {
                self.refused(name, &error);
                true
            }
        }
    }

    /// Slurm's number is known, and on disk if that can be; if not it is found again.
    pub(super) fn number(&mut self, name: &str, job: u64) {
        let Some(kept) = self.batches.get_mut(name) else { return };
        kept.batch.job = Some(job);
        let _ = self.site.keep(&kept.batch);
        for (place, run) in kept.batch.runs.iter().enumerate() {
            let number = (job, kept.batch.task(place));
            let Some(entry) = self.runs.get_mut(&run.run) else { continue };
            entry.number = Some(number);
            if entry.claimed {
                self.cancels.insert(number, Cancel::Outright);
            } else if entry.stopping.is_some() {
                self.cancels.entry(number).or_insert(Cancel::Gently);
            }
            let told = Told {
                run: run.run,
                job: Some(job_name(number)),
                state: "PENDING".into(),
                reason: String::new(),
                nodes: String::new(),
                start: None,
            };
            tell(entry, told, &mut self.changed);
        }
    }

    /// Batches of which nobody knows whether Slurm has them, and when they go out again if it does not. What it never
    /// gives a clear answer to, as a plug-in of its site may refuse it, is tried ever less often.
    pub(super) fn unclear(&self) -> Vec<(String, Duration)> {
        let unclear = self.batches.iter().filter(|(_, kept)| kept.batch.job.is_none());
        let again_at =
            |kept: &Kept| Some(kept.unclear? + UNCLEAR * 2u32.pow(kept.sent.saturating_sub(1).min(LONGEST_DOUBLED)));
        unclear.filter_map(|(name, kept)| Some((name.clone(), again_at(kept)?))).collect()
    }

    /// Slurm's number of a batch that is known here, if it is known itself.
    pub(super) fn job_of(&self, name: &str) -> Option<Option<u64>> {
        self.batches.get(name).map(|kept| kept.batch.job)
    }

    /// A run that was sent and never began waits once more, a few times. False where it does not.
    pub(super) fn submit_again(&mut self, run: RunId) -> bool {
        let now = self.site.now();
        let Some(entry) = self.runs.get_mut(&run).filter(|entry| entry.stopping.is_none()) else { return false };
        let Stage::Sent(name) = entry.stage.clone() else { return false };
        let Some(kept) = self.batches.get(&name).filter(|_| entry.in_vain < MOST_IN_VAIN) else { return false };
        let again = Entry::new(entry.dir.clone(), Stage::Waiting(kept.batch.shape.clone()));
        let (asked, turn, grace, in_vain) = (entry.asked, entry.turn, entry.grace, entry.in_vain + 1);
        *entry = Entry { asked, turn, grace, in_vain, ..again };
        self.gather_until.get_or_insert(now + COMPANY);
        self.leave(&name);
        true
    }

    /// Something of ours has ended: where Slurm took no more, it may now.
    pub(super) fn room_again(&mut self) {
        let now = self.site.now();
        if self.not_before > now {
            (self.not_before, self.gather_until) = (now, Some(now));
        }
    }

    /// A run of a batch is gone; with the last of them the batch is.
    pub(super) fn leave(&mut self, name: &str) {
        let is_needed = |entry: &Entry| matches!(&entry.stage, Stage::Sent(batch) if batch == name);
        if !self.runs.values().any(is_needed) && self.batches.remove(name).is_some() {
            self.site.forget(name);
        }
    }

    fn say_of(&mut self, name: &str, state: &str, reason: &str) {
        let Some(kept) = self.batches.get(name) else { return };
        for RunPlace { run, .. } in &kept.batch.runs {
            let Some(entry) = self.runs.get_mut(run) else { continue };
            let (state, reason) = (state.to_string(), reason.to_string());
            let told = Told { run: *run, job: None, state, reason, nodes: String::new(), start: None };
            tell(entry, told, &mut self.changed);
        }
    }

    /// Slurm did not take it, and says so: its runs wait again.
    fn take_back(&mut self, name: &str) {
        let Some(kept) = self.batches.remove(name) else { return };
        for RunPlace { run, .. } in &kept.batch.runs {
            if let Some(entry) = self.runs.get_mut(run) {
                entry.stage = if entry.ended { Stage::Found } else { Stage::Waiting(kept.batch.shape.clone()) };
            }
        }
        self.site.forget(name);
    }

    /// Slurm will never take it like this.
    fn refused(&mut self, name: &str, error: &str) {
        let Some(kept) = self.batches.remove(name) else { return };
        for RunPlace { run, dir } in kept.batch.runs {
            // Nothing of it can start: if something did all the same, its directory tells.
            match self.site.claim(&dir) {
                Ok(true) => {
                    let record = super::judge::refused(run, error, self.site.at_ms());
                    let _ = self.site.write_record(&dir, &record);
                    self.site.report(Report::Ended { run, record });
                    self.runs.entry(run).and_modify(|entry| {
                        (entry.ended, entry.claimed, entry.stage) = (true, true, Stage::Found);
                    });
                }
                Ok(false) => {
                    let begun_by = self.site.begun_by(&dir).map(|(job, task, _)| (job, task));
                    self.runs.entry(run).and_modify(|entry| {
                        (entry.stage, entry.number) = (Stage::Found, entry.number.or(begun_by));
                    });
                    self.settle(run);
                }
                Err(error) => {
                    self.runs.remove(&run);
                    self.start_failed(run, error.to_string());
                }
            }
        }
        self.site.forget(name);
    }
}
