//! What a job left behind: shown, and copied when somebody asks for it.

use std::path::{Path as FsPath, PathBuf};

use axum::Json;
use axum::extract::State;
use nexus_api::left::{CopyResults, Results};
use nexus_api::problem::Problem;
use nexus_api::results::{Copy, ResultsState};
use nexus_core::ids::JobId;

use super::extract::{Path, Sent};
use super::problem::Failed;
use super::{App, Shared};
use crate::results::{Order, Sources};
use crate::store::JobRow;

pub async fn show(State(app): State<Shared>, Path(id): Path<String>) -> Result<Json<Results>, Failed> {
    Ok(Json(app.results(id).await?))
}

/// Begins a copy, or joins the one that is under way; what became of it is asked for afterwards.
pub async fn copy(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Sent(wish): Sent<CopyResults>,
) -> Result<Json<Results>, Failed> {
    let row = app.row(id.clone()).await?;
    // Joined: its end is the job's.
    if row.state != nexus_api::jobs::State::Copying || wish.to.is_some() {
        let order = app.order_of(&row, &wish)?;
        let to = order.to.clone();
        let (_, new) = app.copier.begin(order);
        let going_on = app.copy_of(&row).map(|copy| copy.to).filter(|known| *known != to.display().to_string());
        if let Some(other) = going_on.filter(|_| !new) {
            let want = format!("its results are being copied to {other}: wait for that");
            let value = to.display().to_string();
            return Err(Problem::BadField { field: "to".into(), value, want }.into());
        }
    }
    Ok(Json(app.results(id).await?))
}

impl App {
    async fn row(self: &Shared, id: String) -> Result<JobRow, Problem> {
        self.read(move |reader| reader.job(&id).map_err(|error| error.problem())?.ok_or(Problem::NoSuchJob { id }))
            .await
    }

    async fn results(self: &Shared, id: String) -> Result<Results, Problem> {
        // Looked at first: when it says that the copy is over, the row has its end.
        let copy = id.parse::<JobId>().ok().and_then(|id| self.copier.look(id));
        let row = self.row(id).await?;
        let going_on = copy.as_ref().is_some_and(|copy| !copy.ended);
        let state = if going_on { ResultsState::Copying } else { row.left.state };
        Ok(Results {
            state: row.state,
            results: row.results_folder(),
            results_state: state.word().into(),
            folder: self.own_results(&row),
            error: row.left.error,
            named: row.left.found.results,
            named_left_out: row.left.found.results_left_out,
            extracted: (!row.spec.extract.is_empty()).then_some(row.left.found.values),
            id: row.id,
            copy,
        })
    }

    /// The newest copy of its results.
    pub(super) fn copy_of(&self, row: &JobRow) -> Option<Copy> {
        self.copier.look(row.id.parse().ok()?)
    }

    /// The folder for results of its own, if something is in it.
    pub(super) fn own_results(&self, row: &JobRow) -> Option<String> {
        let folder = self.home.results().join(row.id.parse::<JobId>().ok()?.as_str());
        let has_something = std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
        has_something.then(|| folder.display().to_string())
    }

    fn order_of(&self, row: &JobRow, wish: &CopyResults) -> Result<Order, Problem> {
        let job: JobId = row.id.parse().map_err(|_| Problem::NoSuchJob { id: row.id.clone() })?;
        if !row.state.has_ended() {
            let (verb, gpus) = ("results".into(), row.gpus.clone());
            return Err(Problem::WrongState { id: row.id.clone(), verb, state: row.state, gpus });
        }
        let bad = |value: &str, want: &str| Problem::BadField {
            field: "to".into(),
            value: value.to_string(),
            want: want.to_string(),
        };
        let (to, clears) = match (&wish.to, row.results_folder()) {
            (Some(to), _) if FsPath::new(to).is_absolute() => (PathBuf::from(to).join(&row.id), false),
            (Some(to), _) => return Err(bad(to, "an absolute path")),
            // Where the last copy went, or was to go.
            (None, Some(folder)) => (PathBuf::from(folder), row.spec.results.is_some()),
            (None, None) => return Err(bad("unsaid", "a folder, since the job was added without --results: --to DIR")),
        };
        if let Some(folder) = self.copied_before(row, &to) {
            // What is safe there is all that it left, even where the originals are gone. It is nobody's to clear.
            let sources = Sources { own: folder, ..Sources::default() };
            return Ok(Order { job, sources, from: None, to, clears: false, by_user: true });
        }
        let machine = || row.machine.clone().unwrap_or_default();
        let away = |why| Problem::Unreachable { machine: machine(), why };
        let (sources, from) = self.lines.left_by(row, &self.home).map_err(away)?;
        Ok(Order { job, sources, from, to, clears, by_user: true })
    }

    fn copied_before(&self, row: &JobRow, to: &FsPath) -> Option<PathBuf> {
        let folder = PathBuf::from(row.results_folder().filter(|_| row.left.state == ResultsState::Copied)?);
        (folder.is_dir() && folder != to).then_some(folder)
    }
}
