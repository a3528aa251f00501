//! What sbatch is asked for on behalf of a run. Runs of one shape go out together, as one array.

use nexus_api::run_dir::{RunSpec, SlurmRequest};
use serde::{Deserialize, Serialize};

use super::words::Options;

/// Slurm gets this much more than the shim needs to end a job by itself: its own end is rougher.
const SPARE_MS: u64 = 60_000;

const MINUTE_MS: u64 = 60_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shape {
    request: SlurmRequest,
    minutes: Option<u64>,
}

impl Shape {
    pub fn of(spec: &RunSpec) -> Shape {
        let limit = spec.time_limit_ms.map(|limit| limit.saturating_add(spec.grace_ms).saturating_add(SPARE_MS));
        Shape { request: spec.slurm.clone().unwrap_or_default(), minutes: limit.map(|limit| limit.div_ceil(MINUTE_MS)) }
    }

    /// Arguments of sbatch that depend on the shape and on the cluster. The user's own come last: they count.
    pub fn arguments(&self, options: &Options) -> Vec<String> {
        let SlurmRequest { gpus, kind, cpus, ram_mib, nice } = &self.request;
        let mut told = vec!["--nodes=1".to_string(), "--ntasks=1".into(), "--no-requeue".into()];
        let named = [("partition", &options.partition), ("account", &options.account), ("qos", &options.qos)];
        told.extend(named.into_iter().filter_map(|(name, value)| Some(format!("--{name}={}", value.as_ref()?))));
        match (gpus, kind) {
            (0, _) => {}
            (gpus, None) => told.push(format!("--gres=gpu:{gpus}")),
            (gpus, Some(kind)) => told.push(format!("--gres=gpu:{kind}:{gpus}")),
        }
        told.extend((*cpus > 0).then(|| format!("--cpus-per-task={cpus}")));
        told.extend((*ram_mib > 0).then(|| format!("--mem={ram_mib}M")));
        told.extend(self.minutes.map(|minutes| format!("--time={minutes}")));
        told.extend((*nice > 0).then(|| format!("--nice={nice}")));
        told.extend(options.sbatch_args.iter().cloned());
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_arguments_and_the_users_own_come_last() {
        let request = SlurmRequest { gpus: 2, kind: Some("a100".into()), cpus: 4, ram_mib: 2048, nice: 7 };
        let options = Options {
            partition: Some("gpu".into()),
            account: Some("lab".into()),
            sbatch_args: vec!["--requeue".into()],
            ..Options::default()
        };
        let told = Shape { request, minutes: Some(90) }.arguments(&options).join(" ");
        let want = "--nodes=1 --ntasks=1 --no-requeue --partition=gpu --account=lab --gres=gpu:a100:2 \
                    --cpus-per-task=4 --mem=2048M --time=90 --nice=7 --requeue";
        assert_eq!(told, want);
        let least = Shape::default().arguments(&Options::default()).join(" ");
        assert_eq!(least, "--nodes=1 --ntasks=1 --no-requeue");
    }
}
