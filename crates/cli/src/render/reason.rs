//! Why a job waits, in words with numbers and, where one helps, what to type.

use jiff::Zoned;
use nexus_api::jobs::{Job, State, Waiting};
use nexus_api::service::{Machine, Status};

use super::place::index_list;
use super::time;

/// How much there is in all, for the "of 4" in a reason.
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

/// The reason of one waiting job; empty when it does not wait.
pub fn of_job(job: &Job, capacity: Capacity, now: &Zoned) -> String {
    match (&job.waiting, job.state) {
        (Some(waiting), _) => words(waiting, &job.id, capacity, now),
        (None, State::Held) => words(&Waiting::Held, &job.id, capacity, now),
        (None, _) => String::new(),
    }
}

fn words(waiting: &Waiting, id: &str, capacity: Capacity, now: &Zoned) -> String {
    match waiting {
        Waiting::Held => format!("held: nexus release {id}"),
        Waiting::QueuePaused => "queue paused: nexus resume".into(),
        Waiting::DiskFull => "the disk is full: make room".into(),
        Waiting::Stopping => "the service is stopping".into(),
        Waiting::Retry { until } => format!("tried again at {}", time::clock(until, now)),
        Waiting::NoSuchGpus { need, exist: 0, on: None } => {
            format!("waits for {}, there are none: --gpus 0 runs on the CPU", gpus(*need))
        }
        Waiting::NoSuchGpus { need, exist, on: None } => {
            format!("waits for {}, there {}", gpus(*need), are(*exist))
        }
        Waiting::NoSuchGpus { need, exist, on: Some(on) } => {
            format!("waits for {} of {}, there {}", gpus(*need), index_list(on), are(*exist))
        }
        Waiting::Gpus { need, free, on: None } => {
            format!("waits for {} ({free} of {} free)", gpus(*need), capacity.gpus.max(*free))
        }
        Waiting::Gpus { need, free, on: Some(on) } => {
            format!("waits for {} of {} ({free} of {} free)", gpus(*need), index_list(on), on.len())
        }
        Waiting::NoSuchCpus { need, exist } => format!("waits for {}, there {}", cpus(*need), are(*exist)),
        Waiting::Cpus { need, free } => {
            format!("waits for {} ({free} of {} free)", cpus(*need), capacity.cpus.max(*free))
        }
        Waiting::Next => "starts next".into(),
    }
}

fn gpus(count: u16) -> String {
    super::text::counted(count.into(), "GPU")
}

fn cpus(count: u16) -> String {
    super::text::counted(count.into(), "CPU")
}

fn are(count: u16) -> String {
    match count {
        0 => "are none".into(),
        1 => "is 1".into(),
        _ => format!("are {count}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn every_reason_has_its_numbers() {
        let capacity = Capacity { gpus: 4, cpus: 16 };
        let now = samples::now();
        let cases = [
            (Waiting::Held, "held: nexus release abc"),
            (Waiting::QueuePaused, "queue paused: nexus resume"),
            (Waiting::Retry { until: "2024-10-24T15:50:00Z".into() }, "tried again at 17:50"),
            (
                Waiting::NoSuchGpus { need: 1, exist: 0, on: None },
                "waits for 1 GPU, there are none: --gpus 0 runs on the CPU",
            ),
            (Waiting::NoSuchGpus { need: 8, exist: 4, on: None }, "waits for 8 GPUs, there are 4"),
            (Waiting::NoSuchGpus { need: 2, exist: 1, on: Some(vec![3, 9]) }, "waits for 2 GPUs of 3,9, there is 1"),
            (Waiting::Gpus { need: 2, free: 1, on: None }, "waits for 2 GPUs (1 of 4 free)"),
            (Waiting::Gpus { need: 1, free: 0, on: Some(vec![0, 1, 2]) }, "waits for 1 GPU of 0-2 (0 of 3 free)"),
            (Waiting::Cpus { need: 8, free: 2 }, "waits for 8 CPUs (2 of 16 free)"),
            (Waiting::NoSuchCpus { need: 32, exist: 16 }, "waits for 32 CPUs, there are 16"),
            (Waiting::Next, "starts next"),
        ];
        for (waiting, text) in cases {
            assert_eq!(words(&waiting, "abc", capacity, &now), text);
        }
    }
}
