//! Problems as HTTP answers.

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use nexus_api::problem::Problem;

/// A problem on its way to a client.
pub struct Failed(pub Problem);

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Failed {
        Failed(problem)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = match &self.0 {
            Problem::NoSuchJob { .. }
            | Problem::NothingMatches { .. }
            | Problem::NotWatched { .. }
            | Problem::NoSuchVariable { .. }
            | Problem::NoSuchMachine { .. }
            | Problem::NoLog { .. }
            | Problem::LogsGone { .. } => StatusCode::NOT_FOUND,
            Problem::WrongState { .. }
            | Problem::NotUnique { .. }
            | Problem::KeyReused { .. }
            | Problem::NobodyToTell
            | Problem::CheckpointsInUse { .. }
            | Problem::VariableGone { .. }
            | Problem::CodeGone { .. }
            | Problem::MachineExists { .. }
            | Problem::MachineBusy { .. }
            | Problem::OwnMachine
            | Problem::ServiceRuns { .. }
            | Problem::LogUnreadable { .. }
            | Problem::NoTerminal { .. }
            | Problem::TimeLimitKept { .. } => StatusCode::CONFLICT,
            Problem::NotIn => StatusCode::UNAUTHORIZED,
            Problem::Forbidden { .. } => StatusCode::FORBIDDEN,
            Problem::TooMuch { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::DiskFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
            Problem::Stopping
            | Problem::Busy { .. }
            | Problem::Unreachable { .. }
            | Problem::DatabaseDamaged { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Problem::Database { .. } | Problem::Internal { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, Json(self.0.told())).into_response()
    }
}

pub async fn no_such_path(uri: Uri) -> Response {
    let problem = Problem::BadRequest { error: format!("there is no {}", uri.path()) };
    (StatusCode::NOT_FOUND, Json(problem.told())).into_response()
}

/// A path that is there, and not for this.
pub async fn no_such_method(method: Method, uri: Uri) -> Response {
    let problem = Problem::BadRequest { error: format!("{method} means nothing to {}", uri.path()) };
    (StatusCode::METHOD_NOT_ALLOWED, Json(problem.told())).into_response()
}
