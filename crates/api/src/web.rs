//! The web page: whether and where it can be had.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of `POST /v1/web`: have the page from now on, after a restart too. On the socket alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct WebOn {
    /// None = the one that it has, else that of the configuration; 0 = any that is free.
    pub port: Option<u16>,
    /// An address of this machine at which others reach it too; none = this machine alone.
    pub expose: Option<String>,
}

/// `GET /v1/web`, and the answer to [`WebOn`] and to `DELETE /v1/web`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Web {
    /// `127.0.0.1:4004`; null while it is off.
    pub address: Option<String>,
    /// Whether others than this machine reach it.
    pub exposed: bool,
    /// Lets one browser in, once, within ten minutes. Made by [`WebOn`] alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The file with the token for programs: `Authorization: Bearer TOKEN`.
    pub token_file: String,
    /// Why it is not there although it is to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// `GET /v1/web/proof`: shows a browser that this service made the browser's key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Proof {
    /// What the browser answers in `Authorization: Nexus KEY.CHALLENGE.MAC`.
    pub challenge: String,
    /// HMAC-SHA256 in hexadecimal, with the key, of four lines: `nexus service`, the service's address, the nonce, the
    /// challenge.
    pub proof: String,
}

/// `POST /v1/web/keys`: ids of the keys that a browser lacked. No key is sent: browser and service each compute it, as
/// HMAC-SHA256 in hexadecimal with the key of the session, of four lines: `nexus tab key` or `nexus stored key`, the service's
/// address, the id, the challenge of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BrowserKeys {
    /// Of a key for the tab's memory alone; null if the tab showed one.
    pub tab_id: Option<String>,
    /// Of a key for the browser's storage; null if the one that it has is good.
    pub stored_id: Option<String>,
}

/// `GET /v1/web/browsers`: a browser that was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Browser {
    pub id: String,
    /// What it calls itself, in short: `Firefox on Linux`.
    pub name: String,
    pub added_at: String,
    /// When it last took a proof of the service: while a tab is open, each 20 minutes.
    pub proved_at: String,
    /// When it is out if no tab is opened until then; null if only a tab that stays open is in. 30 days after `added_at` every
    /// browser is out.
    pub ends_at: Option<String>,
    /// Tabs that have a key of their own.
    pub tabs: u64,
}
