//! Reads what Slurm's programs print, versions 22.05 to 26.05. Reads nothing but its arguments.
//!
//! An output that cannot be read to its end is `Damaged` as a whole: the caller then knows nothing, and must not take
//! a job that is not in it for gone. What cannot be seen here is an output cut behind a whole line, so the caller asks
//! for the exit status too; and squeue ends with 0 where it does not know the user or a field (it says so on stderr).
//!
//! Texts of users stand last in a line and may hold `|` and even line ends. So lists end each record with `|`, and a
//! record whose last field is still open goes on in the next line.

use std::fmt;

use nexus_api::machines::{SlurmGpus, SlurmPartition};

pub use super::reason::{Refusal, refusal};

/// `squeue -h -r -t all -u USER -O FORMAT`. `-r` brings one line for each task of an array that waits.
pub const SQUEUE_FORMAT: &str =
    "JobID:|,ArrayJobID:|,ArrayTaskID:|,State:|,exit_code:|,NodeList:|,RestartCnt:|,StartTime:|,Reason:|,Comment:|";
const SQUEUE_FIELDS: usize = 10;

/// `SLURM_BITSTR_LEN=0 sacct -n -X -p -j JOBS -o FORMAT`. Not `-P`, which leaves out the `|` at the end; not `-u`,
/// which leaves out what waits. 22.05 has no field for restarts.
pub const SACCT_FORMAT: &str = "JobID,State,ExitCode,NodeList,Start,Reason,Comment";
const SACCT_FIELDS: usize = 7;

/// `sinfo -h -e -o FORMAT`. Without `-e` nodes of different size share a line.
pub const SINFO_FORMAT: &str = "%P|%a|%l|%L|%D|%c|%m|%T|%G";

/// Tasks that one expression may stand for; Slurm's own limit is 1001 unless a site raises it.
const MOST_TASKS: usize = 100_000;
/// Text of an unreadable line that goes into an error, in characters.
const LONGEST_LINE: usize = 200;

/// What Slurm says of one job, or of one task of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Of a task, the number of its array.
    pub job: u64,
    pub task: Option<u32>,
    pub state: State,
    pub reason: String,
    /// Known once it is over.
    pub exit: Option<Exit>,
    /// As Slurm writes it, such as `n[1-3]`; empty where it has none.
    pub nodes: String,
    /// 0 from sacct, which does not say.
    pub restarts: u32,
    /// When it started or, while it waits, when Slurm thinks that it will; in the local time of the cluster.
    pub start: Option<String>,
    pub comment: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    pub code: i32,
    pub signal: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    /// It has its nodes, and they are on their way up.
    Starting,
    Running,
    /// By Slurm: other jobs may have its cores.
    Suspended,
    /// By a signal: it keeps its cores.
    Stopped,
    /// Its processes, its epilog or the copying of its files are not done yet.
    Completing,
    /// It ran, and will run again under the same number.
    Requeued,
    /// A sister cluster of the federation has it.
    Revoked,
    Completed,
    Failed,
    Cancelled,
    TimedOut,
    NodeFail,
    Preempted,
    OutOfMemory,
    BootFail,
    Deadline,
    Other,
}

impl State {
    /// Reads `RUNNING`, `R`, `CANCELLED by 0`, `COMPLETED+` and `PENDING,REQUEUED`, where the flag behind says more.
    pub fn of(text: &str) -> State {
        let words = text.split(',').map(|word| word.split_whitespace().next().unwrap_or_default());
        let mut states = words.map(|word| State::of_word(word.trim_end_matches('+')));
        let first = states.next().unwrap_or(State::Other);
        states.rfind(|state| *state != State::Other).unwrap_or(first)
    }

