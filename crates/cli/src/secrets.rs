//! The caller's own values of names that look like secrets: those of a job are dropped when it has ended.

use nexus_api::env::{Env, looks_secret};

pub fn of_caller() -> Env {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| looks_secret(name))
        .collect()
}
