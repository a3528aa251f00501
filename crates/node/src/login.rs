//! The environment that a login shell of this machine has. Its rc files may print, hang, or start things that go on:
//! what counts stands between two marks that nobody can guess, and there is a deadline.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nexus_api::environ::Environ;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::processes;
use crate::system_file;
use crate::users;

/// Names and values.
pub type Variables = Vec<(String, String)>;

/// No environment is larger, and no greeting.
const MOST_BYTES: usize = 8 << 20;

/// The login environment, or this process's own and why it could not be had.
pub fn read(deadline: Duration) -> (Variables, Option<String>) {
    let until = Instant::now() + deadline;
    let mut error = None;
    for shell in shells() {
        match ask(&shell, until) {
            Ok(variables) => return (kept(variables), None),
            // What is wrong with the user's own counts, not with that which stands in for it.
            Err(why) => drop(error.get_or_insert(format!("{} {why}", shell.to_string_lossy()))),
        }
    }
    let own =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    (kept(own.collect()), error)
}

/// The user's shell, and one that everybody has.
fn shells() -> Vec<OsString> {
    let own = users::account_of(rustix::process::getuid().as_raw()).map(|account| account.shell);
    let named = std::env::var_os("SHELL").map(PathBuf::from).or(own).filter(|shell| shell.is_file());
    let named = named.map(PathBuf::into_os_string);
    let plain = (named.as_deref() != Some("/bin/sh".as_ref())).then(|| "/bin/sh".into());
    named.into_iter().chain(plain).collect()
}

fn ask(shell: &OsString, until: Instant) -> Result<Variables, String> {
    let mark = mark().map_err(|error| format!("was not asked: {error}"))?;
    let mut command = Command::new(shell);
    command.args(["-l", "-c"]).arg(format!("echo {mark}; env -0; echo {mark}"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // SAFETY: setsid is allowed between fork and exec.
    unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
    let mut child = command.spawn().map_err(|error| format!("could not be started: {error}"))?;
    let read = read_until(&mut child, &mark, until);
    // What rc files started and did not put into a session of its own would wait for a terminal that is not there.
    end_session(&mut child);
    let bytes = read?;
    between(&bytes, &mark).map(parse).ok_or_else(|| "did not print its environment".to_owned())
}

fn mark() -> std::io::Result<String> {
    let mut chance = [0; 16];
    system_file::open("/dev/urandom")?.read_exact(&mut chance)?;
    Ok(format!("nexus{:032x}", u128::from_ne_bytes(chance)))
}

/// What the shell prints up to the second mark. Not up to the end: something in the background may keep the pipe.
fn read_until(child: &mut Child, mark: &str, until: Instant) -> Result<Vec<u8>, String> {
    let mut stdout = child.stdout.take().ok_or("has no output")?;
    let (mut bytes, mut part) = (Vec::new(), [0; 16 << 10]);
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        if poll(&mut [PollFd::new(&stdout, PollFlags::IN)], left.as_ref()) == Ok(0) {
            return Err("did not answer in time".into());
        }
        match stdout.read(&mut part) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("could not be read: {error}")),
        }
        if bytes.len() > MOST_BYTES {
            return Err("printed too much".into());
        }
        if between(&bytes, mark).is_some() {
            return Ok(bytes);
        }
    }
}

fn between<'a>(bytes: &'a [u8], mark: &str) -> Option<&'a [u8]> {
    let line = format!("{mark}\n");
    let begin = memchr::memmem::find(bytes, line.as_bytes())? + line.len();
    let end = memchr::memmem::rfind(&bytes[begin..], line.as_bytes())?;
    Some(&bytes[begin..begin + end])
}

fn end_session(child: &mut Child) {
    let own = child.id();
    let session = processes::all_stats().unwrap_or_default().into_iter().filter(|stat| stat.session == own);
    for stat in session {
        stat.process.signal(libc::SIGKILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// What is no text is left out.
fn parse(bytes: &[u8]) -> Variables {
    let settings = bytes.split(|byte| *byte == 0).filter_map(|one| std::str::from_utf8(one).ok());
    settings.filter_map(|one| one.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Without what belongs to this connection and this shell.
fn kept(variables: Variables) -> Variables {
    let is_of_here = |name: &str| {
        matches!(name, "" | "PWD" | "OLDPWD" | "SHLVL" | "_")
            || name.starts_with("SSH_")
            || name.starts_with("XDG_SESSION_")
    };
    variables.into_iter().filter(|(name, _)| !is_of_here(name)).collect()
}

/// `over` on top of `under`: each name once.
pub fn merged(under: &Variables, over: &Environ) -> Environ {
    let under = under.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    under.filter(|(name, _)| over.get(name).is_none()).chain(over.iter()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_marks_counts() {
        let printed = b"Welcome\nM\nA=1\0B=two\nlines\0=x\0bad\xff=1\0_=/usr/bin/env\0SSH_TTY=/dev/pts/1\0M\nbye\n";
        let variables = kept(parse(between(printed, "M").unwrap()));
        assert_eq!(variables, [("A".into(), "1".into()), ("B".into(), "two\nlines".into())]);
        assert_eq!(between(b"M\nA=1\0", "M"), None);
    }

    #[test]
    fn what_the_job_says_goes_over_the_login_environment() {
        fn pairs<'a, T: FromIterator<(&'a str, &'a str)>>(text: &'a str) -> T {
            text.split(' ').map(|one| one.split_once('=').unwrap()).collect()
        }
        let under = pairs::<Environ>("A=1 B=1 C=1").iter().map(|(name, value)| (name.into(), value.into())).collect();
        let merged = merged(&under, &pairs("B=2 D=2"));
        assert_eq!(merged, pairs::<Environ>("A=1 C=1 B=2 D=2"));
    }
}
