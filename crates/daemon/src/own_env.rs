//! The service's own environment: that of jobs which come without one, from a file or from another home.

use nexus_api::env::{Env, is_reserved};

use crate::web::fd_store;

pub fn env() -> Env {
    let vars =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut env: Env =
        vars.filter(|(name, _)| !is_reserved(name) && !fd_store::VARIABLES.contains(&name.as_str())).collect();
    env.extend(["PAGER", "GIT_PAGER"].map(|name| (name.to_string(), "cat".to_string())));
    env
}
