//! The way without systemd: a line of the user's crontab that starts the service when the machine does.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{CliError, Refused};

/// Ends lines that nexus made.
const MARK: &str = "# nexus service";

/// Has the user's crontab start the service of this home.
pub fn install(program: &Path, home: &Path) -> Result<(), CliError> {
    let before = read().map_err(missing)??;
    write(&changed(&before, home, Some(&line(program, home))))
}

/// Takes that back. Returns whether there was something to take back: where there is no crontab there was not.
pub fn uninstall(home: &Path) -> Result<bool, CliError> {
    let Ok(before) = read() else { return Ok(false) };
    let before = before?;
    let after = changed(&before, home, None);
    if after == before {
        return Ok(false);
    }
    write(&after)?;
    Ok(true)
}

/// For this program and home.
pub fn line(program: &Path, home: &Path) -> String {
    format!("{}{} start >/dev/null 2>&1 {MARK}", beginning(home), quoted(program))
}

/// Of the line of a home.
fn beginning(home: &Path) -> String {
    format!("@reboot NEXUS_HOME={} ", quoted(home))
}

/// In a crontab `%` is a new line.
fn quoted(path: &Path) -> String {
    nexus_api::command::quote(&path.to_string_lossy()).replace('%', "\\%")
}

/// With this line in place of the one that the home had.
fn changed(before: &str, home: &Path, line: Option<&str>) -> String {
    let beginning = beginning(home);
    let others = before.lines().filter(|line| !(line.starts_with(&beginning) && line.ends_with(MARK)));
    others.chain(line).map(|line| format!("{line}\n")).collect()
}

/// Empty where this user has none. The outer error: there is no such program.
fn read() -> std::io::Result<Result<String, CliError>> {
    let listed = Command::new("crontab").arg("-l").stdin(Stdio::null()).output()?;
    Ok(match listed.status.success() {
        true => Ok(String::from_utf8_lossy(&listed.stdout).into_owned()),
        false if String::from_utf8_lossy(&listed.stderr).contains("no crontab") => Ok(String::new()),
        false => Err(refused(&listed.stderr)),
    })
}

fn write(text: &str) -> Result<(), CliError> {
    let mut crontab = Command::new("crontab")
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    let given = crontab.stdin.take().expect("it was piped").write_all(text.as_bytes());
    let done = crontab.wait_with_output().map_err(CliError::io("crontab could not be awaited"))?;
    match done.status.success() {
        true => given.map_err(CliError::io("crontab did not take its lines")),
        false => Err(refused(&done.stderr)),
    }
}

fn missing(error: std::io::Error) -> CliError {
    let why = format!("crontab cannot be run: {error}");
    let hint = "install cron, or have whatever starts your session run: nexus start";
    Refused { error: "the service was not installed".into(), why: Some(why), hint: Some(hint.into()) }.into()
}

fn refused(said: &[u8]) -> CliError {
    let why = format!("crontab: {}", String::from_utf8_lossy(said).trim());
    Refused { error: "the crontab was not changed".into(), why: Some(why), hint: None }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_line_is_changed() {
        let others =
            "# mine\n0 5 * * * backup\n@reboot NEXUS_HOME=/home/ann/2 nexus start >/dev/null 2>&1 # nexus service\n";
        let home = Path::new("/home/ann/50%");
        let own = line(Path::new("/opt/a b/nexus"), home);
        assert_eq!(own, "@reboot NEXUS_HOME=/home/ann/50\\% '/opt/a b/nexus' start >/dev/null 2>&1 # nexus service");
        let with = changed(others, home, Some(&own));
        assert_eq!(with, format!("{others}{own}\n"));
        let newer = line(Path::new("/opt/new/nexus"), home);
        assert_eq!(changed(&with, home, Some(&newer)), format!("{others}{newer}\n"));
        assert_eq!(changed(&with, home, None), others);
        assert_eq!(changed("", home, None), "");
    }
}
