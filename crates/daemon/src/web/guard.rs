//! What stands between TCP and the router: who asks, from which page, by which name of this machine, with how much.
//!
//! A name of somebody else's may point to this machine: so a request has to name this machine by address, and to come from the
//! page itself. Names cannot be made to point elsewhere where no name is taken. `localhost` is not taken either: it means
//! 127.0.0.1 and ::1, and another user can listen at the one of them that the service does not have.
//!
//! Callers show the token for programs, or a session or link of a browser's key (`proof.rs`). No cookie is taken: a browser
//! sends cookies to every port of a host, and to whoever listens there.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use nexus_api::problem::Problem;

use super::connections::Connection;
use super::keys::{BrowserCaller, Keys, now_s};
use super::page;
use super::proof::{Prover, Shown};

/// More than a page has to say. The socket takes more.
const MOST_BYTES: usize = 16 << 20;

/// A body that takes longer is not waited for.
const LONGEST_BODY: Duration = Duration::from_secs(30);

/// The protocol of a browser's WebSocket; the session is sent as a second one, since a browser adds no header there.
pub const WEB_SOCKET_PROTOCOL: &str = "nexus-terminal";

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
    pub prover: Arc<Prover>,
    /// `web.session`, as it is in force.
    pub session: Session,
    /// The machine's own name, where others reach it too.
    pub host: Option<String>,
}

pub type Session = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The router as TCP has it: the page beside it, the guard before all.
pub fn guarded(router: Router, guard: Guard) -> Router {
    let page = Router::new()
        .route("/", get(page::index))
        .route("/favicon.svg", get(page::favicon))
        .route("/icon.svg", get(page::icon))
        .route("/assets/{name}", get(page::asset))
        .route("/enter.js", get(page::enter_script))
        .route("/enter/{link}", get(enter))
        .with_state(guard.clone());
    page.merge(router).layer(middleware::from_fn_with_state(guard, check))
}

