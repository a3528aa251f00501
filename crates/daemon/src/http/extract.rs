//! What a client sent, read into its type; what cannot be read is a [`Problem`] like any other.

use axum::body::Bytes;
use axum::extract::{self, FromRequest, FromRequestParts, Query, Request};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use nexus_api::problem::Problem;
use nexus_api::strict;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::Failed;
use crate::digest;
use crate::engine::Once;

const LONGEST_KEY: usize = 200;

/// The body, as JSON, whatever its content type says. A key that is not known is refused: dropped in silence, it would make
/// another job than was meant.
pub struct Sent<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> Result<Sent<T>, Failed> {
        let bytes = Bytes::from_request(request, state).await.map_err(|error| unreadable(error.to_string()))?;
        strict::read(&bytes).map(Sent).map_err(unreadable)
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

/// The key under which a submission happens once, however often it is sent: the header `idempotency-key`. `wish` is what
/// is asked for, of this kind.
pub fn once(headers: &HeaderMap, kind: &str, wish: &impl Serialize) -> Result<Option<Once>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let plain = key.to_str().ok().filter(|key| (1..=LONGEST_KEY).contains(&key.len()));
    let Some(key) = plain else {
        let want = format!("1 to {LONGEST_KEY} letters, digits and signs");
        return Err(Problem::BadField {
            field: "idempotency-key".into(),
            value: String::from_utf8_lossy(key.as_bytes()).into_owned(),
            want,
        });
    };
    let wish = serde_json::to_string(wish).expect("it was plain data when it came");
    Ok(Some(Once { key: key.to_string(), digest: digest::of([kind, &wish]) }))
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
