//! Clusters: what they have and what they allow.

use nexus_api::machines::{InSlurm, SlurmGpus, SlurmPartition};

use super::text;

/// `8 x a100 + 4 x v100`, each kind once.
pub fn gpus(slurm: &InSlurm) -> String {
    let mut kinds: Vec<(&str, u32)> = Vec::new();
    // Partitions overlap: the largest count of a kind is nearest to the truth.
    for gpus in slurm.partitions.iter().flat_map(|partition| &partition.gpus) {
        match kinds.iter_mut().find(|(kind, _)| *kind == gpus.kind) {
            Some((_, total)) => *total = gpus.total.max(*total),
            None => kinds.push((&gpus.kind, gpus.total)),
        }
    }
    kinds.into_iter().map(|(kind, total)| format!("{total} x {}", kind_word(kind))).collect::<Vec<_>>().join(" + ")
}

/// About a job that waits in its queue.
pub fn to_type(machine: &str, id: &str) -> Vec<(String, String)> {
    vec![
        (format!("nexus machine show {machine}"), "to see its partitions and limits".into()),
        (format!("nexus kill {id}"), "to take it back".into()),
    ]
}

fn kind_word(kind: &str) -> &str {
    if kind.is_empty() { "GPU" } else { kind }
}

/// `8 x a100; 3 jobs of ours, 1 running`
pub fn in_short(slurm: &InSlurm) -> String {
    let gpus = gpus(slurm);
    let gpus = if gpus.is_empty() { "no GPUs".into() } else { gpus };
    format!("{gpus}; {}", ours(slurm))
}

fn ours(slurm: &InSlurm) -> String {
    let running = if slurm.submitted > 0 { format!(", {} running", slurm.running) } else { String::new() };
    format!("{} of ours{running}", text::counted(slurm.submitted.into(), "job"))
}

/// `22.05.8, cluster ci; 3 jobs are in its hands, 1 of them runs`
pub fn about(slurm: &InSlurm) -> String {
    let version = slurm.version.clone().unwrap_or_else(|| "of an unknown version".into());
    let cluster = slurm.cluster.as_ref().map(|cluster| format!(", cluster {cluster}")).unwrap_or_default();
    format!("{version}{cluster}; {}", ours(slurm))
}

/// One line each.
pub fn partitions(slurm: &InSlurm) -> String {
    let lines: Vec<String> = slurm.partitions.iter().map(partition).collect();
    lines.join(&format!("\n{:14}", ""))
}

fn partition(partition: &SlurmPartition) -> String {
    let SlurmPartition { name, is_default, is_up, nodes, usable, cpus, memory_mib, .. } = partition;
    let star = if *is_default { "*" } else { "" };
    let usable = if usable < nodes { format!(" ({usable} usable)") } else { String::new() };
    let kind = |gpus: &SlurmGpus| format!("{} x {} a node", gpus.per_node, kind_word(&gpus.kind));
    let gpus: Vec<String> = partition.gpus.iter().map(kind).collect();
    let gpus = if gpus.is_empty() { "no GPUs".into() } else { gpus.join(" + ") };
    let time = match (partition.max_minutes, partition.default_minutes) {
        (None, None) => "no time limit".into(),
        (None, Some(usual)) => format!("{} unless --time says more", minutes(usual)),
        (Some(most), None) => format!("at most {}", minutes(most)),
        (Some(most), Some(usual)) if most == usual => format!("at most {}", minutes(most)),
        (Some(most), Some(usual)) => format!("at most {}, {} unless --time says more", minutes(most), minutes(usual)),
    };
    let down = if *is_up { "" } else { ", down" };
    let nodes = text::counted((*nodes).into(), "node");
    format!("{name}{star}: {nodes}{usable}, {gpus}, {cpus} CPUs, {}, {time}{down}", text::memory(*memory_mib))
}

fn minutes(count: u64) -> String {
    match (count / 1440, count % 1440 / 60, count % 60) {
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, 0) => format!("{hours}h"),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, 0, 0) => format!("{days}d"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}

/// What nexus asks for, whatever the job.
pub fn submits(slurm: &InSlurm) -> String {
    let asked = &slurm.asked;
    let named = [("partition", &asked.partition), ("account", &asked.account), ("qos", &asked.qos)];
    let named = named.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?)));
    let words: Vec<String> = named.chain(asked.sbatch_args.iter().cloned()).collect();
    let words = if words.is_empty() { "as Slurm has it".into() } else { words.join(" ") };
    match asked.max_submitted {
        Some(most) => format!("{words}; at most {}", text::counted(most.into(), "job")),
        None => words,
    }
}

pub fn limits(slurm: &InSlurm) -> String {
    let arrays = slurm.max_array.map(|most| format!("arrays of {most}"));
    let memory = (!slurm.accounting).then(|| "no accounting".to_string());
    arrays.into_iter().chain(memory).chain(slurm.limits.iter().cloned()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_says_what_a_job_may_have() {
        let slurm = InSlurm {
            partitions: vec![
                SlurmPartition {
                    name: "gpu".into(),
                    is_default: true,
                    is_up: true,
                    max_minutes: Some(2880),
                    default_minutes: Some(90),
                    nodes: 3,
                    usable: 2,
                    cpus: 64,
                    memory_mib: 512 << 10,
                    gpus: vec![SlurmGpus { kind: "a100".into(), per_node: 4, total: 12 }],
                },
                SlurmPartition {
                    name: "cpu".into(),
                    nodes: 1,
                    usable: 1,
                    cpus: 8,
                    memory_mib: 1024,
                    ..Default::default()
                },
            ],
            ..InSlurm::default()
        };
        let want = "gpu*: 3 nodes (2 usable), 4 x a100 a node, 64 CPUs, 512G, at most 2d, 1h30m unless --time says more\n\
                    \x20             cpu: 1 node, no GPUs, 8 CPUs, 1G, no time limit, down";
        assert_eq!(partitions(&slurm), want);
        assert_eq!(gpus(&slurm), "12 x a100");
    }
}
