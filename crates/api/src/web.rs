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
