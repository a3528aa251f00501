//! What Slurm says of its queue, and what that means for runs. An answer that failed or was damaged means nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nexus_api::run_dir::{Cause, ExitRecord};
use nexus_core::ids::RunId;

use super::batch::{job_name, of_comment};
use super::judge::{
    FENCED, Judged, NO_GPUS, Verdict, is_unclear, unstarted, was_given_none, with_record, without_record,
};
use super::keeper::{Entry, Keeper, Stage, tell};
use super::parse::{State, Word};
use super::site::{Cancel, Site};
use super::words::{SlurmNews, Told};
use crate::inspect::Seen;
use crate::words::{Report, RunPlace};

/// Between two questions to Slurm at least, whatever is asked.
const LEAST_GAP: Duration = Duration::from_secs(1);

/// Between two looks at its queue while there is something of ours in it; longer where it is slow to answer.
const USUAL_GAP: Duration = Duration::from_secs(2);
const LONGEST_GAP: Duration = Duration::from_secs(30);
const GAP_TIMES_ANSWER: u32 = 20;

/// What the cluster has is read again after so long.
const CLUSTER_AGAIN: Duration = Duration::from_secs(60);

/// Answers that fail one after another before Slurm counts as away.
const FAILURES: u32 = 2;

/// Slurm's word on a failure in which it may have had a hand is waited for this long.
const OWN_PATIENCE: Duration = Duration::from_secs(15);

/// A record is on disk before Slurm says that the job is over; a network file system may be slower to show it.
const RECORD_PATIENCE: Duration = Duration::from_secs(5);

/// Shims look for a fence every five seconds, and jobs take their time to end. Not every one of them is waited for.
const FENCE_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_GRACE: Duration = Duration::from_secs(60);

/// Answers without a job before it counts as forgotten.
const MISSING: u32 = 2;

/// After so many nothing more is expected of the books.
const LONG_MISSING: u32 = 300;

/// Where a job of ours stands in an answer.
type Words = BTreeMap<(u64, Option<u32>), Word>;

impl<S: Site> Keeper<S> {
    /// When Slurm is asked next; none while there is nothing to ask.
    pub(super) fn query_at(&self) -> Option<Duration> {
        let pace = &self.pace;
        let is_wanted = pace.away || !pace.is_known || self.is_wanted();
        let usual = match pace.failures {
            0 => (pace.took * GAP_TIMES_ANSWER).max(USUAL_GAP),
            failures => USUAL_GAP * 2u32.pow(failures.min(5) - 1),
        };
        let gap = if pace.soon && pace.failures == 0 { LEAST_GAP.max(pace.took * 2) } else { usual.min(LONGEST_GAP) };
        let queue = is_wanted.then(|| pace.last.map_or(Duration::ZERO, |last| last + gap));
        let cluster = pace.cluster_at.map(|at| (at + CLUSTER_AGAIN).max(pace.last.unwrap_or_default() + LEAST_GAP));
        [queue, cluster].into_iter().flatten().min()
    }

    fn is_wanted(&self) -> bool {
        self.pace.soon || !self.unclear().is_empty() || self.runs.values().any(|entry| entry.is_open())
    }

    /// Asks, if it is time.
    pub(super) fn query(&mut self) {
        let began = self.site.now();
        if self.query_at().is_none_or(|at| at > began) {
            return;
        }
        let is_cluster_due = self.pace.cluster_at.is_none_or(|at| at + CLUSTER_AGAIN <= began);
        if !self.pace.is_known || self.pace.cluster_at.is_none() || is_cluster_due && !self.pace.soon {
            self.pace.cluster_at = Some(began);
            let answer = self.site.cluster();
            self.answered(began);
            return match answer {
                Ok(cluster) => self.there(Some(Box::new(cluster))),
                Err(error) => self.failed(error),
            };
        }
        self.pace.soon = false;
        let answer = self.site.words();
        self.answered(began);
        match answer {
            Ok(words) => {
                self.there(None);
                self.hear(words, began);
            }
            Err(error) => self.failed(error),
        }
    }

