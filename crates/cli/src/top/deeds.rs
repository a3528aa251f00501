//! What is asked of the service when a key is pressed, and what came of it in words.

use jiff::Zoned;
use nexus_api::jobs::{Action, Job, Move, OnJobs, Rerun};
use nexus_api::problem::Problem;

use crate::client::Client;
use crate::error::CliError;
use crate::render::paint::Paint;
use crate::render::reason::Capacity;
use crate::render::{outcome, place, prospect, show, text, why};
use crate::secrets;

/// The screen has colours of its own.
const PLAIN: Paint = Paint { on: false };

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Kill(String),
    Remove(String),
    Hold(String),
    Release(String),
    First(String),
    /// Before that one; none = behind all.
    Move {
        id: String,
        before: Option<String>,
    },
    Rerun(String),
    Why(String),
    Show(String),
}

/// What came of it.
pub enum Done {
    Said(String),
    Page { title: String, text: String },
}

pub async fn run(client: &Client, deed: Deed) -> Result<Done, CliError> {
    match deed {
        Deed::Kill(id) => {
            let job = act(client, Action::Kill, id).await?;
            Ok(said(&format!("asked to end{}", place::on_place(&job)), &job))
        }
        Deed::Remove(id) => Ok(said("removed", &act(client, Action::Remove, id).await?)),
        Deed::Hold(id) => Ok(said("held", &act(client, Action::Hold, id).await?)),
        Deed::Release(id) => Ok(said("released", &act(client, Action::Release, id).await?)),
        Deed::First(id) => Ok(said("put first", &act(client, Action::First, id).await?)),
        Deed::Move { id, before } => {
            let job = client.move_job(&id, &Move { before: before.clone() }).await?;
            let place = before.map_or("to the end".into(), |before| format!("before {before}"));
            Ok(said(&format!("moved {place}"), &job))
        }
        Deed::Rerun(id) => rerun(client, id).await,
        Deed::Why(id) => {
            let told = client.why(&id).await?;
            Ok(Done::Page { title: format!("why {id}"), text: why::why(&told, &Zoned::now(), PLAIN) })
        }
        Deed::Show(id) => {
            let detail = client.job(&id, false).await?;
            let capacity = Capacity::of(&client.status(false).await?);
            let text = show::show(&detail, None, capacity, &Zoned::now(), PLAIN);
            Ok(Done::Page { title: format!("all about {id}"), text })
        }
    }
}

/// Of one job, which the service refuses in its own words where it does not fit.
async fn act(client: &Client, action: Action, id: String) -> Result<Job, CliError> {
    let gone = CliError::Problem(Problem::NoSuchJob { id: id.clone() });
    let jobs = client.act(action, OnJobs { ids: vec![id], skip_unfit: false }).await?;
    jobs.into_iter().next().ok_or(gone)
}

async fn rerun(client: &Client, id: String) -> Result<Done, CliError> {
    let wish = Rerun { ids: vec![id.clone()], secrets: secrets::of_caller(), resume: false };
    let submitted = client.rerun(&wish).await?;
    let capacity = Capacity::of(&client.status(false).await?);
    let lines: Vec<String> =
        submitted.jobs.iter().map(|job| prospect::line(job, capacity, &Zoned::now(), PLAIN)).collect();
    let notes: String = submitted.notes.iter().map(|note| format!("; {note}")).collect();
    Ok(Done::Said(format!("{id} again as {}{notes}", lines.join(", "))))
}

fn said(what: &str, job: &Job) -> Done {
    Done::Said(outcome::done(what, job, PLAIN))
}

/// What went wrong, in one line.
pub fn in_a_line(error: &CliError) -> String {
    let told = error.told();
    let why = told.why.map(|why| format!(": {why}")).unwrap_or_default();
    let hint = told.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
    text::first_line(&format!("{}{why}{hint}", told.error).replace('\n', "; "))
}

#[cfg(test)]
mod tests {
    use nexus_api::jobs::State;

    use super::*;

    #[test]
    fn errors_are_one_line_in_the_words_of_the_service() {
        let problem =
            Problem::WrongState { id: "abc".into(), verb: "hold".into(), state: State::Running, gpus: vec![0] };
        let line = in_a_line(&CliError::Problem(problem));
        assert!(line.starts_with("job abc cannot be held: it is running on GPU 0"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
}
