//! What Slurm's words mean: why a job waits, and why sbatch refused one.

/// Why a job waits, and what to do where something can be done.
const REASONS: &[(&str, &str)] = &[
    ("Resources", "every GPU, core or byte that could have it is in use; it is next in line"),
    ("Priority", "jobs of higher priority stand before it"),
    ("Dependency", "it waits for other Slurm jobs to end"),
    ("DependencyNeverSatisfied", "a job that it waits for ended in the wrong way, so it will never start: cancel it"),
    ("BeginTime", "its time to begin has not come; after a requeue Slurm lets two minutes pass"),
    ("JobArrayTaskLimit", "as many tasks of its array run as may at once"),
    ("JobHeldUser", "it is held: `scontrol release` with its number lets it go"),
    ("JobHeldAdmin", "an administrator holds it, and only they can release it"),
    ("MaxRequeue", "it was put back too often and is held: look why its runs end, then `scontrol release` it"),
    ("JobHoldMaxRequeue", "it was put back too often and is held: look why its runs end, then `scontrol release` it"),
    ("launch failed requeued held", "a node could not start it and it is held: `scontrol release` tries once more"),
    ("launch failure limit exceeded requeued held", "nodes failed to start it too often; tell the administrators"),
    ("JobLaunchFailure", "a node failed to start it: its folder, its user or the node's prolog may be at fault"),
    ("SystemFailure", "the network, a disk or Slurm itself failed; tell the administrators if it stays"),
    ("ReqNodeNotAvail", "a node that it needs is down, drained or reserved: name no node, or wait for it"),
    (
        "Nodes required for job are DOWN",
        "too many nodes are down, drained or kept for others to give it what it asks for",
    ),
    ("NodeDown", "a node that it needs is down"),
    ("FrontEndDown", "the node through which it would start is down"),
    ("PartitionDown", "its partition is down: it starts once that is up again, or choose another"),
    ("PartitionInactive", "its partition takes no jobs now: it waits until that changes, or choose another"),
    (
        "PartitionTimeLimit",
        "its time limit is longer than its partition allows: ask for less time or another partition",
    ),
    ("PartitionNodeLimit", "its partition cannot give it that many nodes: ask for fewer, or choose another"),
    ("PartitionConfig", "its partition does not fit what it asks for: ask for less, or choose another"),
    ("BadConstraints", "no node can ever be what it asks for: look at its GPUs, memory, cores and features"),
    ("Constraints", "no node that is free has the features that it asks for"),
    ("MaxMemPerLimit", "it asks for more memory than its partition allows: ask for less"),
    ("Licenses", "every licence that it needs is in use"),
    ("Reservation", "its reservation has not begun"),
    ("ReservationDeleted", "its reservation was deleted: submit it without one"),
    ("InvalidAccount", "its account is not valid any more: choose another with `--account`"),
    ("AccountNotAllowed", "its account may not use this partition: choose another of them"),
    ("InvalidQOS", "its QOS is not valid any more: choose another with `--qos`"),
    ("QOSNotAllowed", "its QOS may not be used in this partition or by this account: choose another"),
    (
        "QOSUsageThreshold",
        "your account used more than this QOS asks for: wait until that has faded, or choose another",
    ),
    ("AccountingPolicy", "a limit of your account or QOS is reached"),
    ("AssociationJobLimit", "as many jobs of your account run as it may have"),
    ("AssociationResourceLimit", "your account has all that it may have at once"),
    ("AssociationTimeLimit", "your account has used up its time"),
    ("QOSJobLimit", "as many jobs run as the QOS allows"),
    ("QOSResourceLimit", "the QOS has given all that it may give at once"),
    ("QOSTimeLimit", "the time of the QOS is used up"),
    ("QOSMaxGRESPerUser", "your jobs have as many GPUs as the QOS allows you"),
    ("QOSGrpGRES", "everybody in this QOS together has as many GPUs as it allows"),
    ("AssocGrpGRES", "your account has as many GPUs as it may have at once"),
    ("MaxGRESPerAccount", "your account has as many GPUs as the QOS allows it"),
    ("Prolog", "its nodes are being made ready for it"),
    ("Cleaning", "what its last run left is being cleaned up"),
    ("SchedDefer", "new jobs are looked at only now and then; it will be soon"),
    ("FedJobLock", "the clusters of the federation settle which of them has it"),
    ("DeadLine", "it can no longer be done by the deadline that it was given"),
    ("InactiveLimit", "it was idle for too long"),
    ("TimeLimit", "it ran out of time: ask for more"),
    ("OutOfMemory", "it used more memory than it asked for: ask for more"),
    ("NonZeroExitCode", "it ended with an error of its own"),
    ("RaisedSignal", "a signal ended it"),
    ("BurstBufferResources", "the burst buffer is full"),
    ("BurstBufferStageIn", "its files are being copied to the burst buffer"),
    ("BurstBufferOperation", "the burst buffer failed it; tell the administrators"),
    ("PowerNotAvail", "the cluster has no power left for it"),
    ("PowerReserved", "the power that it needs is kept for others"),
];

