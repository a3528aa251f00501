//! The environment of a run, with what the machine's `env_file` adds to it.

use std::borrow::Cow;
use std::io::{self, Read};

use nexus_api::env::parse_file;
use nexus_api::environ::Environ;
use nexus_api::run_dir::EnvFile;

use super::failure::Failure;
use crate::trust::{self, OpenError, Writers};

/// No file of variables is larger; something else lies in its place.
const MOST_BYTES: u64 = 1 << 20;

pub fn with_file<'a>(env: &'a Environ, file: Option<&EnvFile>) -> Result<Cow<'a, Environ>, Failure> {
    let Some(file) = file else { return Ok(Cow::Borrowed(env)) };
    let mut env = env.clone();
    let failed = |error: String| Failure::EnvFile { path: file.path.clone(), error };
    let text = read(file).map_err(|error| match error {
        OpenError::Io(error) => failed(super::failure::reason(&error)),
        OpenError::Untrusted(untrusted) => failed(untrusted.to_string()),
    })?;
    let variables = parse_file(&text).map_err(|bad| failed(format!("line {}: {}", bad.line, bad.error)))?;
    for (name, value) in variables {
        if file.except.contains(&name) {
            continue;
        }
        env.retain(|known| known != name);
        env.push(&name, &value);
    }
    Ok(Cow::Owned(env))
}

/// A variable like LD_PRELOAD or BASH_ENV is a command: nobody else may write to the file.
fn read(file: &EnvFile) -> Result<String, OpenError> {
    let opened = trust::open(&file.path, &Writers::own())?;
    let mut text = String::new();
    let length = opened.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(OpenError::Io)?;
    match length as u64 > MOST_BYTES {
        true => Err(OpenError::Io(io::Error::other(format!("it is larger than {} KiB", MOST_BYTES >> 10)))),
        false => Ok(text),
    }
}