    fn of_word(word: &str) -> State {
        match word {
            // A job whose reservation was deleted waits, held, for a new one.
            "PENDING" | "PD" | "RESV_DEL_HOLD" | "RD" => State::Pending,
            "CONFIGURING" | "CF" | "POWER_UP_NODE" | "PU" => State::Starting,
            "RUNNING" | "R" | "RESIZING" | "RS" | "SIGNALING" | "SI" => State::Running,
            "SUSPENDED" | "S" => State::Suspended,
            "STOPPED" | "ST" => State::Stopped,
            "COMPLETING" | "CG" | "STAGE_OUT" | "SO" => State::Completing,
            // SPECIAL_EXIT is a requeue that a site asked for, and holds. The two failures are of the launch, after
            // which Slurm puts a job back.
            "REQUEUED" | "RQ" | "SPECIAL_EXIT" | "SE" | "EXPEDITING" | "EX" => State::Requeued,
            "LAUNCH_FAILED" | "LF" | "RECONFIG_FAIL" | "RC" | "RF" | "RH" => State::Requeued,
            word if word.starts_with("REQUEUE_") => State::Requeued,
            "REVOKED" | "RV" => State::Revoked,
            "COMPLETED" | "CD" => State::Completed,
            "FAILED" | "F" => State::Failed,
            "CANCELLED" | "CA" => State::Cancelled,
            "TIMEOUT" | "TO" => State::TimedOut,
            "NODE_FAIL" | "NF" => State::NodeFail,
            "PREEMPTED" | "PR" => State::Preempted,
            "OUT_OF_MEMORY" | "OOM" => State::OutOfMemory,
            "BOOT_FAIL" | "BF" => State::BootFail,
            "DEADLINE" | "DL" => State::Deadline,
            _ => State::Other,
        }
    }

    /// Whether no process of it lives or will live under this number. Not of a state that is unknown here: to wait too
    /// long costs time, to start a job twice costs its files. Not of one revoked, which a sister cluster may run; nor
    /// of one that completes, whose processes may still write.
    pub fn is_over(&self) -> bool {
        match self {
            State::Completed | State::Failed | State::Cancelled | State::TimedOut | State::NodeFail => true,
            State::Preempted | State::OutOfMemory | State::BootFail | State::Deadline => true,
            State::Pending | State::Starting | State::Running | State::Suspended | State::Stopped => false,
            State::Completing | State::Requeued | State::Revoked | State::Other => false,
        }
    }
}

/// An output that cannot be trusted, by the first line of it that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub line: String,
}

impl Damaged {
    fn at(line: &str) -> Damaged {
        Damaged { line: line.chars().take(LONGEST_LINE).collect() }
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "failed to read {:?} of Slurm", self.line)
    }
}

impl std::error::Error for Damaged {}

/// For `SQUEUE_FORMAT`.
pub fn squeue(text: &str) -> Result<Vec<Word>, Damaged> {
    let mut words = Vec::new();
    for record in records(text, SQUEUE_FIELDS)? {
        let read = || {
            let fields: Vec<&str> = record.splitn(SQUEUE_FIELDS, '|').collect();
            let [id, array, tasks, state, exit, nodes, restarts, start, reason, comment] = fields.as_slice() else {
                return None;
            };
            let _: u64 = id.parse().ok()?;
            let word = word(array.parse().ok()?, state, exit, nodes)?;
            let word = Word { restarts: restarts.parse().ok()?, start: time(start), reason: known(reason), ..word };
            for_tasks(Word { comment: known(comment), ..word }, tasks)
        };
        words.extend(read().ok_or_else(|| Damaged::at(record))?);
    }
    Ok(words)
}

/// For `SACCT_FORMAT`.
pub fn sacct(text: &str) -> Result<Vec<Word>, Damaged> {
    let mut words = Vec::new();
    for record in records(text, SACCT_FIELDS)? {
        let read = || {
            let fields: Vec<&str> = record.splitn(SACCT_FIELDS, '|').collect();
            let [id, state, exit, nodes, start, reason, comment] = fields.as_slice() else { return None };
            let (job, tasks) = id.split_once('_').unwrap_or((id, "N/A"));
            // `12+1` is the second part of a heterogeneous job, which Slurm numbers 13 elsewhere.
            let (job, part) = job.split_once('+').unwrap_or((job, "0"));
            let job = job.parse::<u64>().ok()?.checked_add(part.parse().ok()?)?;
            let word = Word { start: time(start), reason: known(reason), ..word(job, state, exit, nodes)? };
            let tasks = tasks.strip_prefix('[').map_or(Some(tasks), |tasks| tasks.strip_suffix(']'))?;
            for_tasks(Word { comment: known(comment), ..word }, tasks)
        };
        words.extend(read().ok_or_else(|| Damaged::at(record))?);
    }
    Ok(words)
}