/// Limits of accounting, of which there are more than a hundred, by a part of their word: the first that it holds, what
/// it means of a QOS, and what of an account.
const LIMITS: &[(&str, &str, &str)] = &[
    ("Submit", "the QOS takes no more jobs for now, not even to wait", "your account may submit no more jobs for now"),
    ("GrpJobs", "as many jobs of everybody run as the QOS allows", "as many jobs of your account run as it may have"),
    ("Jobs", "as many of your jobs run as the QOS allows", "as many jobs of your account run as it may have"),
    ("WallDuration", "its time limit is longer than the QOS allows: ask for less time or another QOS", LONG),
    ("Wall", "the time of the QOS is used up: choose another, or wait for more", "the time of your account is used up"),
    ("RunMinutes", "what runs may still take all the time that the QOS has: wait, or ask for less time", ALL_TAKEN),
    ("MinutesPerJob", "it asks for more, for longer, than one job may have in this QOS: ask for less", ASKS_TOO_MUCH),
    ("Minutes", "the budget of the QOS is used up: choose another, or wait for more", USED_UP),
    ("PerJob", "it asks for more than one job may have in this QOS: ask for less", ASKS_TOO_MUCH),
    ("PerNode", "it asks for more of one node than this QOS allows: ask for less", ASKS_TOO_MUCH),
    ("PerUser", "your jobs have all that the QOS allows you at once", "your jobs have all that you may have at once"),
    ("PerAccount", "your account has all that the QOS allows it at once", HAS_ALL),
    ("Min", "it asks for less than this QOS is meant for: choose another", "it asks for less than your account must"),
    ("Grp", "everybody in this QOS together has all that it allows", HAS_ALL),
    ("", "a limit of its QOS is reached", "a limit of your account is reached"),
];
const LONG: &str = "its time limit is longer than your account allows: ask for less time";
const ALL_TAKEN: &str = "what runs may still take all the time that your account has: wait, or ask for less time";
const ASKS_TOO_MUCH: &str = "it asks for more than one job of your account may have: ask for less";
const USED_UP: &str = "the budget of your account is used up: choose another, or wait for more";
const HAS_ALL: &str = "your account has all that it may have at once";

/// What a reason of squeue means, where it is known. What stands behind the word, such as the nodes that are missing,
/// is for the reader to see beside it.
pub fn meaning(reason: &str) -> Option<&'static str> {
    let reason = reason.replace('_', " ");
    let word = reason.trim_start_matches('(').split([',', '(', ':', ')']).next().unwrap_or_default().trim();
    if let Some((_, meaning)) = REASONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)) {
        return Some(meaning);
    }
    let is_of_account = word.starts_with("Assoc");
    let is_limit = is_of_account || word.starts_with("QOS") || word.starts_with("Max") && word.ends_with("PerAccount");
    let (_, of_qos, of_account) = LIMITS.iter().find(|(part, ..)| is_limit && word.contains(part))?;
    Some(if is_of_account { of_account } else { of_qos })
}

/// What became of a submission that sbatch says has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Slurm did not take it, and will once there is room.
    Full,
    /// Slurm did not take it and never will as it is.
    Never,
    /// Slurm may have taken it.
    Unclear,
}