async fn check(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let forgets_cookie = guard.has_old_cookie(request.headers());
    let mut answer = match guard.admits(&mut request) {
        // A script that does nothing but end: whoever asks may have it.
        _ if asks_for_worker(request.headers()) => page::last_worker(),
        Err(answer) => *answer,
        // The body of an unknown caller is never read: it would be memory that anybody can take.
        Ok(Caller::Unknown) => next.run(request.map(|_| Body::empty())).await,
        Ok(caller) => {
            let browser = caller.browser();
            if let Some(connection) = request.extensions().get::<Connection>() {
                connection.set_known(browser.map(|caller| caller.browser.as_str()));
            }
            if let Some(browser) = browser {
                request.extensions_mut().insert(browser.clone());
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
    if forgets_cookie {
        let forget = format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", guard.keys.old_cookie_name());
        answer.headers_mut().insert(header::SET_COOKIE, forget.parse().expect("the name is hexadecimal"));
    }
    answer
}

enum Caller {
    /// Gets only what everybody may have.
    Unknown,
    Program,
    Browser(BrowserCaller),
}

impl Caller {
    fn browser(&self) -> Option<&BrowserCaller> {
        match self {
            Caller::Browser(browser) => Some(browser),
            Caller::Unknown | Caller::Program => None,
        }
    }
}

/// What everybody may have: the page's code, which is the same for all, the exchange of a link, and the service's proof.
fn is_public(path: &str) -> bool {
    matches!(path, "/" | "/favicon.svg" | "/icon.svg" | "/enter.js" | "/v1/web/proof")
        || path.starts_with("/assets/")
        || path.starts_with("/enter/")
}

impl Guard {
    /// Who asks, or the answer that refuses the request.
    fn admits(&self, request: &mut Request) -> Result<Caller, Box<Response>> {
        let headers = request.headers();
        let host = text(headers, header::HOST).unwrap_or_default();
        if !self.is_this_machine(host) {
            let error =
                format!("{host} is no address of this machine, and no name is taken: 127.0.0.1 is, also for localhost");
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
        match self.caller(request) {
            Some(caller) => Ok(caller),
            None if is_public(request.uri().path()) => Ok(Caller::Unknown),
            None => Err(Box::new(refused(StatusCode::UNAUTHORIZED, Problem::NotIn))),
        }
    }

    fn caller(&self, request: &mut Request) -> Option<Caller> {
        let headers = request.headers();
        if let Some(shown) = text(headers, header::AUTHORIZATION) {
            if let Some(token) = shown.strip_prefix("Bearer ") {
                return self.keys.is_token(token.trim()).then_some(Caller::Program);
            }
            return self.of_session(shown.strip_prefix("Nexus ")?);
        }
        if let Some(protocols) = text(headers, header::SEC_WEBSOCKET_PROTOCOL) {
            let (protocol, session) = protocols.split_once(',')?;
            return self.of_session(session.trim()).filter(|_| protocol.trim() == WEB_SOCKET_PROTOCOL);
        }
        self.of_link(request)
    }

    fn of_session(&self, session: &str) -> Option<Caller> {
        let shown = Shown::parse(session)?;
        self.of_key(&shown, |key| self.prover.check_session(&shown, key, now_s()))
    }

    /// A link is the last parameter of the query; what is behind this does not see it.
    fn of_link(&self, request: &mut Request) -> Option<Caller> {
        let asked = request.uri().path_and_query()?.as_str();
        let (path, link) = asked.rsplit_once("link=").filter(|_| request.method() == Method::GET)?;
        let path = path.strip_suffix(['?', '&'])?;
        let shown = Shown::parse(link)?;
        let caller = self.of_key(&shown, |key| self.prover.check_link(&shown, key, path, now_s()))?;
        let path: PathAndQuery = path.parse().ok()?;
        *request.uri_mut() = Uri::from(path);
        Some(caller)
    }

    /// `check` tells when the proof was made that the caller took.
    fn of_key(&self, shown: &Shown, check: impl Fn(&str) -> Option<u64>) -> Option<Caller> {
        let found = self.keys.find(shown.key_id, (self.session)())?;
        let made_s = check(&found.key)?;
        self.keys.proved(&found, shown.key_id, made_s);
        let (at, challenge) = (self.prover.at().into(), shown.challenge.into());
        Some(Caller::Browser(BrowserCaller { browser: found.browser, key_id: shown.key_id.into(), at, challenge }))
    }

    /// Whether the browser still sends the cookie of an older nexus.
    fn has_old_cookie(&self, headers: &HeaderMap) -> bool {
        let name = self.keys.old_cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = cookies.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.any(|(its_name, _)| its_name == name)
    }

    fn is_this_machine(&self, host: &str) -> bool {
        // `[::1]:4004`, `127.0.0.1:4004`
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        };
        name.parse::<Ipv4Addr>().is_ok()
            || name.parse::<Ipv6Addr>().is_ok()
            || (!name.eq_ignore_ascii_case("localhost")
                && self.host.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name)))
    }
}

/// A browser looks for a new version of a service worker that is registered for this address. The page has none: another
/// program registered it while it had the port, and until it is replaced it answers for the service.
fn asks_for_worker(headers: &HeaderMap) -> bool {
    text(headers, HeaderName::from_static("service-worker")) == Some("script")
}

/// A link that was not used yet is exchanged for a key.
async fn enter(State(guard): State<Guard>, Path(link): Path<String>, headers: HeaderMap) -> Response {
    let agent = text(&headers, header::USER_AGENT).unwrap_or_default();
    match guard.keys.enter(&link, agent) {
        Ok(Some(key)) => page::entered(&key, guard.prover.at()),
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
    use crate::web::keys::tests::home;
    use crate::web::proof::tests::session;

    const HOST: &str = "127.0.0.1:4004";

    fn guard(dir: &std::path::Path) -> Guard {
        Guard {
            keys: Arc::new(Keys::open(&home(dir)).unwrap()),
            prover: Arc::new(Prover::new(HOST.into()).unwrap()),
            session: Arc::new(|| Duration::from_secs(3600)),
            host: None,
        }
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request {
        let request = headers.iter().fold(Request::get(uri), |request, (name, value)| request.header(*name, *value));
        request.header("host", HOST).body(Body::empty()).unwrap()
    }

    /// `browser`, `program`, `unknown`, or the status of the refusal.
    fn admitted(guard: &Guard, request: &mut Request) -> String {
        match guard.admits(request) {
            Ok(Caller::Browser(_)) => "browser".into(),
            Ok(Caller::Program) => "program".into(),
            Ok(Caller::Unknown) => "unknown".into(),
            Err(answer) => answer.status().as_u16().to_string(),
        }
    }

    #[test]
    fn machines_are_named_by_address() {
        let dir = tempfile::tempdir().unwrap();
        let mut guard = guard(dir.path());
        for host in ["127.0.0.1:4004", "127.0.0.1", "[::1]:4004", "10.1.2.3:80"] {
            assert!(guard.is_this_machine(host), "{host}");
        }
        let others = ["", "evil.example", "127.0.0.1.evil.example:4004", "box:4004", "localhost.evil.example", "[::1"];
        for host in others.into_iter().chain(["localhost", "localhost:4004", "LOCALHOST"]) {
            assert_eq!(guard.is_this_machine(host), host == "[::1", "{host}");
        }
        guard.host = Some("box".into());
        assert!(guard.is_this_machine("box:4004") && !guard.is_this_machine("box2:4004"));
        // As a machine without a name is called.
        guard.host = Some("localhost".into());
        assert!(!guard.is_this_machine("localhost:4004"));
    }

    #[test]
    fn a_session_is_shown_in_a_header_or_to_a_web_socket_and_a_cookie_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let guard = guard(dir.path());
        let key = guard.keys.enter(&guard.keys.new_link().unwrap(), "").unwrap().unwrap();
        let session = session(&key.id, &key.key, HOST, &guard.prover.challenge(now_s()));
        let wrong = session.replace(|letter: char| letter.is_ascii_digit(), "f");
        for (name, value, who) in [
            ("authorization", format!("Nexus {session}"), "browser"),
            ("authorization", format!("Nexus {wrong}"), "401"),
            ("authorization", format!("Bearer {session}"), "401"),
            ("authorization", format!("Nexus {}", key.key), "401"),
            ("sec-websocket-protocol", format!("nexus-terminal, {session}"), "browser"),
            ("sec-websocket-protocol", format!("other, {session}"), "401"),
            ("sec-websocket-protocol", session.clone(), "401"),
            ("cookie", format!("{}={session}", guard.keys.old_cookie_name()), "401"),
        ] {
            assert_eq!(admitted(&guard, &mut request("/v1/status", &[(name, &value)])), who, "{name}: {value}");
        }
        assert_eq!(admitted(&guard, &mut request("/", &[("authorization", "Nexus x")])), "unknown");
        for path in ["/assets/x.js", "/enter/x", "/v1/web/proof?key=x"] {
            assert_eq!(admitted(&guard, &mut request(path, &[])), "unknown", "{path}");
        }
        for path in ["/v1/web/keys", "/v1/web", "/metrics", "/assets", "/enter"] {
            assert_eq!(admitted(&guard, &mut request(path, &[])), "401", "{path}");
        }
    }

    #[test]
    fn a_link_is_for_one_path_and_is_not_seen_behind_the_guard() {
        let dir = tempfile::tempdir().unwrap();
        let guard = guard(dir.path());
        let key = guard.keys.enter(&guard.keys.new_link().unwrap(), "").unwrap().unwrap();
        let link = |path: &str| {
            let challenge = guard.prover.challenge(now_s());
            let mac = crate::web::proof::tests::link_mac(&key.key, HOST, &challenge, path);
            format!("{}.{challenge}.{mac}", key.id)
        };
        let (one, two) = (link("/v1/jobs/a/log?stream=both"), link("/v1/jobs/a/log"));
        let mut asked = request(&format!("/v1/jobs/a/log?stream=both&link={one}"), &[]);
        assert_eq!(admitted(&guard, &mut asked), "browser");
        assert_eq!(asked.uri(), "/v1/jobs/a/log?stream=both");
        let mut asked = request(&format!("/v1/jobs/a/log?link={two}"), &[]);
        assert_eq!(admitted(&guard, &mut asked), "browser");
        assert_eq!(asked.uri(), "/v1/jobs/a/log");
        for other in [
            format!("/v1/jobs/b/log?stream=both&link={one}"),
            format!("/v1/jobs/a/log?link={one}"),
            format!("/v1/jobs/a/log?stream=both&link={one}&x"),
            format!("/v1/status?link={two}"),
            "/v1/status?link=".into(),
        ] {
            assert_eq!(admitted(&guard, &mut request(&other, &[])), "401", "{other}");
        }
        let mut post = request(&format!("/v1/jobs/a/log?link={two}"), &[]);
        *post.method_mut() = Method::POST;
        assert_eq!(admitted(&guard, &mut post), "401", "a link changes nothing");
    }

    #[test]
    fn an_old_cookie_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let guard = guard(dir.path());
        let name = guard.keys.old_cookie_name();
        let has = |cookie: &str| guard.has_old_cookie(request("/", &[("cookie", cookie)]).headers());
        assert!(has(&format!("a=b; {name}=0")) && !has("a=b; nexus_00000000=0") && !has(&name));
    }
}