    fn answered(&mut self, began: Duration) {
        let now = self.site.now();
        (self.pace.last, self.pace.took) = (Some(now), now.saturating_sub(began));
    }

    fn failed(&mut self, error: String) {
        self.pace.failures += 1;
        let counts = self.pace.failures >= FAILURES || !self.pace.is_known;
        if counts && !std::mem::replace(&mut self.pace.away, true) {
            self.site.tell(SlurmNews::Away { error });
        }
    }

    /// It answers. After it was away, what it has is told with that.
    fn there(&mut self, cluster: Option<Box<super::words::Cluster>>) {
        self.pace.failures = 0;
        let was_away = self.pace.away;
        if let Some(cluster) = cluster {
            (self.pace.away, self.pace.is_known) = (false, true);
            self.max_array = cluster.max_array.max(1) as usize;
            self.chunk = self.max_array;
            self.site.tell(SlurmNews::Cluster(cluster));
        } else if was_away {
            // The next question is what the cluster has, and its answer says that it is back.
            (self.pace.cluster_at, self.pace.soon) = (None, false);
        }
    }

    /// What there is in Slurm's queue, asked at a time.
    fn hear(&mut self, words: Vec<Word>, asked_at: Duration) {
        let mut jobs: BTreeMap<String, BTreeMap<u64, bool>> = BTreeMap::new();
        let mut known = Words::new();
        for word in words {
            if let Some(batch) = of_comment(&self.service, &word.comment) {
                let lives = jobs.entry(batch.to_string()).or_default().entry(word.job).or_default();
                *lives |= !word.state.is_over();
            }
            known.insert((word.job, word.task), word);
        }
        self.find_unclear(&jobs, asked_at);
        self.cancel_strays(&jobs);
        let sent: Vec<RunId> =
            self.runs.iter().filter(|(_, entry)| entry.number.is_some()).map(|(run, _)| *run).collect();
        let mut missing = BTreeSet::new();
        // Of an array that is known its tasks were, too.
        let arrays: BTreeSet<u64> = known.keys().map(|(job, _)| *job).collect();
        for run in sent {
            let Some(entry) = self.runs.get_mut(&run) else { continue };
            let Some(number) = entry.number else { continue };
            match known.remove(&number) {
                Some(word) => {
                    (entry.missing, entry.was_seen) = (0, true);
                    self.said(run, word);
                }
                None => {
                    entry.missing += 1;
                    entry.was_seen |= arrays.contains(&number.0);
                    let counts = entry.verdict.is_none() && entry.missing >= MISSING && entry.is_open();
                    missing.extend(counts.then_some(run));
                }
            }
        }
        if !missing.is_empty() {
            self.look_back(&missing);
        }
    }

    /// Slurm has these in mind no more: its books may.
    fn look_back(&mut self, runs: &BTreeSet<RunId>) {
        let numbers: BTreeSet<u64> = runs.iter().filter_map(|run| Some(self.runs.get(run)?.number?.0)).collect();
        // Books that cannot be read for ever are none.
        let is_long = runs.iter().any(|run| self.runs.get(run).is_some_and(|entry| entry.missing > LONG_MISSING));
        let words = match self.site.past(&numbers) {
            Ok(words) => words.into_iter().filter(|word| word.state.is_over() || !is_long).collect(),
            Err(_) if is_long => vec![],
            Err(_) => return,
        };
        let mut past: Words = Vec::into_iter(words).map(|word| ((word.job, word.task), word)).collect();
        let now = self.site.now();
        for run in runs {
            let Some(entry) = self.runs.get_mut(run) else { continue };
            match entry.number.and_then(|number| past.remove(&number)) {
                Some(word) => self.said(*run, word),
                None => {
                    entry.verdict = Some((Verdict::Forgotten { was_seen: entry.was_seen }, now));
                    self.settle(*run);
                }
            }
        }
    }

