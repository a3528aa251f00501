//! A queue that stands still: jobs wait, and only a person can end the reason.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::values;

/// Jobs wait for a person. The reasons are the ones that have lasted long enough to be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Standstill {
    /// When the oldest of the reasons was seen first.
    pub since: String,
    /// Jobs that wait for a person.
    pub jobs: u64,
    /// For people: one sentence.
    pub title: String,
    pub reasons: Vec<Blocker>,
}

/// A reason that only a person can end, and the words for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blocker {
    #[serde(flatten)]
    pub reason: BlockReason,
    pub text: String,
    /// What to type or do.
    pub hint: String,
}

/// The facts of a reason. `local` is the service's own host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BlockReason {
    /// The database cannot be used, or cannot be written.
    Database {
        error: String,
        /// What mends it, where that is known.
        advice: Option<String>,
    },
    DiskFull,
    QueuePaused {
        /// So many jobs failed one after another that the queue paused itself; null where somebody paused it.
        after_failures: Option<u32>,
    },
    GpusUnreadable {
        machine: String,
        /// Empty where no GPU of the machine was ever read.
        gpus: Vec<u16>,
        error: Option<String>,
    },
    MachineUnreachable {
        machine: String,
        error: Option<String>,
    },
    MachineQuarantined {
        machine: String,
    },
    MachinePaused {
        machine: String,
    },
    GpusPaused {
        machine: String,
        gpus: Vec<u16>,
    },
    /// The first jobs of the sweep failed alike, and nexus holds the rest.
    SweepStopped {
        sweep: String,
    },
    /// No machine could ever run it. It is the first such job in the queue.
    NeverFits {
        job: String,
    },
}

impl Standstill {
    /// `idle_seconds`: for so long no job has started; None where jobs start, and others are kept off idle GPUs.
    pub fn new(since: String, jobs: u64, idle_seconds: Option<u64>, reasons: Vec<BlockReason>) -> Standstill {
        let (count, wait) = if jobs == 1 { ("1 job".to_string(), "waits") } else { (format!("{jobs} jobs"), "wait") };
        let title = match idle_seconds {
            Some(seconds) => {
                format!("the queue stands still: {count} {wait}, and none has started for {}", values::limit(seconds))
            }
            None => format!("{count} {wait} for something that only a person can mend"),
        };
        Standstill { since, jobs, title, reasons: reasons.into_iter().map(BlockReason::told).collect() }
    }
}

impl BlockReason {
    pub fn told(self) -> Blocker {
        Blocker { text: self.text(), hint: self.hint(), reason: self }
    }

    fn text(&self) -> String {
        let because = |error: &Option<String>| error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        match self {
            BlockReason::Database { error, .. } => error.clone(),
            BlockReason::DiskFull => "the disk with the files of nexus is full".into(),
            BlockReason::QueuePaused { after_failures: None } => "the queue is paused".into(),
            BlockReason::QueuePaused { after_failures: Some(count) } => {
                format!("the queue paused itself after {count} jobs failed one after another")
            }
            BlockReason::GpusUnreadable { machine, gpus, error } => {
                format!("{} cannot be read{}", named(gpus, machine), because(error))
            }
            BlockReason::MachineUnreachable { machine, error } => {
                format!("machine {machine} cannot be reached{}", because(error))
            }
            BlockReason::MachineQuarantined { machine } => {
                format!("machine {machine} is quarantined: jobs failed there one after another")
            }
            BlockReason::MachinePaused { machine } => format!("machine {machine} is paused"),
            BlockReason::GpusPaused { machine, gpus } => {
                let verb = if gpus.len() == 1 { "is" } else { "are" };
                format!("{} {verb} paused", named(gpus, machine))
            }
            BlockReason::SweepStopped { sweep } => {
                format!("the first jobs of sweep {sweep} failed, and the rest is held")
            }
            BlockReason::NeverFits { job } => format!("job {job} asks for more than any machine has"),
        }
    }

    fn hint(&self) -> String {
        match self {
            BlockReason::Database { advice, .. } => advice.clone().unwrap_or_else(|| "nexus doctor".into()),
            BlockReason::DiskFull => "make room; nexus gc shows what may go".into(),
            BlockReason::QueuePaused { .. } => "nexus resume".into(),
            BlockReason::GpusUnreadable { machine, .. } if machine == LOCAL => {
                "nvidia-smi must work; after an update of the driver the machine has to be restarted".into()
            }
            BlockReason::GpusUnreadable { machine, .. } => format!("nexus machine show {machine}"),
            BlockReason::MachineUnreachable { machine, .. } => format!("nexus machine show {machine}"),
            BlockReason::MachineQuarantined { machine } | BlockReason::MachinePaused { machine } => {
                format!("nexus machine resume {machine}")
            }
            BlockReason::GpusPaused { machine, gpus } => {
                let on = if machine == LOCAL { String::new() } else { format!("{machine}:") };
                format!("nexus resume {on}{}", values::gpu_list_text(gpus))
            }
            BlockReason::SweepStopped { sweep } => format!("nexus release sweep:{sweep}"),
            BlockReason::NeverFits { job } => format!("nexus why {job}"),
        }
    }
}

const LOCAL: &str = "local";

fn named(gpus: &[u16], machine: &str) -> String {
    let of = if machine == LOCAL { String::new() } else { format!(" of {machine}") };
    match gpus {
        [] if machine == LOCAL => "the GPUs".into(),
        [] => format!("the GPUs{of}"),
        [one] => format!("GPU {one}{of}"),
        many => format!("GPUs {}{of}", values::gpu_list_text(many)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_what_is_wrong_and_what_to_type() {
        let (machine, gpus): (String, Vec<u16>) = ("gpu1".into(), vec![0, 1, 3]);
        let local = || LOCAL.to_string();
        let error = Some("Driver/library version mismatch".to_string());
        let table = [
            (BlockReason::QueuePaused { after_failures: None }, "the queue is paused", "nexus resume"),
            (
                BlockReason::QueuePaused { after_failures: Some(5) },
                "the queue paused itself after 5 jobs failed one after another",
                "nexus resume",
            ),
            (
                BlockReason::GpusUnreadable { machine: local(), gpus: gpus.clone(), error },
                "GPUs 0-1,3 cannot be read: Driver/library version mismatch",
                "nvidia-smi must work; after an update of the driver the machine has to be restarted",
            ),
            (
                BlockReason::GpusPaused { machine: machine.clone(), gpus: vec![3] },
                "GPU 3 of gpu1 is paused",
                "nexus resume gpu1:3",
            ),
            (BlockReason::GpusPaused { machine: local(), gpus }, "GPUs 0-1,3 are paused", "nexus resume 0-1,3"),
            (
                BlockReason::MachineUnreachable { machine, error: Some("no route to host".into()) },
                "machine gpu1 cannot be reached: no route to host",
                "nexus machine show gpu1",
            ),
            (
                BlockReason::NeverFits { job: "abc".into() },
                "job abc asks for more than any machine has",
                "nexus why abc",
            ),
        ];
        for (reason, text, hint) in table {
            let told = reason.told();
            assert_eq!((told.text.as_str(), told.hint.as_str()), (text, hint));
        }
    }

    #[test]
    fn the_title_counts_and_says_for_how_long() {
        let title = |jobs, idle| Standstill::new(String::new(), jobs, idle, vec![]).title;
        assert_eq!(title(1, Some(600)), "the queue stands still: 1 job waits, and none has started for 10m");
        assert_eq!(title(12, None), "12 jobs wait for something that only a person can mend");
    }
}
