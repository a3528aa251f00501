//! What an export cannot carry of jobs that wait: values of secrets and variables, and copies of code. Found in its lines as
//! they go by.

use std::collections::BTreeMap;

use nexus_api::jobs::{Code, Few, State};
use nexus_api::paths::Home;
use serde::Deserialize;

/// Just enough of a line.
#[derive(Deserialize)]
struct Head {
    id: String,
    state: State,
    #[serde(default)]
    secret_names: Vec<String>,
    #[serde(default)]
    variables: Vec<String>,
    code: Option<Code>,
    #[serde(default)]
    export_env: bool,
}

/// Jobs by the names of what they lack.
#[derive(Default)]
pub struct Missing {
    /// The begin of a line whose end is yet to come.
    line: Vec<u8>,
    secrets: BTreeMap<String, Few>,
    variables: BTreeMap<String, Few>,
    /// By the content.
    code: BTreeMap<String, (String, Few)>,
    /// Jobs whose whole environment goes with them.
    environments: Few,
}

impl Missing {
    /// The next bytes of an export in jsonl.
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.job(&line);
                self.line = line;
                self.line.clear();
            }
        }
    }

    fn job(&mut self, line: &[u8]) {
        let Ok(head) = serde_json::from_slice(line) else { return };
        let Head { id, state, secret_names, variables, code, export_env } = head;
        // The others are not queued by an import.
        if !matches!(state, State::Held | State::Queued) {
            return;
        }
        for name in secret_names {
            self.secrets.entry(name).or_default().add(&id);
        }
        for name in variables {
            self.variables.entry(name).or_default().add(&id);
        }
        if export_env {
            self.environments.add(&id);
        }
        if let Some(Code { content, of }) = code {
            self.code.entry(content).or_insert_with(|| (of, Few::default())).1.add(&id);
        }
    }

    /// In words, each with what to do about it.
    pub fn notes(&self, home: &Home) -> Vec<String> {
        let secrets = self.secrets.iter().map(|(name, jobs)| {
            format!("{jobs} without the value of {name}: it looks like a secret; export {name}=… before the import")
        });
        let variables = self.variables.iter().map(|(name, jobs)| {
            format!("{jobs} without the value of the variable {name}; nexus var set {name} before the import")
        });
        let code = self.code.iter().map(|(content, (of, jobs))| {
            let kept = [home.snapshots(), home.code()].map(|folder| folder.join(content));
            match kept.iter().find(|folder| !folder.is_dir()) {
                None => format!(
                    "{jobs} without the code, a copy of {of} (nexus add --sync): for an import into another home copy {} and {} \
                     there",
                    kept[0].display(),
                    kept[1].display()
                ),
                Some(gone) => format!(
                    "{jobs} without the code, a copy of {of} (nexus add --sync), which is not here any more: there is no {}",
                    gone.display()
                ),
            }
        });
        let environments = (!self.environments.first.is_empty()).then(|| {
            let jobs = &self.environments;
            format!("{jobs} without the submitter's environment (nexus add --export-env): the import gives its own; --env keeps a variable")
        });
        secrets.chain(variables).chain(code).chain(environments).collect()
    }
}

#[cfg(test)]
mod tests {
    use nexus_api::paths::Surroundings;

    use super::*;

    #[test]
    fn jobs_that_wait_are_named_with_what_they_lack_however_the_bytes_are_cut() {
        let job = |id: &str, state: &str, more: &str| format!("{{\"id\":\"{id}\",\"state\":\"{state}\"{more}}}\n");
        let secret = ",\"secret_names\":[\"HF_TOKEN\"]";
        let code = ",\"code\":{\"content\":\"0123\",\"of\":\"/p\"},\"variables\":[\"X\"]";
        let text = [
            job("abc", "completed", secret),
            job("abd", "queued", secret),
            job("abe", "held", code),
            job("abf", "running", code),
            "nonsense\n".to_string(),
            job("abg", "queued", ",\"export_env\":true"),
            (0..7).map(|_| job("abh", "queued", secret)).collect(),
        ];
        let around = Surroundings { nexus_home: Some("/no/such".into()), ..Surroundings::default() };
        let home = Home::find(&around, |_| false).unwrap();
        for size in [1, 7, 10_000] {
            let mut missing = Missing::default();
            text.concat().as_bytes().chunks(size).for_each(|piece| missing.take(piece));
            assert_eq!(
                missing.notes(&home),
                [
                    "jobs abd, abh, abh, abh, abh and 3 more without the value of HF_TOKEN: it looks like a secret; export \
                     HF_TOKEN=… before the import",
                    "job abe without the value of the variable X; nexus var set X before the import",
                    "job abe without the code, a copy of /p (nexus add --sync), which is not here any more: there is no \
                     /no/such/snapshots/0123",
                    "job abg without the submitter's environment (nexus add --export-env): the import gives its own; --env keeps a \
                     variable",
                ]
            );
        }
    }
}
