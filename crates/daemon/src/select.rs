//! Resolves selectors to jobs.

use std::collections::BTreeSet;

use nexus_api::jobs::State;
use nexus_api::problem::Problem;
use nexus_api::select::Selector;
use nexus_core::ids::JobId;

use crate::store::{JobRow, Reader};

/// Which job runs on a GPU; asked of the engine before the store is read.
pub type OnGpu = dyn Fn(Option<&str>, u16) -> Vec<JobId> + Send;

/// The jobs that `texts` name, each once, in the order named. `states` narrows what a tag, a name, a
/// project or a regular expression matches; a job named by id, GPU or `last` always comes, so that the
/// verb can say why it does not fit.
pub fn select(reader: &Reader, texts: &[String], states: &[State], on_gpu: &OnGpu) -> Result<Vec<JobRow>, Problem> {
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for text in texts {
        let rows = one(reader, text, states, on_gpu)?;
        if rows.is_empty() {
            return Err(nothing(text));
        }
        found.extend(rows.into_iter().filter(|row| known.insert(row.n)));
    }
    Ok(found)
}

fn one(reader: &Reader, text: &str, states: &[State], on_gpu: &OnGpu) -> Result<Vec<JobRow>, Problem> {
    let bad = |error: String| Problem::BadSelector { selector: text.to_string(), error };
    let selector: Selector = text.parse().map_err(|error: nexus_api::select::BadSelector| bad(error.to_string()))?;
    let failed = |error: crate::store::StoreError| error.problem();
    let (rows, narrowed) = match selector {
        Selector::Id(id) => match reader.job(id.as_str()).map_err(failed)? {
            Some(row) => (vec![row], false),
            None => return Err(Problem::NoSuchJob { id: id.to_string() }),
        },
        Selector::Last(count) => (reader.newest(count).map_err(failed)?, false),
        Selector::Gpu { machine, index } => {
            let mut rows = Vec::new();
            for id in on_gpu(machine.as_deref(), index) {
                rows.extend(reader.job(id.as_str()).map_err(failed)?);
            }
            (rows, false)
        }
        Selector::Tag(tag) => (reader.tagged(&tag).map_err(failed)?, true),
        Selector::Name(name) => (reader.named(&name).map_err(failed)?, true),
        Selector::Project(project) => (reader.of_project(&project).map_err(failed)?, true),
        Selector::Sweep(name) => (reader.of_sweep(&name).map_err(failed)?, true),
        Selector::Regex(text) => {
            let regex = regex::Regex::new(&text).map_err(|error| bad(error.to_string()))?;
            (reader.matching(&regex).map_err(failed)?, true)
        }
    };
    let fits = |row: &JobRow| !narrowed || states.is_empty() || states.contains(&row.state);
    Ok(rows.into_iter().filter(fits).collect())
}

fn nothing(text: &str) -> Problem {
    Problem::NothingMatches { selector: text.to_string() }
}