/// For `SLURM_BITSTR_LEN=0 scontrol -o show jobs`; without the variable long lists of tasks end in `...`, which is
/// damage. It lists the jobs of everybody, whose names and comments may imitate lines, so squeue is to be asked first.
pub fn scontrol(text: &str) -> Result<Vec<Word>, Damaged> {
    if text.trim_end() == "No jobs in the system" {
        return Ok(Vec::new());
    }
    let begins =
        |line: &str| line.strip_prefix("JobId=").is_some_and(|id| id.starts_with(|c: char| c.is_ascii_digit()));
    let mut records: Vec<String> = Vec::new();
    for line in whole_lines(text)? {
        match records.last_mut() {
            _ if begins(line) => records.push(line.to_owned()),
            Some(record) => record.extend(["\n", line]),
            None => return Err(Damaged::at(line)),
        }
    }
    let mut words = Vec::new();
    for record in records {
        words.extend(scontrol_record(&record).ok_or_else(|| Damaged::at(&record))?);
    }
    Ok(words)
}

/// Fields are looked for one behind the other, since texts of users stand between them.
fn scontrol_record(record: &str) -> Option<Vec<Word>> {
    let (head, rest) = record.split_once(" JobName=")?;
    let of_head = |key: &str| head.split(' ').find_map(|field| field.strip_prefix(key));
    let job = of_head("ArrayJobId=").or_else(|| of_head("JobId="))?.parse().ok()?;
    let tasks = of_head("ArrayTaskId=").unwrap_or("N/A");
    let (before, rest) = rest.split_once(" Reason=")?;
    let (_, state) = before.rsplit_once(" JobState=")?;
    let (reason, rest) = rest.split_once(" Dependency=")?;
    let (reason, _) = reason.split_once(" FailedNode=").unwrap_or((reason, ""));
    let (restarts, rest) = rest.split_once(" Restarts=")?.1.split_once(' ')?;
    let is_batch = rest.starts_with("BatchFlag=") && !rest.starts_with("BatchFlag=0");
    let (exit, rest) = rest.split_once(" ExitCode=")?.1.split_once(' ')?;
    let (start, rest) = rest.split_once(" StartTime=")?.1.split_once(' ')?;
    let (nodes, rest) = rest.split_once(" NodeList=")?.1.split_once(' ')?;
    let (_, rest) = rest.split_once(" WorkDir=")?;
    // Only a batch job has files, which stand behind the comment: without them the record is cut in it.
    let end = if is_batch { rest.rfind(" StdErr=")? } else { rest.len() };
    let comment = rest[..end].split_once(" Comment=").map_or("", |(_, comment)| comment.trim_end());
    // Slurm writes its sentences with underscores here.
    let reason = known(&reason.replace('_', " "));
    let word = Word { reason, restarts: restarts.parse().ok()?, start: time(start), ..word(job, state, exit, nodes)? };
    for_tasks(Word { comment: known(comment), ..word }, tasks)
}

/// The lines of a text that ends with a whole one.
fn whole_lines(text: &str) -> Result<std::str::Lines<'_>, Damaged> {
    if text.is_empty() || text.ends_with('\n') {
        return Ok(text.lines());
    }
    Err(Damaged::at(text.lines().last().unwrap_or_default()))
}

/// Records of a list, each without the `|` at its end.
fn records(text: &str, fields: usize) -> Result<Vec<&str>, Damaged> {
    let mut records = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for line in whole_lines(text)? {
        end += line.len() + 1;
        let record = &text[begin..end - 1];
        // Only the last field may hold a line end.
        if record.matches('|').take(fields).count() < fields - 1 {
            return Err(Damaged::at(record));
        }
        if let Some(record) = record.strip_suffix('|').filter(|record| record.matches('|').count() >= fields - 1) {
            records.push(record);
            begin = end;
        }
    }
    if begin < text.len() { Err(Damaged::at(&text[begin..])) } else { Ok(records) }
}

