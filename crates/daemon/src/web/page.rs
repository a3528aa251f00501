//! The page itself: files of `web/dist` that were there when this was built, or a word on how to make them.

use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use nexus_api::problem::Problem;

use super::browsers::Key;

/// Names and contents.
type Files = &'static [(&'static str, &'static [u8])];

const FILES: Files = include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Their names change with their contents.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

pub async fn index() -> Response {
    match file("index.html") {
        Some(html) => Html(html).into_response(),
        None => said(
            StatusCode::OK,
            "This nexus was built without its page",
            "In its source folder: <code>npm --prefix web ci &amp;&amp; npm --prefix web run build &amp;&amp; \
             cargo build</code>, then <code>nexus restart</code>. All that the page does, <code>nexus</code> does in \
             a terminal: <code>nexus help</code>.",
        ),
    }
}

pub async fn favicon() -> Response {
    answer("favicon.svg")
}

pub async fn icon() -> Response {
    answer("icon.svg")
}

pub async fn asset(Path(name): Path<String>) -> Response {
    let mut answer = answer(&format!("assets/{name}"));
    if answer.status().is_success() {
        answer.headers_mut().insert(header::CACHE_CONTROL, FOR_GOOD.parse().expect("plain text"));
    }
    answer
}

/// Hands the browser its key, which [`enter_script`] stores. `at` is the listener's address, which proofs are made with.
pub fn entered(key: &Key, at: &str) -> Response {
    let key = serde_json::json!({ "id": key.id, "key": key.key, "at": at });
    let text = format!(
        "<meta name=\"nexus-key\" content='{key}'><script src=\"/enter.js\" defer></script>\
         <noscript>The page needs JavaScript.</noscript>"
    );
    let mut answer = said(StatusCode::OK, "nexus", &text);
    // A program that had the port before can have had its own page and scripts cached for a year, under our names. "storage"
    // would also delete the keys of other services that come by turns at this address.
    answer.headers_mut().insert("clear-site-data", HeaderValue::from_static("\"cache\""));
    answer
}

/// Replaces a service worker of another program, and unregisters itself.
pub fn last_worker() -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type("unregister.js")),
        // Without this a worker of the whole address is not replaced by a script whose path is deeper.
        (HeaderName::from_static("service-worker-allowed"), "/"),
    ];
    (headers, include_str!("unregister.js")).into_response()
}

pub async fn enter_script() -> Response {
    ([(header::CONTENT_TYPE, content_type("enter.js"))], include_str!("enter.js")).into_response()
}

pub fn link_is_used() -> Response {
    said(
        StatusCode::UNAUTHORIZED,
        "This link does not work any more",
        "A link lets one browser in, once, within ten minutes. Type <code>nexus web</code> for a new one.",
    )
}

fn answer(name: &str) -> Response {
    match file(name) {
        Some(bytes) => ([(header::CONTENT_TYPE, content_type(name))], bytes).into_response(),
        None => {
            let problem = Problem::BadRequest { error: format!("there is no /{name}") };
            (StatusCode::NOT_FOUND, axum::Json(problem.told())).into_response()
        }
    }
}

fn file(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        Some("html") => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn said(status: StatusCode, title: &str, text: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>:root{{color-scheme:light dark}}body{{font:16px/1.5 system-ui,sans-serif;\
         max-width:34rem;margin:18vh auto;padding:0 1.5rem}}h1{{font-size:1.25rem}}code{{font-family:ui-monospace,\
         monospace;background:color-mix(in srgb,currentColor 10%,transparent);padding:.1em .35em;border-radius:.25em}}\
         </style><h1>{title}</h1><p>{text}</p></html>"
    );
    (status, Html(html)).into_response()
}