    /// Of one run.
    fn said(&mut self, run: RunId, word: Word) {
        let now = self.site.now();
        let Some(entry) = self.runs.get_mut(&run) else { return };
        let told = Told {
            run,
            job: entry.number.map(job_name),
            state: word.state.word().to_string(),
            reason: word.reason.clone(),
            nodes: word.nodes.clone(),
            start: word.start.clone(),
        };
        tell(entry, told, &mut self.changed);
        let is_over = word.state.is_over();
        let may_be_again = word.restarts > 0 || word.state == State::Requeued;
        let begun_by = may_be_again.then(|| self.site.begun_by(&entry.dir)).flatten();
        // It had begun, and Slurm would run it a second time. Its shim would not; whether it goes on is decided by nexus.
        if begun_by.is_some_and(|(.., restarts)| word.restarts > restarts || word.state == State::Requeued) {
            self.cancels.extend(entry.number.filter(|_| !is_over).map(|number| (number, Cancel::Outright)));
            let word = Word { state: State::Requeued, ..word };
            entry.verdict.get_or_insert((Verdict::Word(word), now));
            return self.settle(run);
        }
        // Another job of Slurm had begun it: that one tells.
        if is_over && word.exit.is_some_and(|exit| [FENCED, NO_GPUS].contains(&exit.code)) {
            let begun_by = self.site.begun_by(&entry.dir).map(|(job, task, _)| (job, task));
            if let Some(begun_by) = begun_by.filter(|begun_by| Some(*begun_by) != entry.number) {
                (entry.number, entry.missing) = (Some(begun_by), 0);
                return;
            }
        }
        if is_over {
            entry.verdict.get_or_insert((Verdict::Word(word), now));
            return self.settle(run);
        }
        // Told by its directory too; a message may be late.
        if word.state == State::Running && !entry.begun {
            self.settle(run);
        }
    }

    /// Batches whose sbatch did not answer: those that Slurm has are found, those that it does not have go out again.
    fn find_unclear(&mut self, jobs: &BTreeMap<String, BTreeMap<u64, bool>>, asked_at: Duration) {
        for (name, again_at) in self.unclear() {
            match jobs.get(&name).and_then(|jobs| jobs.keys().next()) {
                Some(job) => self.number(&name, *job),
                // Nobody waits for it any more. Should it come through after all, it is nobody's.
                None if asked_at >= again_at && self.is_done_with(&name) => self.give_up(&name),
                // The service may have given up what an earlier node was about to submit.
                None if !self.is_asked(&name) => {}
                None if asked_at >= again_at => {
                    self.send(&name);
                }
                None => {}
            }
        }
    }

    /// It is not in Slurm's hands.
    fn give_up(&mut self, name: &str) {
        for entry in self.runs.values_mut() {
            if matches!(&entry.stage, Stage::Sent(batch) if batch == name) {
                entry.stage = Stage::Found;
            }
        }
        self.leave(name);
    }

    /// What was taken twice, and what is in no batch that is known here, is nobody's.
    fn cancel_strays(&mut self, jobs: &BTreeMap<String, BTreeMap<u64, bool>>) {
        for (name, jobs) in jobs {
            let known = self.job_of(name);
            if known.is_none() && !self.knows_all {
                continue;
            }
            let strays = jobs.iter().filter(|(job, lives)| **lives && known.is_none_or(|known| known != Some(**job)));
            for (job, _) in strays {
                // The first to arrive may be the one that began: then the other comes to nothing by itself.
                if !self.began_something(name, *job) {
                    self.cancels.insert((*job, None), Cancel::Outright);
                }
            }
        }
    }