/// What all three programs say of a job.
fn word(job: u64, state: &str, exit: &str, nodes: &str) -> Option<Word> {
    let state = State::of(state);
    let exit = read_exit(exit)?.filter(|_| state.is_over());
    let nodes = if nodes == "None assigned" { String::new() } else { known(nodes) };
    let (reason, comment) = (String::new(), String::new());
    Some(Word { job, task: None, state, reason, exit, nodes, restarts: 0, start: None, comment })
}

fn for_tasks(word: Word, tasks: &str) -> Option<Vec<Word>> {
    if tasks == "N/A" {
        return Some(vec![word]);
    }
    Some(read_tasks(tasks)?.into_iter().map(|task| Word { task: Some(task), ..word.clone() }).collect())
}

/// Reads `4`, `0-9%2`, `1-898:3` and `1,5,90-99`.
fn read_tasks(text: &str) -> Option<Vec<u32>> {
    let (list, _most_at_once) = text.split_once('%').unwrap_or((text, ""));
    let mut tasks = Vec::new();
    for part in list.split(',') {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        let step = step.parse().ok().filter(|step| *step > 0)?;
        tasks.extend((first..=last).step_by(step).take(MOST_TASKS + 1));
        if last < first || tasks.len() > MOST_TASKS {
            return None;
        }
    }
    Some(tasks)
}

/// Reads `3:0` and the status as `wait` has it, which squeue of 22.05 writes. The outer `None` is damage.
fn read_exit(text: &str) -> Option<Option<Exit>> {
    if text.is_empty() || text == "N/A" {
        return Some(None);
    }
    if let Some((code, signal)) = text.split_once(':') {
        return Some(Some(Exit { code: code.parse().ok()?, signal: signal.parse().ok()? }));
    }
    let status: u32 = text.parse().ok()?;
    let known = Exit { code: (status >> 8) as i32 & 0xff, signal: status as i32 & 0x7f };
    // A larger one is Slurm's mark for a number that it does not have.
    Some((status <= 0xffff).then_some(known))
}

fn time(text: &str) -> Option<String> {
    text.starts_with(|c: char| c.is_ascii_digit()).then(|| text.to_owned())
}

fn known(text: &str) -> String {
    if text == "(null)" { String::new() } else { text.to_owned() }
}

/// For `SINFO_FORMAT`. Partitions come in the order of the site.
pub fn sinfo(text: &str) -> Result<Vec<SlurmPartition>, Damaged> {
    let mut partitions: Vec<SlurmPartition> = Vec::new();
    for line in whole_lines(text)? {
        let (seen, gpus) = sinfo_line(line).ok_or_else(|| Damaged::at(line))?;
        let place = partitions.iter().position(|partition| partition.name == seen.name).unwrap_or(partitions.len());
        let nodes = seen.nodes;
        if let Some(partition) = partitions.get_mut(place) {
            partition.nodes = partition.nodes.saturating_add(nodes);
            partition.usable = partition.usable.saturating_add(seen.usable);
            partition.cpus = partition.cpus.max(seen.cpus);
            partition.memory_mib = partition.memory_mib.max(seen.memory_mib);
        } else {
            partitions.push(seen);
        }
        let kinds = &mut partitions[place].gpus;
        for (kind, count) in gpus {
            let total = nodes.saturating_mul(count.into());
            match kinds.iter_mut().find(|known| known.kind == kind) {
                Some(known) => {
                    known.per_node = known.per_node.max(count);
                    known.total = known.total.saturating_add(total);
                }
                None => kinds.push(SlurmGpus { kind, per_node: count, total }),
            }
        }
    }
    Ok(partitions)
}

/// Nodes of one partition that are alike, and the GPUs of each of them.
fn sinfo_line(line: &str) -> Option<(SlurmPartition, Vec<(String, u16)>)> {
    let fields: Vec<&str> = line.split('|').collect();
    let [name, available, max, default, nodes, cpus, memory, state, gres] = fields.as_slice() else { return None };
    let nodes = nodes.parse().ok()?;
    let partition = SlurmPartition {
        name: name.trim_end_matches('*').to_owned(),
        is_default: name.ends_with('*'),
        is_up: *available == "up",
        max_minutes: minutes(max)?,
        default_minutes: minutes(default)?,
        nodes,
        usable: if is_usable(state) { nodes } else { 0 },
        cpus: cpus.trim_end_matches('+').parse().ok()?,
        memory_mib: memory.trim_end_matches('+').parse().ok()?,
        gpus: Vec::new(),
    };
    (!partition.name.is_empty()).then_some((partition, gpus(gres)?))
}

