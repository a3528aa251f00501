//! Why a job waits, in words with numbers, and what to type about it.

use jiff::Zoned;
use nexus_api::jobs::{GpusMissing, Job, State, Waiting};
use nexus_api::service::{Machine, Status};
use nexus_api::values::mebibytes_text;

use super::place::{gpu_words, index_list};
use super::{text, time};

/// How much there is in all, for the "of 16" in a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub gpus: u16,
    pub cpus: u32,
}

impl Capacity {
    pub fn of(status: &Status) -> Capacity {
        Capacity::of_machines(&status.machines)
    }

    pub fn of_machines(machines: &[Machine]) -> Capacity {
        let gpus = |machine: &Machine| u16::try_from(machine.gpus.len()).unwrap_or(u16::MAX);
        Capacity {
            gpus: machines.iter().map(gpus).max().unwrap_or(0),
            cpus: machines.iter().map(|machine| machine.cpus).max().unwrap_or(0),
        }
    }
}

/// The reason of one waiting job in a table or a line, with what to type where that is short; empty when it does
/// not wait.
pub fn of_job(job: &Job, capacity: Capacity, now: &Zoned) -> String {
    let waiting = match (&job.waiting, job.state) {
        (Some(waiting), _) => waiting,
        (None, State::Held) => &Waiting::Held,
        (None, _) => return String::new(),
    };
    let said = sentence(waiting, capacity, now);
    let short = match waiting {
        Waiting::Held | Waiting::QueuePaused { .. } | Waiting::DiskFull => true,
        Waiting::NoSuchGpus(missing) => there_is_none(missing),
        _ => false,
    };
    match to_type(waiting, &job.id, &[]).filter(|_| short) {
        Some(typed) => format!("{said}: {typed}"),
        None => said,
    }
}

