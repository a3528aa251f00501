//! What the engine hears of clusters: what they have, where runs stand in their queues, and that they are away.

use nexus_api::machines::SlurmPartition;
use nexus_core::apply::Report;
use nexus_core::ids::MachineId;
use nexus_core::machine::Cluster as Takes;
use nexus_node::slurm::{Cluster, Options, SlurmNews, Told};

use super::{Engine, Turn, Watch};
use crate::backend::ssh::trouble::Trouble;
use crate::clock;
use crate::service_log::Line;

/// What keeps a cluster from answering is seldom for the user to mend.
const HINT: &str = "sinfo, typed there, shows what Slurm itself says";

impl Engine {
    pub(super) fn slurm_news(&mut self, machine: MachineId, news: SlurmNews, turn: &mut Turn, watch: &mut Watch) {
        match news {
            SlurmNews::Cluster(cluster) => self.cluster_read(machine, cluster, turn, watch),
            SlurmNews::Away { error } => self.cluster_away(machine, &error, turn, watch),
            SlurmNews::Jobs(told) => self.jobs_told(machine, told, turn),
        }
    }

    fn cluster_read(&mut self, machine: MachineId, cluster: Box<Cluster>, turn: &mut Turn, watch: &mut Watch) {
        let Some(member) = self.pool.members.get_mut(&machine) else { return };
        let Some(in_cluster) = member.cluster.as_mut() else { return };
        let was_there = member.machine.reachable && in_cluster.away.is_none();
        let biggest = |of: fn(&SlurmPartition) -> u64| cluster.partitions.iter().map(of).max().unwrap_or(0);
        member.machine.cpus = u32::try_from(biggest(|partition| partition.cpus.into())).unwrap_or(u32::MAX).max(1);
        member.machine.ram_mib = biggest(|partition| partition.memory_mib);
        member.machine.cluster = Some(takes(&cluster, &in_cluster.options));
        if in_cluster.away.take().is_some() {
            turn.lines.push(format!("Machine {}: Slurm answers again", member.name).into());
        }
        in_cluster.known = Some(cluster);
        if was_there {
            let known = member.machine.clone();
            self.report(Report::Machine(known), turn, watch);
        } else {
            self.is_there(machine, turn, watch);
        }
    }

    /// What it runs goes on; nothing is asked of it until it answers.
    fn cluster_away(&mut self, machine: MachineId, error: &str, turn: &mut Turn, watch: &mut Watch) {
        let Some(member) = self.pool.members.get_mut(&machine) else { return };
        let Some(in_cluster) = member.cluster.as_mut() else { return };
        let since = in_cluster.away.as_ref().map_or_else(clock::now, |(_, since)| *since);
        let trouble = Trouble::lasting(error, HINT);
        if in_cluster.away.as_ref().is_none_or(|(before, _)| before.why != trouble.why) {
            turn.lines.push(Line::warn(format!("Machine {}: {}", member.name, trouble.why)));
        }
        in_cluster.away = Some((trouble, since));
        self.not_reached(machine, turn, watch);
        self.tell_machine(machine);
    }

    fn jobs_told(&mut self, machine: MachineId, told: Vec<Told>, turn: &mut Turn) {
        let Some(member) = self.pool.members.get_mut(&machine) else { return };
        let Some(in_cluster) = member.cluster.as_mut() else { return };
        in_cluster.told.retain(|run, _| self.world.run(*run).is_some());
        for told in told.into_iter().filter(|told| self.world.run(told.run).is_some()) {
            let before = in_cluster.told.get(&told.run).and_then(|before| before.job.as_ref());
            if let Some(job) = told.job.as_ref().filter(|job| before != Some(*job)) {
                turn.lines.push(format!("Job {} is {job} in {}", told.run.job, member.name).into());
            }
            in_cluster.told.insert(told.run, told);
        }
        self.tell_machine(machine);
    }
}

/// What of a cluster decisions need.
fn takes(cluster: &Cluster, options: &Options) -> Takes {
    let mut kinds: Vec<(String, u16)> = Vec::new();
    for gpus in cluster.partitions.iter().filter(|partition| partition.is_up).flat_map(|partition| &partition.gpus) {
        match kinds.iter_mut().find(|(kind, _)| *kind == gpus.kind) {
            Some((_, most)) => *most = gpus.per_node.max(*most),
            None => kinds.push((gpus.kind.clone(), gpus.per_node)),
        }
    }
    Takes { most_runs: options.most_submitted, kinds }
}
