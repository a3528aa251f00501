//! The way without systemd: a line of the user's crontab that starts the service when the machine does.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::{CliError, Refused};

/// Ends the line that is ours.
const MARK: &str = "# nexus service";

/// The crontab with our line in place of any that it had, or without one.
pub fn change(line: Option<&str>) -> Result<bool, CliError> {
    let before = read()?;
    let after = changed(&before, line);
    if after == before {
        return Ok(false);
    }
    write(&after)?;
    Ok(true)
}

/// For this program and home. In a crontab `%` is a new line.
pub fn line(program: &Path, home: &Path) -> String {
    let quoted = |path: &Path| nexus_api::command::quote(&path.to_string_lossy()).replace('%', "\\%");
    format!("@reboot NEXUS_HOME={} {} start >/dev/null 2>&1 {MARK}", quoted(home), quoted(program))
}

fn changed(before: &str, line: Option<&str>) -> String {
    let others = before.lines().filter(|line| !line.ends_with(MARK));
    others.chain(line).map(|line| format!("{line}\n")).collect()
}

/// Empty where there is none.
fn read() -> Result<String, CliError> {
    let listed = Command::new("crontab").arg("-l").stdin(Stdio::null()).output().map_err(missing)?;
    match listed.status.success() {
        true => Ok(String::from_utf8_lossy(&listed.stdout).into_owned()),
        false if String::from_utf8_lossy(&listed.stderr).contains("no crontab") => Ok(String::new()),
        false => Err(refused(&listed.stderr)),
    }
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
        let others = "# mine\n0 5 * * * backup\n";
        let own = line(Path::new("/opt/a b/nexus"), Path::new("/home/ann/50%"));
        assert_eq!(own, "@reboot NEXUS_HOME=/home/ann/50\\% '/opt/a b/nexus' start >/dev/null 2>&1 # nexus service");
        let with = changed(others, Some(&own));
        assert_eq!(with, format!("{others}{own}\n"));
        assert_eq!(
            changed(&with, Some("@reboot other # nexus service")),
            format!("{others}@reboot other # nexus service\n")
        );
        assert_eq!(changed(&with, None), others);
        assert_eq!(changed("", None), "");
    }
}
