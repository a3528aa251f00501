//! A job before anything is said of it: the environment, the folder and the window of whoever types.

use nexus_api::command::Command;
use nexus_api::env::{Env, is_reserved};
use nexus_api::jobs::JobSpec;

use crate::error::{CliError, Refused};
use crate::ui;

/// Variables that are no text are left out.
pub fn spec() -> Result<JobSpec, CliError> {
    let cwd = std::env::current_dir().map_err(CliError::io("the folder this was typed in cannot be found"))?;
    let cwd = cwd.into_os_string().into_string().map_err(|path| Refused {
        error: format!("the folder {path:?} is not valid UTF-8"),
        why: None,
        hint: Some("type it in another one".into()),
    })?;
    let vars = std::env::vars_os();
    let vars = vars.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut env: Env = vars.filter(|(name, _)| !is_reserved(name)).collect();
    env.extend(["PAGER", "GIT_PAGER"].map(|name| (name.to_string(), "cat".to_string())));
    Ok(JobSpec { env, window: ui::window(), ..JobSpec::new(Command::Shell(String::new()), cwd) })
}