/// One sentence with the numbers: `needs 1 GPU: 2 held by jobs, 1 in use outside nexus, 1 paused`.
pub fn sentence(waiting: &Waiting, capacity: Capacity, now: &Zoned) -> String {
    match waiting {
        Waiting::Held => "held".into(),
        Waiting::SweepStopped { failures, failure } => {
            format!("held: the first {} of its sweep failed, {failure}", text::counted((*failures).into(), "job"))
        }
        Waiting::SweepFull { running, limit } => format!("{running} of its sweep run, {limit} may at once"),
        Waiting::QueuePaused { after_failures: None } => "queue paused".into(),
        Waiting::QueuePaused { after_failures: Some(count) } => {
            format!("queue paused after {} in a row", text::counted((*count).into(), "failed job"))
        }
        Waiting::DiskFull => "the disk is full".into(),
        Waiting::Stopping => "the service is stopping".into(),
        Waiting::Delayed { until } => format!("begins at {}", time::clock(until, now)),
        Waiting::Retry { until } => format!("tried again at {}", time::clock(until, now)),
        Waiting::After { jobs, count } => after(jobs, *count),
        Waiting::NoSuchGpus(missing) => format!("needs {}, there {}{}", gpus(missing), are(missing), never(missing)),
        Waiting::Gpus(missing) => format!("needs {}: {}{}", gpus(missing), counts(missing), never(missing)),
        Waiting::Kept { job, at: Some(at) } => format!("room is kept for {job}, to start by {}", time::clock(at, now)),
        Waiting::Kept { job, at: None } => format!("room is kept for {job}, which waited long"),
        Waiting::Slurm { machine, job, state, reason, meaning, start, .. } => {
            let job = job.as_deref().map(|job| format!(" as {job}")).unwrap_or_default();
            let start = start.as_deref().filter(|at| is_near(at, now));
            let start = start.map(|at| format!(", expected at {}", at.replace('T', " "))).unwrap_or_default();
            let meaning = meaning.as_deref().map(|meaning| format!(": {meaning}")).unwrap_or_default();
            match (state.as_str(), reason.as_str()) {
                ("REFUSED", reason) => format!("{machine} takes no more at the moment: {reason}"),
                ("UNCLEAR", reason) => format!("{machine} was asked and did not answer: {reason}"),
                ("", _) => format!("is given to {machine}"),
                ("PENDING", "" | "None") => format!("waits in {machine}{job}"),
                ("PENDING", reason) => format!("waits in {machine}{job}, {reason}{meaning}{start}"),
                (state, _) => format!("is {state} in {machine}{job}"),
            }
        }
        Waiting::ClusterFull { runs, most } => {
            format!("{} in the cluster, which is to have {most} at most", text::counted((*runs).into(), "job"))
        }
        Waiting::NoSuchCpus { need, exist } => format!("needs {}, there {}", cpus(*need), are_so_many(*exist)),
        Waiting::Cpus { need, free } => {
            format!("needs {}: {free} of {} free", cpus(*need), capacity.cpus.max(*free))
        }
        Waiting::NoSuchRam { need_mib, exist_mib } => {
            format!("needs {} of memory, there are {}", mebibytes_text(*need_mib), text::memory(*exist_mib))
        }
        Waiting::Ram { need_mib, free_mib } => {
            format!("needs {} of memory: {} not given to jobs", mebibytes_text(*need_mib), text::memory(*free_mib))
        }
        Waiting::Machines { class, machine, unreachable, paused, quarantined } => {
            let which = which(class.as_deref(), machine.as_deref());
            let parts = [(*unreachable, "unreachable"), (*paused, "paused"), (*quarantined, "quarantined")];
            let said = parts.iter().filter(|(count, _)| *count > 0);
            match (machine, said.clone().next()) {
                (Some(_), Some((_, word))) => format!("{which} is {word}"),
                _ => {
                    let said: Vec<String> = said.map(|(count, word)| format!("{count} {word}")).collect();
                    format!("no machine of {which} takes jobs: {}", said.join(", "))
                }
            }
        }
        Waiting::NoSuchMachines { machine: Some(machine), .. } => format!("{machine} is not in the pool any more"),
        Waiting::NoSuchMachines { class, .. } => format!("no machine is of {}", which(class.as_deref(), None)),
        Waiting::Next => "starts next".into(),
    }
}

/// Slurm's guess of a start, by the clock there. Of what waits for jobs without a limit it says a year.
fn is_near(at: &str, now: &Zoned) -> bool {
    let day = |text: &str| text.get(..10)?.parse::<jiff::civil::Date>().ok();
    day(at).is_some_and(|day| (day - now.date()).get_days() <= 7)
}

/// `class big`, or the machine.
fn which(class: Option<&str>, machine: Option<&str>) -> String {
    match (class, machine) {
        (_, Some(machine)) => machine.to_string(),
        (class, None) => format!("class {}", class.unwrap_or("default")),
    }
}

/// `comes after abc, abd and 3 more`
fn after(jobs: &[String], count: u64) -> String {
    let named = jobs.join(", ");
    match count.saturating_sub(jobs.len() as u64) {
        0 => format!("comes after {named}"),
        more => format!("comes after {named} and {more} more"),
    }
}

/// `1 free, 2 held by jobs, 1 full (0.25 left)`
fn counts(missing: &GpusMissing) -> String {
    let memory = missing.most_free_mib.map(|mib| format!(" ({} left)", text::memory(mib))).unwrap_or_default();
    // Where its part can be had it is the memory that goes with it that cannot.
    let full = match (missing.part, missing.most_part) {
        (Some(part), Some(left)) if left < part => format!(" ({left} left)"),
        _ => memory.clone(),
    };
    let parts = [
        (missing.free, "free".to_string()),
        (missing.held, "held by jobs".into()),
        (missing.shared, "shared by jobs".into()),
        (missing.full, format!("full{full}")),
        (missing.low_memory, format!("short of memory{memory}")),
        (missing.busy, "too busy to share".into()),
        (missing.outside, "in use outside nexus".into()),
        (missing.paused, "paused".into()),
        (missing.unreadable, "unreadable".into()),
    ];
    let said: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if said.is_empty() { "none is free".into() } else { said.join(", ") }
}