    fn began_something(&self, batch: &str, job: u64) -> bool {
        let of_batch = |entry: &&Entry| matches!(&entry.stage, Stage::Sent(name) if name == batch);
        let began = |entry: &Entry| self.site.begun_by(&entry.dir).is_some_and(|(began, ..)| began == job);
        self.runs.values().filter(of_batch).any(began)
    }

    // Ends.

    /// Finds out from its directory where a run stands, and reports it if that counts.
    pub(super) fn settle(&mut self, run: RunId) {
        let Some(entry) = self.runs.get_mut(&run).filter(|entry| !entry.ended) else { return };
        let now = self.site.now();
        // What Slurm lost sight of may live on: it is told to end before it is called lost.
        let is_orphan = entry.verdict.as_ref().is_some_and(|(verdict, _)| verdict.may_live_on());
        let patience = if is_orphan { FENCE_PATIENCE + entry.grace.min(LONGEST_GRACE) } else { RECORD_PATIENCE };
        let is_late = entry.verdict.as_ref().is_some_and(|(_, since)| now >= *since + patience);
        let seen = if is_late { self.site.look_hard(&entry.dir) } else { self.site.look(&entry.dir) };
        entry.unread = seen.is_err();
        // Nobody may have heard which number sbatch gave it.
        if entry.number.is_none() && !matches!(seen, Ok(Seen::NotStarted | Seen::Claimed)) {
            entry.number = self.site.begun_by(&entry.dir).map(|(job, task, _)| (job, task));
        }
        let verdict = entry.verdict.as_ref().filter(|_| is_late).map(|(verdict, _)| verdict.clone());
        match (seen, verdict) {
            (Ok(Seen::Exited(record)), _) => self.exited(run, record),
            (Ok(Seen::Claimed), _) => {
                (entry.ended, entry.claimed) = (true, true);
                self.site.report(Report::Claimed { run });
            }
            (Ok(Seen::Alive(_)), None) if is_orphan && !entry.fenced => {
                entry.fenced = true;
                self.site.fence(&entry.dir);
            }
            (Ok(Seen::Alive(_)), None) if entry.begun => {}
            (Ok(Seen::Alive(started)), None) => {
                entry.begun = true;
                self.site.report(Report::Started { run, pid: started.pid, at_ms: started.started_at_ms });
            }
            (Ok(Seen::Alive(started) | Seen::Gone(Some(started))), Some(verdict)) => {
                let at_ms = self.site.at_ms();
                self.judged(run, without_record(run, Some(&started), &verdict, at_ms), None);
            }
            (Ok(Seen::Starting | Seen::Gone(_)), Some(verdict)) => {
                let at_ms = self.site.at_ms();
                self.judged(run, without_record(run, None, &verdict, at_ms), None);
            }
            (Ok(Seen::NotStarted), Some(verdict)) => self.never_began(run, &verdict),
            // Nobody is to start it.
            (Ok(Seen::NotStarted), None) if matches!(entry.stage, Stage::Found) => {
                self.runs.remove(&run);
                self.site.report(Report::NotStarted { run });
            }
            (Ok(Seen::NotStarted), None) => self.site.report(Report::Underway { run }),
            // Found by its directory, and no number in it: Slurm cannot be asked.
            (Ok(Seen::Starting | Seen::Gone(_)), None)
                if matches!(entry.stage, Stage::Found) && entry.number.is_none() =>
            {
                entry.verdict.get_or_insert((Verdict::Forgotten { was_seen: false }, now));
            }
            _ => {}
        }
    }

    /// Its marker is taken, so that nothing of it can start after it was called failed.
    fn never_began(&mut self, run: RunId, verdict: &Verdict) {
        let at_ms = self.site.at_ms();
        if was_given_none(verdict) && self.submit_again(run) {
            return;
        }
        let Some(entry) = self.runs.get_mut(&run) else { return };
        let complaint = match &entry.stage {
            Stage::Sent(batch) => self.site.complaint(batch),
            Stage::Waiting(_) | Stage::Found => String::new(),
        };
        // Where its shim came through after all it is looked at again; so is a directory that cannot be written to.
        if let Ok(true) = self.site.claim(&entry.dir) {
            entry.claimed = true;
            self.judged(run, unstarted(run, verdict, &complaint, at_ms), None);
        }
    }

