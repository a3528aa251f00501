//! What a submitter should know of jobs that were taken.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::GpuAmount;

/// Something of a submission that was taken otherwise than one may think.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum Note {
    /// A rule asks for more than one GPU and not for whole ones.
    RoundedUp { rule: String, asked: f64, gpus: GpuAmount },
    /// Jobs were repeated without the values of these variables: a value whose name looks like a secret is dropped when its
    /// job ends, and the caller gave none. `jobs` are the new jobs.
    SecretsDropped { names: Vec<String>, jobs: Few },
    /// The same of jobs of an export, by their ids there.
    SecretsNotExported { names: Vec<String>, jobs: Few },
    /// Of a service that knows more.
    #[serde(other)]
    Other,
}

/// Ids of jobs: the first of them, and how many more there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Few {
    pub first: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Few {
    /// Ids that are named.
    const NAMED: usize = 5;

    pub fn add(&mut self, id: &str) {
        match self.first.len() < Few::NAMED {
            true => self.first.push(id.to_string()),
            false => self.more += 1,
        }
    }
}

/// `job abc`, `jobs abc, def and 3 more`
impl std::fmt::Display for Few {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Few { first, more } = self;
        let word = if first.len() == 1 && *more == 0 { "job" } else { "jobs" };
        write!(f, "{word} {}", first.join(", "))?;
        if *more > 0 { write!(f, " and {more} more") } else { Ok(()) }
    }
}

/// `export A=… B=…`
fn to_export(names: &[String]) -> String {
    names.iter().fold("export".to_string(), |text, name| text + " " + name + "=…")
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Note::RoundedUp { rule, asked, gpus } => {
                write!(f, "{asked} GPUs by the rule {rule} are rounded up to {gpus}")
            }
            Note::SecretsDropped { names, jobs } => write!(
                f,
                "{jobs} without {}: such values are dropped when a job ends, and none is set here; to give them: nexus cancel \
                 the new jobs, {}, nexus rerun again (nexus var set keeps a value for later jobs)",
                names.join(", "),
                to_export(names)
            ),
            Note::SecretsNotExported { names, jobs } => write!(
                f,
                "{jobs} of the file without {}: an export has no such values, and none is set here; to give them: nexus cancel \
                 the new jobs, {}, import again",
                names.join(", "),
                to_export(names)
            ),
            Note::Other => f.write_str("the service has a note that this nexus cannot read"),
        }
    }
}
