//! Clusters among the machines: what is asked when one is added, and what is told of it.

use nexus_api::machines::{InSlurm, NewSlurm};
use nexus_api::problem::Problem;
use nexus_core::ids::MachineId;
use nexus_core::run::Phase;
use nexus_core::world::World;
use nexus_node::slurm::Options;

use crate::pool::InCluster;

/// Where nobody says how many jobs a cluster is to have.
const USUAL_SUBMITTED: u32 = 1000;

const MOST_SUBMITTED: u32 = 100_000;

/// What nexus says to sbatch itself: with another word on it, jobs would not be found again.
const OWN: [&str; 21] = [
    "-a",
    "--array",
    "--comment",
    "--chdir",
    "-M",
    "--clusters",
    "-D",
    "--error",
    "-e",
    "--export",
    "--export-file",
    "--help",
    "-J",
    "--job-name",
    "--output",
    "-o",
    "--parsable",
    "--test-only",
    "-W",
    "--wait",
    "--wrap",
];

/// Words that lead where they should.
pub fn checked(new: NewSlurm) -> Result<Options, Problem> {
    let bad = |field: &str, value: &str, want: &str| Problem::BadField {
        field: field.into(),
        value: format!("{value:?}"),
        want: want.into(),
    };
    for (field, value) in [("partition", &new.partition), ("account", &new.account), ("qos", &new.qos)] {
        let is_word = |value: &str| !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c.is_control());
        if let Some(value) = value.as_ref().filter(|value| !is_word(value)) {
            return Err(bad(field, value, "a name as Slurm has it"));
        }
    }
    for argument in &new.sbatch_args {
        let name = argument.split('=').next().unwrap_or_default();
        let is_short = |own: &str| own.len() == 2 && argument.starts_with(own) && !argument.starts_with("--");
        // sbatch takes the beginning of a name for all of it.
        let is_begun = |own: &str| name.len() > 2 && own.starts_with(name);
        if !argument.starts_with('-') || argument.len() < 3 || argument.chars().any(char::is_control) {
            return Err(bad("sbatch-arg", argument, "one argument of sbatch with its value, as in --constraint=a100"));
        }
        if OWN.iter().any(|own| *own == name || is_short(own) || is_begun(own)) {
            return Err(bad("sbatch-arg", argument, "another argument: that one is chosen by nexus, for each job"));
        }
    }
    let most_submitted = new.max_submitted.unwrap_or(USUAL_SUBMITTED);
    if !(1..=MOST_SUBMITTED).contains(&most_submitted) {
        return Err(bad("max-submitted", &most_submitted.to_string(), &format!("1 to {MOST_SUBMITTED}")));
    }
    let NewSlurm { partition, account, qos, sbatch_args, .. } = new;
    Ok(Options { partition, account, qos, sbatch_args, most_submitted })
}

pub fn told(cluster: &InCluster, machine: MachineId, world: &World) -> InSlurm {
    let Options { partition, account, qos, sbatch_args, most_submitted } = cluster.options.clone();
    let runs = world.active_runs().filter(|run| run.lease.machine == machine);
    let (submitted, running) = runs
        .fold((0, 0), |(all, running), run| (all + 1, running + u32::from(matches!(run.phase, Phase::Running { .. }))));
    let known = cluster.known.as_deref().cloned().unwrap_or_default();
    InSlurm {
        asked: NewSlurm { partition, account, qos, sbatch_args, max_submitted: Some(most_submitted) },
        cluster: known.name,
        version: known.version,
        partitions: known.partitions,
        max_array: Some(known.max_array).filter(|most| *most > 0),
        accounting: known.accounting,
        limits: known.limits,
        submitted,
        running,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nexus_says_itself_is_not_said_by_others() {
        let with = |argument: &str| checked(NewSlurm { sbatch_args: vec![argument.into()], ..NewSlurm::default() });
        for argument in ["--constraint=a100", "-Ca100", "--exclusive", "--mail-type=END", "--requeue", "--dependency=1"]
        {
            assert!(with(argument).is_ok(), "{argument}");
        }
        for argument in [
            "--array=0-9",
            "-a0-9",
            "-o/x",
            "--wrap=id",
            "x",
            "",
            "--comment=hi",
            "-W",
            "--export=ALL",
            "-C",
            "--arr=1",
            "-Mx",
        ] {
            assert!(with(argument).is_err(), "{argument}");
        }
        let most = |count| checked(NewSlurm { max_submitted: Some(count), ..NewSlurm::default() }).is_ok();
        assert!(!most(0) && most(1) && most(MOST_SUBMITTED) && !most(MOST_SUBMITTED + 1));
        let in_partition = |name: &str| checked(NewSlurm { partition: Some(name.into()), ..NewSlurm::default() });
        assert!(in_partition("gpu,low").is_ok() && in_partition("").is_err() && in_partition("a b").is_err());
    }
}