    fn exited(&mut self, run: RunId, record: ExitRecord) {
        let now = self.site.now();
        let Some(entry) = self.runs.get_mut(&run) else { return };
        if is_unclear(&record) && entry.stopping.is_none() && entry.verdict.is_none() {
            let since = *entry.record_since.get_or_insert(now);
            // One that failed by itself mostly did: that is not kept back for long, nor while nobody answers. One that was
            // asked to end was asked by Slurm, which says why, or that it knows no more of it.
            let is_clear = record.cause == Cause::Own && (self.pace.away || now >= since + OWN_PATIENCE);
            if !is_clear && entry.number.is_some() {
                self.pace.soon = true;
                return;
            }
        }
        let verdict = entry.verdict.as_ref().map(|(verdict, _)| verdict).filter(|_| entry.stopping.is_none());
        let judged = with_record(record.clone(), verdict);
        self.judged(run, judged, Some(&record));
    }

    /// `known`: the record that is in its directory.
    fn judged(&mut self, run: RunId, judged: Judged, known: Option<&ExitRecord>) {
        if let Some(entry) = self.runs.get_mut(&run) {
            (entry.ended, entry.record_since, entry.stopping) = (true, None, None);
            // Slurm soon forgets what it said, and the service may have to ask again.
            if let Judged::Ended(record) = &judged
                && known != Some(record)
            {
                let _ = self.site.write_record(&entry.dir, record);
            }
        }
        self.room_again();
        self.site.report(match judged {
            Judged::Ended(record) => Report::Ended { run, record },
            Judged::Lost(error) => Report::Lost { run, error },
        });
    }

    /// Runs that wait for a record, or for Slurm's word, or whose directory could not be read.
    pub(super) fn settle_due(&mut self) {
        let is_due = |entry: &Entry| entry.verdict.is_some() || entry.record_since.is_some() || entry.unread;
        let due = self.runs.iter().filter(|(_, entry)| !entry.ended && is_due(entry));
        for run in due.map(|(run, _)| *run).collect::<Vec<_>>() {
            self.settle(run);
        }
    }

    pub(super) fn cancel(&mut self) {
        if self.cancels.is_empty() || self.pace.away || self.site.now() < self.cancel_at {
            return;
        }
        for how in [Cancel::Gently, Cancel::Outright] {
            let jobs: Vec<_> = self.cancels.iter().filter(|(_, it)| **it == how).map(|(job, _)| *job).collect();
            for jobs in jobs.chunks(MOST_CANCELLED) {
                match self.site.cancel(jobs, how) {
                    Ok(()) => self.cancels.retain(|job, _| !jobs.contains(job)),
                    // Whether it is away is seen by its queue.
                    Err(_) => {
                        self.cancel_at = self.site.now() + USUAL_GAP;
                        return;
                    }
                }
            }
        }
    }

    /// Directories that the service needs no more go when nothing can begin in them.
    pub(super) fn clear(&mut self) {
        let is_done = |entry: &Entry| entry.clear && (!entry.claimed || entry.is_out());
        let done: Vec<RunId> = self.runs.iter().filter(|(_, entry)| is_done(entry)).map(|(run, _)| *run).collect();
        for run in done {
            let Some(entry) = self.runs.remove(&run) else { continue };
            self.site.tidy(RunPlace { run, dir: entry.dir });
            if let Stage::Sent(batch) = entry.stage {
                self.leave(&batch);
            }
        }
    }
}

/// Ids of one call of scancel.
const MOST_CANCELLED: usize = 500;
