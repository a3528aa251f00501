//! `--conda` and `--venv`: a small script in front of the command that activates the environment, where the run
//! starts, and then becomes the command. That is handed on as arguments, byte for byte.

use std::path::Path;
use std::process::{Command, Stdio};

use nexus_api::jobs::JobSpec;

/// For any POSIX shell; its first lines say how it is called.
const SCRIPT: &str = include_str!("activate.sh");

/// What stands before the program and its arguments; nothing for a job without an environment.
pub fn before(spec: &JobSpec, shell: &Path) -> Option<Vec<String>> {
    let (kind, environment) = match (&spec.conda, &spec.venv) {
        (Some(conda), _) if conda.contains('/') => ("conda", from_folder(conda, &spec.cwd)),
        (Some(conda), _) => ("conda", conda.clone()),
        (None, Some(venv)) => ("venv", from_folder(venv, &spec.cwd)),
        (None, None) => return None,
    };
    let shell = shell.to_string_lossy().into_owned();
    Some(vec![shell.clone(), "-c".into(), SCRIPT.into(), shell, kind.into(), environment])
}

/// A path that counts from the job's folder. The home is known where the job runs.
fn from_folder(path: &str, cwd: &str) -> String {
    match path.starts_with("~/") {
        true => path.to_string(),
        false => Path::new(cwd).join(path).to_string_lossy().into_owned(),
    }
}

/// The conda, mamba or micromamba that a job with this process's environment would use.
pub fn find_conda() -> Option<String> {
    let asked =
        Command::new("sh").args(["-c", SCRIPT, "sh", "find"]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let found = asked.ok().filter(|asked| asked.status.success())?;
    let path = String::from_utf8_lossy(&found.stdout).trim_end().to_string();
    (!path.is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_count_from_the_jobs_folder() {
        let spec = |conda: Option<&str>, venv: Option<&str>| JobSpec {
            conda: conda.map(String::from),
            venv: venv.map(String::from),
            ..JobSpec::new(nexus_api::command::Command::Shell("true".into()), "/data".into())
        };
        for (conda, venv, expected) in [
            (Some("torch"), None, "conda torch"),
            (Some("envs/torch"), None, "conda /data/envs/torch"),
            (Some("/opt/torch"), None, "conda /opt/torch"),
            (Some("~/torch"), None, "conda ~/torch"),
            (None, Some(".venv"), "venv /data/.venv"),
            (None, Some("/x y"), "venv /x y"),
        ] {
            let before = before(&spec(conda, venv), Path::new("/bin/sh")).unwrap();
            assert_eq!(before[4..].join(" "), expected);
        }
        assert_eq!(before(&spec(None, None), Path::new("/bin/sh")), None);
    }
}
