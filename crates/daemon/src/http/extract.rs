//! What a client sent, read into its type; what cannot be read is a [`Problem`] like any other.

use axum::body::Bytes;
use axum::extract::{self, FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use nexus_api::problem::Problem;
use serde::de::DeserializeOwned;

use super::problem::Failed;

/// The body, as JSON, whatever its content type says.
pub struct Sent<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> Result<Sent<T>, Failed> {
        let bytes = Bytes::from_request(request, state).await.map_err(|error| unreadable(error.to_string()))?;
        serde_json::from_slice(&bytes).map(Sent).map_err(|error| unreadable(error.to_string()))
    }
}

/// The body as it is.
pub struct Raw(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> Result<Raw, Failed> {
        Bytes::from_request(request, state).await.map(Raw).map_err(|error| unreadable(error.to_string()))
    }
}

/// What stands in the place of a brace in the path.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Failed> {
        match extract::Path::from_request_parts(parts, state).await {
            Ok(extract::Path(part)) => Ok(Path(part)),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }
}

/// The query of the path.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asked<T>, Failed> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Asked(asked)),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }
}

fn unreadable(error: String) -> Failed {
    Failed(Problem::BadRequest { error })
}
