//! GNU screen: starts sessions and looks for them. They are addressed by their whole name, `1234.nexus_job_abc`: a part
//! of it could mean another session.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::signals;

/// `screen` goes into the background within milliseconds; on a network file system it may take longer.
pub const START_LIMIT: Duration = Duration::from_secs(5);
const START_LOOK: Duration = Duration::from_millis(1);

/// What screen has to say of a failure is no longer than this.
const WORDS_BYTES: u64 = 1000;

const FOLDER: &str = "SCREENDIR";

#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    #[error("GNU screen is not installed; install it, or do without --screen")]
    NotInstalled,
    #[error("GNU screen cannot be run: {source}")]
    Run { source: io::Error },
    #[error("GNU screen refuses: {words}")]
    Refused { words: String },
    #[error("GNU screen has shown no session within {} seconds", START_LIMIT.as_secs())]
    Late,
}

/// A session to be started.
pub struct Wanted<'a> {
    pub name: &'a str,
    /// What runs in its window.
    pub argv: &'a [OsString],
    /// The whole environment of the session.
    pub env: &'a [(OsString, OsString)],
    /// For its socket, if screen's own folder cannot be used.
    pub own_dir: &'a Path,
}

/// Where a session was started.
pub struct Place {
    /// `SCREENDIR`, where one is in force.
    pub dir: Option<PathBuf>,
    /// Whether that is the folder of our own.
    pub is_own: bool,
}

/// Starts a session in the background, in screen's own folder or else in ours. Whether its window runs is for the
/// window to say.
pub fn start(wanted: &Wanted) -> Result<Place, ScreenError> {
    let program = find(wanted.env).ok_or(ScreenError::NotInstalled)?;
    let usual = wanted.env.iter().find(|(name, _)| name == FOLDER).map(|(_, dir)| PathBuf::from(dir));
    let refused = match start_in(&program, wanted, None) {
        Ok(()) => return Ok(Place { dir: usual, is_own: false }),
        Err(error @ ScreenError::Refused { .. }) => error,
        Err(error) => return Err(error),
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(wanted.own_dir);
    match made.is_ok() && start_in(&program, wanted, Some(wanted.own_dir)).is_ok() {
        true => Ok(Place { dir: Some(wanted.own_dir.to_owned()), is_own: true }),
        // What was wrong with the usual folder is the better reason.
        false => Err(refused),
    }
}

fn find(env: &[(OsString, OsString)]) -> Option<PathBuf> {
    let path = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
    let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path).map(|dir| dir.join("screen")).find(|file| file.is_file())
}

fn start_in(program: &Path, wanted: &Wanted, dir: Option<&Path>) -> Result<(), ScreenError> {
    let mut command = Command::new(program);
    command.arg("-dmS").arg(wanted.name).args(wanted.argv).env_clear().envs(wanted.env.iter().cloned());
    // Inside another session screen would open a window of that.
    command.env_remove("STY");
    if let Some(dir) = dir {
        command.env(FOLDER, dir);
    }
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: sets signals to their defaults and closes descriptors, both of which may be done between fork and exec.
    unsafe {
        command.pre_exec(|| {
            signals::restore();
            const CLOSE_ON_EXEC: libc::c_uint = 4;
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_ON_EXEC);
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(|source| ScreenError::Run { source })?;
    let status = wait(&mut child).map_err(|source| ScreenError::Run { source })?;
    match status {
        Some(status) if status.success() => Ok(()),
        Some(_) => Err(ScreenError::Refused { words: words(child) }),
        None => Err(ScreenError::Late),
    }
}

/// `None`: it took too long and was ended.
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + START_LIMIT;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(START_LOOK);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

/// The last line that it printed.
fn words(mut child: Child) -> String {
    let mut text = Vec::new();
    // It has ended: what it printed is there, and no more comes. What cannot be read says nothing.
    if let Some(stdout) = child.stdout.take() {
        let _ = stdout.take(WORDS_BYTES).read_to_end(&mut text);
    }
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(WORDS_BYTES).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text).replace('\r', "\n");
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    last.unwrap_or("it does not say why").trim_end_matches('.').to_owned()
}

/// The sessions in a folder, and whether somebody looks at each; those of this user in screen's own where none is named.
pub fn list(dir: Option<&Path>) -> Vec<(String, bool)> {
    let mut command = Command::new("screen");
    command.arg("-ls").env_remove("STY").stdin(Stdio::null());
    if let Some(dir) = dir {
        command.env(FOLDER, dir);
    }
    // It says "failure" where there is none, or in some releases always. Without a screen there is no session.
    command.output().map_or(vec![], |said| parse(&String::from_utf8_lossy(&said.stdout)))
}

/// Lines of sessions begin with a tab, and tabs stand between name, date and state.
fn parse(listing: &str) -> Vec<(String, bool)> {
    let sessions = listing.lines().filter_map(|line| line.strip_prefix('\t'));
    sessions
        .filter_map(|line| {
            let (session, rest) = line.split_once('\t')?;
            Some((session.trim().to_owned(), rest.to_ascii_lowercase().contains("attached)")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read() {
        let listing = "There are screens on:\n\t15900.nexus_job_abc\t(11/15/26 13:06:45)\t(Detached)\n\
                       \t15901.nexus\t(Attached)\n\t1.x\t(1/1/26)\t(Multi, attached)\n3 Sockets in /run/screen/S-ann.\n";
        let read: Vec<_> = parse(listing);
        let expected = [("15900.nexus_job_abc", false), ("15901.nexus", true), ("1.x", true)];
        assert_eq!(read, expected.map(|(name, attached)| (name.to_owned(), attached)));
        assert_eq!(parse("No Sockets found in /run/screen/S-ann.\n\n"), []);
    }
}