const FULL: &[&str] = &[
    "unable to create job record",
    "temporarily unable to accept job",
    "job queue full",
    "job creation temporarily disabled",
    "maxjobcount",
    "required partition not available",
    "breached requested qos usage threshold",
];
const NEVER: &[&str] = &[
    // Said by sbatch itself, before it asks anybody.
    "invalid --",
    "unrecognized option",
    "unable to open file",
    "invalid generic resource",
    "invalid gres",
    "invalid trackable resource",
    // Said by the controller.
    "invalid partition name",
    "no partition specified",
    "user's group not permitted",
    "requested nodes not in this partition",
    "invalid node name",
    "node count specification invalid",
    "cpu count specification invalid",
    "task count specification invalid",
    "more processors requested than permitted",
    "requested more tasks than available processors",
    "node configuration is not available",
    "memory required by task is not available",
    "invalid account",
    "invalid qos",
    "invalid feature",
    "invalid license",
    "invalid job array",
    "requested time limit is invalid",
    "time limit specification required",
    "requested reservation is invalid",
    "access denied to requested reservation",
    "access/permission denied",
    "job dependency problem",
    "parameter too long",
];

/// For what sbatch wrote to stderr, once it ended by itself and not with 0. All that is not known is unclear: then the
/// caller looks for the job before it submits anew.
pub fn refusal(text: &str) -> Refusal {
    let text = text.to_lowercase();
    // It may have tried several times: the last word counts.
    let Some((before, last)) = text.rsplit_once("submission failed:") else {
        return if holds(&text, &["timed out", "unable to contact", "connect", "socket", "credential"]) {
            Refusal::Unclear
        } else {
            by_tables(&text)
        };
    };
    let last = last.lines().next().unwrap_or_default().trim();
    if last.starts_with("job violates accounting/qos policy") {
        // One sentence for every limit; the word for this one stands alone on a line before it.
        let mut limit =
            before.lines().filter_map(|line| line.trim().rsplit_once("error: ")).map(|(_, word)| word.trim());
        let limit = limit.rfind(|word| !word.contains(' ')).unwrap_or("submit");
        return if limit.contains("submit") { Refusal::Full } else { Refusal::Never };
    }
    // A socket says the same; of MaxJobCount it is said behind a line of its own.
    if last == "resource temporarily unavailable" && holds(before, FULL) {
        return Refusal::Full;
    }
    by_tables(last)
}

fn by_tables(text: &str) -> Refusal {
    if holds(text, NEVER) {
        Refusal::Never
    } else if holds(text, FULL) {
        Refusal::Full
    } else {
        Refusal::Unclear
    }
}

fn holds(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_explained_by_their_word_or_their_parts() {
        for (reason, part) in [
            ("Resources", "in use"),
            ("ReqNodeNotAvail, UnavailableNodes:n3", "name no node"),
            ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved", "too many nodes"),
            ("launch failed requeued held", "scontrol release"),
            ("QOSMaxGRESPerUser", "as many GPUs as the QOS"),
            ("QOSMaxWallDurationPerJobLimit", "longer than the QOS"),
            ("QOSMaxCpuMinutesPerJobLimit", "for longer, than one job"),
            ("QOSFromTheFuture", "a limit of its QOS"),
        ] {
            assert!(meaning(reason).is_some_and(|meaning| meaning.contains(part)), "{reason}: {:?}", meaning(reason));
        }
        for (known, meaning) in REASONS {
            assert!(meaning.starts_with(|c: char| c.is_lowercase()) && !meaning.ends_with('.'), "{known}: {meaning}");
        }
        assert_eq!([meaning(""), meaning("None"), meaning("MaxHeadroom"), meaning("(null)")], [None; 4]);
    }

    #[test]
    fn refusals_say_whether_to_try_again() {
        for (last, expected) in [
            ("Job violates accounting/QOS policy (job submit limit, …)", Refusal::Full),
            ("Resource temporarily unavailable", Refusal::Unclear),
            ("Unspecified error", Refusal::Unclear),
        ] {
            assert_eq!(refusal(&format!("sbatch: error: Batch job submission failed: {last}\n")), expected, "{last}");
        }
        let recorded = include_str!("../../tests/slurm/22.05/refusals.txt");
        for block in recorded.split_terminator("\n\n") {
            let (expected, text) = block.split_once('\n').expect("a first line");
            assert_eq!(format!("{:?}", refusal(text)), expected, "{text}");
        }
    }
}