/// No GPU at all, where any would do.
pub fn there_is_none(missing: &GpusMissing) -> bool {
    let GpusMissing { exist, on, mig, left_out, other_model, too_small, .. } = missing;
    *exist == 0 && on.is_none() && [mig, left_out, other_model, too_small].iter().all(|list| list.is_empty())
}

/// What to type, or to do, so that job `id` need not wait; none where there is nothing but to wait. `paused` are
/// the paused GPUs of its machine, if they are known.
pub fn to_type(waiting: &Waiting, id: &str, paused: &[u16]) -> Option<String> {
    Some(match waiting {
        Waiting::Held | Waiting::SweepStopped { .. } => format!("nexus release {id}"),
        Waiting::QueuePaused { .. } => "nexus resume".into(),
        Waiting::DiskFull => "make room".into(),
        Waiting::NoSuchGpus(GpusMissing { left_out, .. }) if !left_out.is_empty() => {
            format!("gpus.use of the configuration leaves out {}", gpu_words(left_out))
        }
        Waiting::NoSuchGpus(missing) if there_is_none(missing) => "--gpus 0 runs on the CPU".into(),
        Waiting::NoSuchGpus(_) | Waiting::NoSuchCpus { .. } | Waiting::NoSuchRam { .. } => {
            format!("nexus edit {id}, to ask for less")
        }
        // The nearest help first: a pause is the user's own.
        Waiting::Gpus(GpusMissing { on, paused: 1.., .. }) => {
            let allowed = |index: &&u16| on.as_ref().is_none_or(|on| on.contains(index));
            let ours: Vec<u16> = paused.iter().filter(allowed).copied().collect();
            let which = if ours.is_empty() { "GPU".into() } else { index_list(&ours) };
            format!("nexus resume {which}")
        }
        Waiting::Gpus(GpusMissing { unreadable: 1.., .. }) => "nexus doctor".into(),
        Waiting::Gpus(GpusMissing { outside: 1.., .. }) => {
            "nexus gpus shows who uses them; gpus.ignore lets some not count".into()
        }
        Waiting::Gpus(GpusMissing { busy: 1.., .. }) => {
            "nexus gpus shows their load; gpus.load_threshold sets how much is too much".into()
        }
        Waiting::Gpus(GpusMissing { low_memory: 1.., vram_mib: None, .. }) => {
            "--vram says how much it needs; gpus.mem_threshold sets how full is too full".into()
        }
        Waiting::Machines { machine: Some(machine), paused: 1.., .. } => format!("nexus machine resume {machine}"),
        Waiting::Machines { .. } => "nexus machine ls".into(),
        Waiting::NoSuchMachines { machine: Some(machine), .. } => format!("nexus machine add {machine}"),
        Waiting::NoSuchMachines { class, .. } => {
            format!("nexus machine mv {} MACHINE", class.as_deref().unwrap_or("default"))
        }
        Waiting::Gpus(_)
        | Waiting::Cpus { .. }
        | Waiting::Ram { .. }
        | Waiting::After { .. }
        | Waiting::Retry { .. }
        | Waiting::Delayed { .. }
        | Waiting::SweepFull { .. }
        | Waiting::Kept { .. }
        | Waiting::Slurm { .. }
        | Waiting::ClusterFull { .. }
        | Waiting::Stopping
        | Waiting::Next => {
            return None;
        }
    })
}

/// `2 GPUs`, `1 GPU of 0-2`, `0.5 GPU`, `8G of 1 A100 GPU`
fn gpus(missing: &GpusMissing) -> String {
    let model = missing.model.as_ref().map(|model| format!("{} ", model.to_uppercase())).unwrap_or_default();
    let gpus = match missing.part {
        Some(part) => format!("{part} {model}GPU"),
        None => text::counted(missing.need.into(), &format!("{model}GPU")),
    };
    let vram = missing.vram_mib.map(|mib| format!("{} of ", text::memory(mib))).unwrap_or_default();
    let among = missing.on.as_ref().map(|on| format!(" of {}", index_list(on))).unwrap_or_default();
    format!("{vram}{gpus}{among}")
}

