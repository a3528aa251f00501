//! Why a job waits, in words with numbers, and what to type about it.

use jiff::Zoned;
use nexus_api::jobs::{Job, State, Waiting};
use nexus_api::service::{Machine, Status};

use super::place::{gpu_words, index_list};
use super::{text, time};

/// How much there is in all, for the "of 16" in a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub gpus: u16,
    pub cpus: u16,
}

impl Capacity {
    pub fn of(status: &Status) -> Capacity {
        Capacity::of_machines(&status.machines)
    }

    pub fn of_machines(machines: &[Machine]) -> Capacity {
        let most = |count: fn(&Machine) -> u16| machines.iter().map(count).max();
        Capacity {
            gpus: most(|machine| u16::try_from(machine.gpus.len()).unwrap_or(u16::MAX)).unwrap_or(0),
            cpus: most(|machine| machine.cpus).unwrap_or(0),
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
    let short = matches!(
        waiting,
        Waiting::Held | Waiting::QueuePaused | Waiting::DiskFull | Waiting::NoSuchGpus { exist: 0, on: None, .. }
    );
    match to_type(waiting, &job.id, &[]).filter(|_| short) {
        Some(typed) => format!("{said}: {typed}"),
        None => said,
    }
}

/// One sentence with the numbers: `needs 1 GPU: 2 held by jobs, 1 in use outside nexus, 1 paused`.
pub fn sentence(waiting: &Waiting, capacity: Capacity, now: &Zoned) -> String {
    match waiting {
        Waiting::Held => "held".into(),
        Waiting::QueuePaused => "queue paused".into(),
        Waiting::DiskFull => "the disk is full".into(),
        Waiting::Stopping => "the service is stopping".into(),
        Waiting::Retry { until } => format!("tried again at {}", time::clock(until, now)),
        Waiting::NoSuchGpus { need, exist, on, mig, left_out } => {
            format!("needs {}, there {}{}", gpus(*need, on.as_deref()), are(*exist), never(mig, left_out))
        }
        Waiting::Gpus { need, free, on, held, outside, paused, unreadable, mig, left_out } => {
            let parts = [
                (*free, "free"),
                (*held, "held by jobs"),
                (*outside, "in use outside nexus"),
                (*paused, "paused"),
                (*unreadable, "unreadable"),
            ];
            let said = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
            let said: Vec<String> = said.collect();
            let said = if said.is_empty() { "none is free".into() } else { said.join(", ") };
            format!("needs {}: {said}{}", gpus(*need, on.as_deref()), never(mig, left_out))
        }
        Waiting::NoSuchCpus { need, exist } => format!("needs {}, there {}", cpus(*need), are(*exist)),
        Waiting::Cpus { need, free } => {
            format!("needs {}: {free} of {} free", cpus(*need), capacity.cpus.max(*free))
        }
        Waiting::Next => "starts next".into(),
    }
}

/// What to type, or to do, so that job `id` need not wait; none where there is nothing but to wait. `paused` are
/// the paused GPUs of its machine, if they are known.
pub fn to_type(waiting: &Waiting, id: &str, paused: &[u16]) -> Option<String> {
    Some(match waiting {
        Waiting::Held => format!("nexus release {id}"),
        Waiting::QueuePaused => "nexus resume".into(),
        Waiting::DiskFull => "make room".into(),
        Waiting::NoSuchGpus { left_out, .. } if !left_out.is_empty() => {
            format!("gpus.use of the configuration leaves out {}", gpu_words(left_out))
        }
        Waiting::NoSuchGpus { exist: 0, on: None, .. } => "--gpus 0 runs on the CPU".into(),
        Waiting::NoSuchGpus { .. } | Waiting::NoSuchCpus { .. } => {
            format!("nexus remove {id}, and add it again with less")
        }
        // The nearest help first: a pause is the user's own.
        Waiting::Gpus { on, paused: 1.., .. } => {
            let allowed = |index: &&u16| on.as_ref().is_none_or(|on| on.contains(index));
            let ours: Vec<u16> = paused.iter().filter(allowed).copied().collect();
            let which = if ours.is_empty() { "GPU".into() } else { index_list(&ours) };
            format!("nexus resume {which}")
        }
        Waiting::Gpus { unreadable: 1.., .. } => "nexus doctor".into(),
        Waiting::Gpus { outside: 1.., .. } => "nexus gpus shows who uses them; gpus.ignore lets some not count".into(),
        Waiting::Gpus { .. } | Waiting::Cpus { .. } | Waiting::Retry { .. } | Waiting::Stopping | Waiting::Next => {
            return None;
        }
    })
}

/// `2 GPUs`, `1 GPU of 0-2`
fn gpus(count: u16, on: Option<&[u16]>) -> String {
    let among = on.map(|on| format!(" of {}", index_list(on))).unwrap_or_default();
    format!("{}{among}", text::counted(count.into(), "GPU"))
}

fn cpus(count: u16) -> String {
    text::counted(count.into(), "CPU")
}

fn are(count: u16) -> String {
    match count {
        0 => "are none".into(),
        1 => "is 1".into(),
        _ => format!("are {count}"),
    }
}

/// GPUs that are there and do not count: `; GPU 3 is in MIG mode`.
fn never(mig: &[u16], left_out: &[u16]) -> String {
    let said = |gpus: &[u16], what: &str| match gpus {
        [] => String::new(),
        [one] => format!("; GPU {one} is {what}"),
        several => format!("; GPUs {} are {what}", index_list(several)),
    };
    format!("{}{}", said(mig, "in MIG mode"), said(left_out, "left out by gpus.use"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    fn said(waiting: Waiting) -> String {
        let mut job = samples::queued("abc");
        job.waiting = Some(waiting);
        of_job(&job, Capacity { gpus: 4, cpus: 16 }, &samples::now())
    }

    fn no_such(need: u16, exist: u16, on: Option<Vec<u16>>) -> Waiting {
        Waiting::NoSuchGpus { need, exist, on, mig: vec![], left_out: vec![] }
    }

    #[test]
    fn every_reason_has_its_numbers() {
        let cases = [
            (Waiting::Held, "held: nexus release abc"),
            (Waiting::QueuePaused, "queue paused: nexus resume"),
            (Waiting::DiskFull, "the disk is full: make room"),
            (Waiting::Retry { until: "2024-10-24T15:50:00Z".into() }, "tried again at 17:50"),
            (no_such(1, 0, None), "needs 1 GPU, there are none: --gpus 0 runs on the CPU"),
            (no_such(8, 4, None), "needs 8 GPUs, there are 4"),
            (no_such(2, 1, Some(vec![3, 9])), "needs 2 GPUs of 3,9, there is 1"),
            (
                Waiting::NoSuchGpus { need: 1, exist: 0, on: Some(vec![2, 3, 4]), mig: vec![2], left_out: vec![3, 4] },
                "needs 1 GPU of 2-4, there are none; GPU 2 is in MIG mode; GPUs 3,4 are left out by gpus.use",
            ),
            (samples::gpus_needed(2, [1, 3, 0, 0, 0]), "needs 2 GPUs: 1 free, 3 held by jobs"),
            (samples::gpus_needed(1, [0, 2, 1, 1, 0]), "needs 1 GPU: 2 held by jobs, 1 in use outside nexus, 1 paused"),
            (samples::gpus_needed(1, [0, 0, 0, 0, 2]), "needs 1 GPU: 2 unreadable"),
            (samples::gpus_needed(1, [0, 0, 0, 0, 0]), "needs 1 GPU: none is free"),
            (Waiting::Cpus { need: 8, free: 2 }, "needs 8 CPUs: 2 of 16 free"),
            (Waiting::NoSuchCpus { need: 32, exist: 16 }, "needs 32 CPUs, there are 16"),
            (Waiting::Next, "starts next"),
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
        let Waiting::Gpus { need, free, held, outside, paused, unreadable, mig, left_out, .. } =
            samples::gpus_needed(1, [0, 0, 0, 1, 0])
        else {
            unreachable!("it is made so")
        };
        let on = Some(vec![3]);
        let on_one = Waiting::Gpus { need, free, on, held, outside, paused, unreadable, mig, left_out };
        assert_eq!(typed(on_one).as_deref(), Some("nexus resume 3"), "only what the job may use");
        assert_eq!(typed(no_such(8, 4, None)).unwrap(), "nexus remove abc, and add it again with less");
    }
}
