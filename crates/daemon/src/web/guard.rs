//! What stands between TCP and the router: who asks, from which page, by which name of this machine, with how much.
//!
//! A browser carries a cookie along whoever sent it here, and a name of somebody else's may point to this machine: so a
//! request has to name this machine by address, or as `localhost`, and to come from the page itself. Names cannot be
//! made to point elsewhere where no name is taken.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use nexus_api::problem::Problem;

use super::connections::Connection;
use super::keys::Keys;
use super::page;

/// More than a page has to say. The socket takes more.
const MOST_BYTES: usize = 16 << 20;

/// A body that takes longer is not waited for.
const LONGEST_BODY: Duration = Duration::from_secs(30);

/// A year, in which it is used again and again.
const COOKIE_SECONDS: u32 = 365 * 24 * 3600;

/// Whatever is shown can load nothing from elsewhere, and can be framed by nobody.
const RULES: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

#[derive(Clone)]
pub struct Guard {
    pub keys: Arc<Keys>,
    /// The machine's own name, where others reach it too.
    pub host: Option<String>,
}

/// The router as TCP has it: the page beside it, the guard before all.
pub fn guarded(router: Router, guard: Guard) -> Router {
    let page = Router::new()
        .route("/", get(page::index))
        .route("/favicon.svg", get(page::favicon))
        .route("/assets/{name}", get(page::asset))
        .route("/enter/{link}", get(enter))
        .with_state(guard.clone());
    page.merge(router).layer(middleware::from_fn_with_state(guard, check))
}

async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut answer = match guard.admits(&request) {
        Err(answer) => *answer,
        // The body of an unknown caller is never read: it would be memory that anybody can take.
        Ok(Caller::Unknown) => next.run(request.map(|_| Body::empty())).await,
        Ok(Caller::Known) => {
            if let Some(connection) = request.extensions().get::<Connection>() {
                connection.set_known();
            }
            match whole(request).await {
                Ok(request) => next.run(request).await,
                Err(answer) => *answer,
            }
        }
    };
    for (name, value) in RULES {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}

enum Caller {
    /// Gets only what everybody may have.
    Unknown,
    Known,
}

impl Guard {
    /// Who asks, or the answer that refuses the request.
    fn admits(&self, request: &Request) -> Result<Caller, Box<Response>> {
        let headers = request.headers();
        let host = text(headers, header::HOST).unwrap_or_default();
        if !self.is_this_machine(host) {
            let error = format!("{host} is no name of this machine that is taken: an address is, or localhost");
            return Err(Box::new(refused(StatusCode::FORBIDDEN, Problem::Forbidden { error })));
        }
        let foreign = text(headers, header::ORIGIN).is_some_and(|origin| origin != format!("http://{host}"));
        let from = text(headers, HeaderName::from_static("sec-fetch-site"));
        let elsewhere = matches!(from, Some("cross-site" | "same-site"));
        let is_visit = text(headers, HeaderName::from_static("sec-fetch-mode")) == Some("navigate");
        if foreign || (elsewhere && !is_visit) {
            let error = "it comes from a page of somebody else's".into();
            return Err(Box::new(refused(StatusCode::FORBIDDEN, Problem::Forbidden { error })));
        }
        match request.uri().path() {
            _ if self.knows(headers) => Ok(Caller::Known),
            path if path.starts_with("/enter/") => Ok(Caller::Unknown),
            "/" => Err(Box::new(page::not_in())),
            _ => Err(Box::new(refused(StatusCode::UNAUTHORIZED, Problem::NotIn))),
        }
    }

    fn is_this_machine(&self, host: &str) -> bool {
        // `[::1]:4004`, `127.0.0.1:4004`, `localhost`
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        name.parse::<Ipv4Addr>().is_ok()
            || name.parse::<Ipv6Addr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.host.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name))
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        if let Some(token) = text(headers, header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer ")) {
            return self.keys.is_token(token.trim());
        }
        let name = self.keys.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .any(|(its_name, value)| its_name == name && self.keys.is_cookie(value))
    }
}

/// A link that was not used yet is exchanged for a cookie. Who is in already has nothing to gain, and goes on.
async fn enter(State(guard): State<Guard>, Path(link): Path<String>, headers: HeaderMap) -> Response {
    if guard.knows(&headers) {
        return Redirect::to("/").into_response();
    }
    match guard.keys.enter(&link) {
        Ok(Some(cookie)) => {
            let name = guard.keys.cookie_name();
            let cookie = format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={COOKIE_SECONDS}");
            ([(header::SET_COOKIE, cookie)], page::entered()).into_response()
        }
        Ok(None) => page::link_is_used(),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, Problem::Internal { error: error.to_string() }),
    }
}

/// Read before anybody waits for it: not too long, and not for too long.
async fn whole(request: Request) -> Result<Request, Box<Response>> {
    let (parts, body) = request.into_parts();
    let refuse = |status, problem| Box::new(refused(status, problem));
    let too_much = || refuse(StatusCode::PAYLOAD_TOO_LARGE, Problem::TooMuch { most_bytes: MOST_BYTES as u64 });
    let said = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if said.is_some_and(|length| length > MOST_BYTES) {
        return Err(too_much());
    }
    match tokio::time::timeout(LONGEST_BODY, to_bytes(body, MOST_BYTES)).await {
        Ok(Ok(bytes)) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Ok(Err(_)) => Err(too_much()),
        Err(_) => {
            let error = format!("it did not come within {} s", LONGEST_BODY.as_secs());
            Err(refuse(StatusCode::REQUEST_TIMEOUT, Problem::BadRequest { error }))
        }
    }
}

fn refused(status: StatusCode, problem: Problem) -> Response {
    (status, Json(problem.told())).into_response()
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_by_address() {
        let dir = tempfile::tempdir().unwrap();
        let keys = Arc::new(Keys::open(&crate::web::keys::tests::home(dir.path())).unwrap());
        let mut guard = Guard { keys, host: None };
        for host in ["127.0.0.1:4004", "127.0.0.1", "localhost:9", "LOCALHOST", "[::1]:4004", "10.1.2.3:80"] {
            assert!(guard.is_this_machine(host), "{host}");
        }
        for host in ["", "evil.example", "127.0.0.1.evil.example:4004", "box:4004", "localhost.evil.example", "[::1"] {
            assert_eq!(guard.is_this_machine(host), host == "[::1", "{host}");
        }
        guard.host = Some("box".into());
        assert!(guard.is_this_machine("box:4004") && !guard.is_this_machine("box2:4004"));
    }
}