/// A mark behind the state says more: `*` that it does not answer, `$` maintenance, `@` and `^` a restart; the others
/// that it sleeps, wakes or is spoken for. A reserved node is for those who hold the reservation.
fn is_usable(state: &str) -> bool {
    let word = state.trim_end_matches(['~', '#', '!', '%', '-', '+']);
    let awake = ["idle", "mixed", "allocated", "completing", "planned"];
    awake.contains(&word) || ["powered_down", "powering_down", "powering_up"].contains(&word)
}

/// Reads `30:00`, `2:00:00`, `1-00:00:00`. The outer `None` is damage, the inner one that there is none.
fn minutes(text: &str) -> Option<Option<u64>> {
    if ["infinite", "n/a", "UNLIMITED", "NONE"].contains(&text) {
        return Some(None);
    }
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let numbers: Option<Vec<u64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    let (hours, minutes) = match *numbers?.as_slice() {
        [minutes, _seconds] => (0, minutes),
        [hours, minutes, _seconds] => (hours, minutes),
        _ => return None,
    };
    let hours = days.parse::<u64>().ok()?.checked_mul(24)?.checked_add(hours)?;
    hours.checked_mul(60)?.checked_add(minutes).map(Some)
}

/// Reads `gpu:a100:4(S:0,3),gpu:2,shard:8`.
fn gpus(gres: &str) -> Option<Vec<(String, u16)>> {
    let mut gpus: Vec<(String, u16)> = Vec::new();
    // A comma within brackets leaves pieces that are no GPUs.
    for item in gres.split(',') {
        let item = item.split('(').next().unwrap_or_default();
        let parts: Vec<&str> = item.split(':').filter(|part| *part != "no_consume").collect();
        let (kind, count) = match parts.as_slice() {
            ["gpu"] => ("", 1),
            ["gpu", count] => ("", count.parse().ok()?),
            ["gpu", kind, count] => (*kind, count.parse().ok()?),
            ["gpu", ..] => return None,
            _ => continue,
        };
        match gpus.iter_mut().find(|(known, _)| known == kind) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => gpus.push((kind.to_owned(), count)),
        }
    }
    Some(gpus)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub version: Option<String>,
    pub cluster: Option<String>,
    /// A task's number is below it.
    pub max_array_size: Option<u32>,
    /// How long squeue knows a job that is over.
    pub min_job_age_seconds: Option<u64>,
    /// sacct has something to say.
    pub has_accounting: bool,
}

/// For `scontrol show config`.
pub fn config(text: &str) -> Config {
    let value = |key: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once('='));
        let value = pairs.find(|(name, _)| name.trim() == key)?.1.trim();
        Some(value.to_owned()).filter(|value| !value.is_empty() && value != "(null)")
    };
    Config {
        version: value("SLURM_VERSION"),
        cluster: value("ClusterName"),
        max_array_size: value("MaxArraySize").and_then(|size| size.parse().ok()),
        min_job_age_seconds: value("MinJobAge").and_then(|age| age.split(' ').next()?.parse().ok()),
        has_accounting: value("AccountingStorageType").is_some_and(|kind| kind.ends_with("/slurmdbd")),
    }
}

/// The number in what `sbatch --parsable` printed: `12` or `12;cluster`. Only of a whole line, since a number that is
/// cut is that of another job.
pub fn submitted(text: &str) -> Option<u64> {
    let lines = text.split_inclusive('\n').rev().filter_map(|line| line.strip_suffix('\n'));
    let number = |line: &str| line.trim().split(';').next()?.parse().ok().filter(|job| *job > 0);
    lines.filter_map(number).next()
}

#[cfg(test)]
mod tests;
