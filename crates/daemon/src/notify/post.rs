//! One POST to a webhook: a fresh connection, a time limit over all of it, and no redirects, since where one leads to was
//! not what somebody trusted with what their jobs are.
//!
//! The certificates of the system count, read for each notice: those of a lab's own authority among them, and
//! `SSL_CERT_FILE`. A proxy is used as `ALL_PROXY`, `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` said when the service began.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::trouble::Trouble;
use super::webhook::Webhook;

/// Of what a server says beside its status.
const WORDS: usize = 200;

const REDIRECTS: &str = "it is elsewhere by now, and redirects are not followed";

/// Servers that ask for more patience than this are not waited for so long.
const MOST_PATIENCE: Duration = Duration::from_secs(300);

/// What it answered, if it took the notice.
pub fn post(webhook: &Webhook, body: &Value, limit: Duration) -> Result<String, Trouble> {
    let agent = agent(webhook, limit)?;
    let sent =
        agent.post(webhook.address()).header("content-type", "application/json").send(body.to_string().as_bytes());
    let mut answer = sent.map_err(|error| match error {
        ureq::Error::RedirectFailed | ureq::Error::TooManyRedirects => Trouble::lasting(REDIRECTS.into()),
        error => Trouble::passing(in_words(error, limit)),
    })?;
    let status = answer.status();
    let said = said(&mut answer);
    let told = format!("{status}{}", if said.is_empty() { String::new() } else { format!(": {said}") });
    match status.as_u16() {
        200..=299 => Ok(told),
        300..=399 => Err(Trouble::lasting(format!("{REDIRECTS} ({status})"))),
        408 | 425 | 429 | 500..=599 => {
            Err(Trouble { after: retry_after(&answer), ..Trouble::passing(format!("it answered {told}")) })
        }
        _ => Err(Trouble::lasting(format!("it answered {told}"))),
    }
}

fn agent(webhook: &Webhook, limit: Duration) -> Result<Agent, Trouble> {
    let config = Agent::config_builder()
        .timeout_global(Some(limit))
        .timeout_connect(Some(limit / 2))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(0)
        .user_agent(concat!("nexus/", env!("CARGO_PKG_VERSION")));
    let config = match webhook.is_encrypted() {
        true => config.tls_config(tls()?),
        false => config,
    };
    Ok(config.build().into())
}

fn tls() -> Result<TlsConfig, Trouble> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map(|error| format!(" ({error})")).unwrap_or_default();
        let words =
            "this machine has no certificates to know servers by; install ca-certificates, or set SSL_CERT_FILE";
        return Err(Trouble::lasting(format!("{words}{why}")));
    }
    let roots = found.certs.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

/// In one line, without what a terminal would take for more than letters.
fn said(answer: &mut Response<ureq::Body>) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not told; the status is what counts.
    let _ = answer.body_mut().as_reader().take(4 * WORDS as u64).read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|letter| !letter.is_control()).take(WORDS).collect()
}

/// Only seconds are understood; a date is as good as nothing.
fn retry_after(answer: &Response<ureq::Body>) -> Option<Duration> {
    let seconds: f64 = answer.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(|wait| wait.min(MOST_PATIENCE))
}

/// Never with the address in it.
fn in_words(error: ureq::Error, limit: Duration) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("it did not answer within {}s", limit.as_secs_f64()),
        ureq::Error::HostNotFound => "there is no such host".into(),
        ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            "the connection was refused".into()
        }
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::ConnectProxyFailed(why) => {
            format!("the proxy would not: {}", why.chars().take(WORDS).collect::<String>())
        }
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "its address cannot be used".into(),
        other => other.to_string(),
    }
}
