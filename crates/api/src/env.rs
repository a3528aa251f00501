//! Environments: which names look like secrets, which are nexus's own.

use std::collections::BTreeMap;

pub type Env = BTreeMap<String, String>;

/// Values of such names are dropped when the job has ended: `*TOKEN* *SECRET* *PASSWORD* *_KEY`.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word)) || name.ends_with("_KEY")
}

/// Splits off the values that must not outlive the job.
pub fn split_secrets(env: Env) -> (Env, Env) {
    env.into_iter().partition(|(name, _)| !looks_secret(name))
}

/// Names that only nexus sets in a job.
pub fn is_reserved(name: &str) -> bool {
    matches!(
        name,
        "CUDA_VISIBLE_DEVICES"
            | "CUDA_DEVICE_ORDER"
            | "NEXUS_JOB_ID"
            | "NEXUS_GPU_ID"
            | "NEXUS_ATTEMPT"
            | "NEXUS_LAST_FAILURE"
            | "NEXUS_RESULTS_DIR"
            | "NEXUS_CHECKPOINT_DIR"
            | "NEXUS_RUN_DIR"
    ) || name.starts_with("NEXUS_PARAM_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name() {
        for secret in ["HF_TOKEN", "wandb_api_key", "MY_SECRET_1", "DB_PASSWORD", "AWS_ACCESS_KEY"] {
            assert!(looks_secret(secret), "{secret}");
        }
        for open in ["PATH", "KEYBOARD", "MONKEY", "KEY_FILE"] {
            assert!(!looks_secret(open), "{open}");
        }
    }
}