fn cpus(count: u32) -> String {
    text::counted(count.into(), "CPU")
}

fn are(missing: &GpusMissing) -> String {
    are_so_many(missing.exist.into())
}

fn are_so_many(count: u32) -> String {
    match count {
        0 => "are none".into(),
        1 => "is 1".into(),
        _ => format!("are {count}"),
    }
}

/// GPUs that are there and do not count: `; GPU 3 is in MIG mode`.
fn never(missing: &GpusMissing) -> String {
    let said = |gpus: &[u16], what: &str| match gpus {
        [] => String::new(),
        [one] => format!("; GPU {one} is {what}"),
        several => format!("; GPUs {} are {what}", index_list(several)),
    };
    [
        said(&missing.mig, "in MIG mode"),
        said(&missing.left_out, "left out by gpus.use"),
        said(&missing.other_model, "of another model"),
        said(&missing.too_small, "too small"),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use nexus_api::amount::GpuAmount;

    use super::*;
    use crate::render::samples;

    fn said(waiting: Waiting) -> String {
        let mut job = samples::queued("abc");
        job.waiting = Some(waiting);
        of_job(&job, Capacity { gpus: 4, cpus: 16 }, &samples::now())
    }

    fn machines(class: Option<&str>, machine: Option<&str>, unreachable: u32) -> Waiting {
        let (class, machine) = (class.map(String::from), machine.map(String::from));
        Waiting::Machines { class, machine, unreachable, paused: 0, quarantined: 0 }
    }

    fn no_such(need: u16, exist: u16, on: Option<Vec<u16>>) -> Waiting {
        Waiting::NoSuchGpus(GpusMissing { need, exist, on, ..GpusMissing::default() })
    }

    #[test]
    fn one_that_begins_later_says_when() {
        let mut job = samples::queued("abc");
        job.waiting = Some(Waiting::Delayed { until: "2024-10-24T15:50:00Z".into() });
        assert_eq!(of_job(&job, Capacity { gpus: 4, cpus: 8 }, &samples::now()), "begins at 17:50");
    }

    #[test]
    fn every_reason_has_its_numbers() {
        let cases = [
            (Waiting::Held, "held: nexus release abc"),
            (Waiting::QueuePaused { after_failures: None }, "queue paused: nexus resume"),
            (
                Waiting::QueuePaused { after_failures: Some(3) },
                "queue paused after 3 failed jobs in a row: nexus resume",
            ),
            (Waiting::After { jobs: vec!["abd".into()], count: 1 }, "comes after abd"),
            (Waiting::After { jobs: vec!["abd".into(), "abe".into()], count: 4 }, "comes after abd, abe and 2 more"),
            (Waiting::DiskFull, "the disk is full: make room"),
            (Waiting::Retry { until: "2024-10-24T15:50:00Z".into() }, "tried again at 17:50"),
            (no_such(1, 0, None), "needs 1 GPU, there are none: --gpus 0 runs on the CPU"),
            (no_such(8, 4, None), "needs 8 GPUs, there are 4"),
            (no_such(2, 1, Some(vec![3, 9])), "needs 2 GPUs of 3,9, there is 1"),
            (
                Waiting::NoSuchGpus(GpusMissing {
                    need: 1,
                    on: Some(vec![2, 3, 4]),
                    mig: vec![2],
                    left_out: vec![3, 4],
                    ..GpusMissing::default()
                }),
                "needs 1 GPU of 2-4, there are none; GPU 2 is in MIG mode; GPUs 3,4 are left out by gpus.use",
            ),
            (samples::gpus_needed(2, [1, 3, 0, 0, 0]), "needs 2 GPUs: 1 free, 3 held by jobs"),
            (samples::gpus_needed(1, [0, 2, 1, 1, 0]), "needs 1 GPU: 2 held by jobs, 1 in use outside nexus, 1 paused"),
            (samples::gpus_needed(1, [0, 0, 0, 0, 2]), "needs 1 GPU: 2 unreadable"),
            (samples::gpus_needed(1, [0, 0, 0, 0, 0]), "needs 1 GPU: none is free"),
            (
                Waiting::Gpus(GpusMissing {
                    need: 1,
                    part: GpuAmount::part(500),
                    most_part: GpuAmount::part(250),
                    full: 1,
                    held: 1,
                    ..GpusMissing::default()
                }),
                "needs 0.5 GPU: 1 held by jobs, 1 full (0.25 left)",
            ),
            (
                Waiting::Gpus(GpusMissing {
                    need: 1,
                    vram_mib: Some(8192),
                    most_free_mib: Some(3600),
                    low_memory: 1,
                    busy: 1,
                    ..GpusMissing::default()
                }),
                "needs 8G of 1 GPU: 1 short of memory (3.5G left), 1 too busy to share",
            ),
            (
                Waiting::NoSuchGpus(GpusMissing {
                    need: 2,
                    model: Some("a100".into()),
                    other_model: vec![0, 1],
                    ..GpusMissing::default()
                }),
                "needs 2 A100 GPUs, there are none; GPUs 0,1 are of another model",
            ),
            (Waiting::Ram { need_mib: 16384, free_mib: 9000 }, "needs 16G of memory: 8.8G not given to jobs"),
            (Waiting::NoSuchRam { need_mib: 1 << 20, exist_mib: 24000 }, "needs 1024G of memory, there are 23.4G"),
            (Waiting::Cpus { need: 8, free: 2 }, "needs 8 CPUs: 2 of 16 free"),
            (Waiting::NoSuchCpus { need: 32, exist: 16 }, "needs 32 CPUs, there are 16"),
            (Waiting::Next, "starts next"),
        ];
        for (waiting, text) in cases {
            assert_eq!(said(waiting), text);
        }
    }

    #[test]
    fn machines_are_named_by_class_or_name() {
        let cases = [
            (machines(Some("big"), None, 2), "no machine of class big takes jobs: 2 unreachable"),
            (machines(None, Some("box"), 1), "box is unreachable"),
            (Waiting::NoSuchMachines { class: Some("big".into()), machine: None }, "no machine is of class big"),
            (Waiting::NoSuchMachines { class: None, machine: Some("box".into()) }, "box is not in the pool any more"),
        ];
        for (waiting, text) in cases {
            assert_eq!(said(waiting), text);
        }
    }

    #[test]
    fn what_to_type_fits_the_reason() {
        let typed = |waiting: Waiting| to_type(&waiting, "abc", &[1, 3]);
        assert_eq!(typed(samples::gpus_needed(1, [0, 1, 1, 1, 1])).as_deref(), Some("nexus resume 1,3"));
        assert_eq!(typed(samples::gpus_needed(1, [0, 1, 1, 0, 1])).as_deref(), Some("nexus doctor"));
        assert!(typed(samples::gpus_needed(1, [0, 1, 1, 0, 0])).unwrap().contains("nexus gpus"));
        assert_eq!(typed(samples::gpus_needed(1, [0, 1, 0, 0, 0])), None);
        let Waiting::Gpus(missing) = samples::gpus_needed(1, [0, 0, 0, 1, 0]) else { unreachable!("it is made so") };
        let on_one = Waiting::Gpus(GpusMissing { on: Some(vec![3]), ..missing });
        assert_eq!(typed(on_one).as_deref(), Some("nexus resume 3"), "only what the job may use");
        assert_eq!(typed(no_such(8, 4, None)).unwrap(), "nexus edit abc, to ask for less");
    }
}
