//! Environments: which names look like secrets, which are nexus's own.

use std::collections::BTreeMap;

pub type Env = BTreeMap<String, String>;

/// Values of such names are dropped when the job has ended: `*TOKEN* *SECRET* *PASSWORD* *_KEY`.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["TOKEN", "SECRET", "PASSWORD"].iter().any(|word| name.contains(word)) || name.ends_with("_KEY")
}

/// Splits off the values that must not outlive the job. One that only names a variable is none of them.
pub fn split_secrets(env: Env) -> (Env, Env) {
    env.into_iter().partition(|(name, value)| !looks_secret(name) || only_names_a_variable(value))
}

fn only_names_a_variable(value: &str) -> bool {
    value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(crate::template::is_name)
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

/// A line of a file of variables that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// From 1.
    pub line: usize,
    pub error: String,
}

/// `NAME=value`, as text of ours says what is wrong with it. Names that only nexus sets are refused.
pub fn variable(text: &str) -> Result<(String, String), String> {
    let Some((name, value)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err(format!("{text} is no variable: write NAME=value"));
    };
    if name.contains(char::is_whitespace) || text.contains('\0') {
        return Err(format!("{name:?} cannot be the name of a variable"));
    }
    if is_reserved(name) {
        return Err(format!("{name} is set by nexus itself"));
    }
    Ok((name.to_string(), value.to_string()))
}

/// Lines `NAME=value` of a file; comments, blank lines, `export` and quotes around a value are understood.
pub fn parse_file(text: &str) -> Result<Vec<(String, String)>, BadLine> {
    let mut variables = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let (name, value) = variable(line).map_err(|error| BadLine { line: number + 1, error })?;
        variables.push((name, unquoted(&value).to_string()));
    }
    Ok(variables)
}

fn unquoted(value: &str) -> &str {
    let inside = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_variables() {
        let pairs = parse_file("# c\n\nA=1\nexport B=\"two words\"\nC='x'\nD=a=b\nE=\n").unwrap();
        let expected = [("A", "1"), ("B", "two words"), ("C", "x"), ("D", "a=b"), ("E", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_string(), value.to_string())));
        assert_eq!(parse_file("A=1\nnonsense\n").unwrap_err().line, 2);
        for bad in ["A", "=b", "A B=c", "CUDA_VISIBLE_DEVICES=0", "NEXUS_PARAM_X=1"] {
            assert!(parse_file(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_only_names_a_variable_is_kept() {
        let env = [("A_TOKEN", "{TOKEN}"), ("B_TOKEN", "x{TOKEN}"), ("C", "{TOKEN}x")];
        let (open, secret) = split_secrets(env.map(|(name, value)| (name.into(), value.into())).into());
        assert_eq!(open.keys().collect::<Vec<_>>(), ["A_TOKEN", "C"]);
        assert_eq!(secret.keys().collect::<Vec<_>>(), ["B_TOKEN"]);
    }

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
