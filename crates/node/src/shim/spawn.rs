//! Starts the command: everything it needs is made ready before the fork, and the child says through a pipe why
//! it could not execute. That pipe closes by itself when it could.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nexus_api::environ::Environ;
use nexus_api::run_dir::{RUN_DIR_VARIABLE, ResourceLimits, RunSpec};

use super::failure::Failure;
use super::process::{self, Never};
use super::ready::Group;
use super::terminal::Streams;
use super::{limits, variables};
use crate::cgroup;
use crate::signals;
use crate::system_file;

/// Searched when the job's environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Which step of the child failed, as it says through the pipe.
const STREAMS: u8 = 0;
const ENTER: u8 = 1;
const EXECUTE: u8 = 2;
/// Steps from here on are limits, by their place among them.
const LIMITS: u8 = 3;

/// A command ready to be executed.
pub struct Command {
    program: String,
    /// Files to try, one after another.
    candidates: Vec<CString>,
    arguments: Vec<CString>,
    environment: Environ,
    cwd: PathBuf,
    cwd_text: CString,
    limits: ResourceLimits,
    machine: Option<String>,
}

/// What a child takes on its way to the command.
struct Way<'a> {
    streams: &'a Streams,
    /// Of a further cgroup.
    door: Option<&'a File>,
    complaint: &'a OwnedFd,
    /// Whether to go on; may wait for the answer.
    word: &'a mut dyn FnMut() -> bool,
}

/// As execve(2) wants them; the strings are the command's.
struct Vectors {
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
}

/// A child on its way to the command.
pub struct Child {
    pub pid: u32,
    /// The run's own cgroup, if the child is in it.
    pub cgroup: Option<PathBuf>,
    complaint: File,
}

impl Command {
    pub fn prepare(spec: &RunSpec) -> Result<Command, Failure> {
        let program = spec.argv.first().filter(|program| !program.is_empty()).ok_or(Failure::NoCommand)?;
        let zero_byte = |what: &'static str| Failure::ZeroByte { program: program.replace('\0', "?"), what };
        let text = |what: &'static str, bytes: &[u8]| CString::new(bytes).map_err(|_| zero_byte(what));
        let dir = spec.dir.to_string_lossy();
        let env = variables::with_file(&spec.env, spec.env_file.as_ref())?;
        let others = env.iter().filter(|(name, _)| *name != RUN_DIR_VARIABLE);
        let environment: Environ = others.chain([(RUN_DIR_VARIABLE, &*dir)]).collect();
        if environment.has_zero_byte() {
            return Err(zero_byte("its environment"));
        }
        let candidates = candidates(program, &env);
        Ok(Command {
            program: program.clone(),
            candidates: candidates.iter().map(|path| text("its name", path.as_bytes())).collect::<Result<_, _>>()?,
            arguments: spec.argv.iter().map(|one| text("an argument", one.as_bytes())).collect::<Result<_, _>>()?,
            environment,
            cwd: spec.cwd.clone(),
            cwd_text: text("its folder", spec.cwd.as_os_str().as_bytes())?,
            limits: spec.limits,
            machine: spec.machine.clone(),
        })
    }

    /// Forks the child, into the cgroup if it can be, and through the door of a further one.
    pub fn fork(&self, streams: &Streams, group: &Group) -> Result<Child, Failure> {
        let (ours, theirs) = complaints().map_err(Failure::machine("make a pipe"))?;
        let vectors = self.vectors();
        let (door, mut at_once) = (group.door(), || true);
        let mut way = Way { streams, door: door.as_ref(), complaint: &theirs, word: &mut at_once };
        let mut child = || self.become_command(&mut way, &vectors);
        let opened = group.dir().and_then(|path| system_file::open(path).ok());
        // SAFETY: this process has one thread, and the child does nothing but become the command.
        let inside = opened.as_ref().and_then(|group| unsafe { process::start(Some(group.as_fd()), &mut child) }.ok());
        let pid = match inside {
            Some(pid) => pid,
            // SAFETY: as above.
            None => unsafe { process::start(None, &mut child) }.map_err(Failure::machine("fork"))?,
        };
        let joined = |path: &Path| inside.is_some() || cgroup::join(path, pid).is_ok();
        let cgroup = group.dir().filter(|path| joined(path)).map(Path::to_owned);
        Ok(Child { pid, cgroup, complaint: ours })
    }

    /// Forks a child that asks for the word first, in this process's memory, and goes if there is none. None where that
    /// cannot be.
    pub fn fork_waiting(&self, streams: &Streams, group: &Group, word: &mut dyn FnMut() -> bool) -> Option<Child> {
        let (ours, theirs) = complaints().ok()?;
        let (vectors, door) = (self.vectors(), group.door());
        let mut way = Way { streams, door: door.as_ref(), complaint: &theirs, word };
        let mut child = || self.become_command(&mut way, &vectors);
        let opened = group.dir().map(system_file::open).transpose().ok()?;
        // SAFETY: as for `fork`; what is asked for the word frees nothing that was there.
        let pid = unsafe { process::start_shared(opened.as_ref().map(AsFd::as_fd), &mut child) }.ok()?;
        Some(Child { pid, cgroup: group.dir().map(Path::to_owned), complaint: ours })
    }

    /// Pointers are collected before the fork, since the child must not allocate more than it has to.
    fn vectors(&self) -> Vectors {
        let arguments = self.arguments.iter().map(|text| text.as_ptr());
        let environment = self.environment.entries().map(|entry| entry.as_ptr().cast());
        Vectors { arguments: closed(arguments), environment: closed(environment) }
    }

    /// In the child, until it is the command.
    fn become_command(&self, way: &mut Way, vectors: &Vectors) -> Never {
        // Before anything is allocated or forked. Without it the run has no limit, as where there is no door.
        let _ = way.door.map(|door| rustix::io::write(door, b"0"));
        let failed = |step: u8, error: io::Error| -> ! {
            let errno = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
            let _ = rustix::io::write(way.complaint, &[step, errno[0], errno[1], errno[2], errno[3]]);
            // SAFETY: ends the child without running anything of the shim's.
            unsafe { libc::_exit(127) }
        };
        if let Err(error) = way.streams.enter() {
            failed(STREAMS, error);
        }
        if !(way.word)() {
            // SAFETY: as above.
            unsafe { libc::_exit(0) }
        }
        // What is asked for the word is asked with the signals, and without the limits, of a shim.
        signals::restore_in_shim();
        for (place, limit) in limits::of(&self.limits).iter().enumerate() {
            if let Err(error) = limit.set() {
                failed(LIMITS + place as u8, error);
            }
        }
        // SAFETY: marks all but the standard streams to be closed by exec; the string ends with a zero byte.
        unsafe {
            const CLOSE_ON_EXEC: libc::c_uint = 4;
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, CLOSE_ON_EXEC);
            if libc::chdir(self.cwd_text.as_ptr()) < 0 {
                failed(ENTER, io::Error::last_os_error());
            }
        }
        failed(EXECUTE, self.execute(vectors))
    }

    /// Tries the candidates as a shell would; comes back with the most telling error.
    fn execute(&self, Vectors { arguments, environment }: &Vectors) -> io::Error {
        let mut telling = None;
        for candidate in &self.candidates {
            // SAFETY: both lists end with a null pointer, and their strings live in `self`.
            unsafe { libc::execve(candidate.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // A script without `#!` is one for the standard shell.
                Some(libc::ENOEXEC) => return execute_as_script(candidate, arguments, environment),
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                Some(libc::EACCES) => telling = Some(error),
                _ => return error,
            }
        }
        telling.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }
}

impl Child {
    /// After it has ended; its status is of no interest.
    pub fn collect(&self) {
        // SAFETY: waits for a child of ours by its number; a null pointer is for a status that nobody wants.
        unsafe { libc::waitpid(self.pid as i32, std::ptr::null_mut(), 0) };
    }

    /// Waits until the child has become the command, or says why it could not.
    pub fn executed(&mut self, command: &Command) -> Result<(), Failure> {
        let mut message = [0; 5];
        let length = self.complaint.read(&mut message).map_err(Failure::machine("hear from the new process"))?;
        if length < message.len() {
            return Ok(());
        }
        let [step, errno @ ..] = message;
        let source = io::Error::from_raw_os_error(i32::from_ne_bytes(errno));
        Err(match step {
            ENTER => Failure::Enter { cwd: command.cwd.clone(), source, machine: command.machine.clone() },
            EXECUTE => Failure::Execute { program: command.program.clone(), source },
            step @ LIMITS.. => limits::of(&command.limits)[usize::from(step - LIMITS)].failure(source),
            _ => Failure::Machine { operation: "set up the standard streams", source },
        })
    }
}

/// Where the child says what failed: our end, and its own.
fn complaints() -> io::Result<(File, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((File::from(ours), theirs))
}

fn candidates(program: &str, env: &Environ) -> Vec<String> {
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    let folders = env.get("PATH").filter(|path| !path.is_empty()).unwrap_or(DEFAULT_PATH).split(':');
    folders.map(|folder| format!("{}/{program}", if folder.is_empty() { "." } else { folder })).collect()
}

fn closed(texts: impl Iterator<Item = *const libc::c_char>) -> Vec<*const libc::c_char> {
    texts.chain([std::ptr::null()]).collect()
}

fn execute_as_script(
    script: &CString,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
) -> io::Error {
    let shell = c"/bin/sh".as_ptr();
    let list: Vec<_> = [shell, script.as_ptr()].into_iter().chain(arguments[1..].iter().copied()).collect();
    // SAFETY: as for the candidates; the arguments end with the null pointer of the original list.
    unsafe { libc::execve(shell, list.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_in_the_jobs_own_path() {
        let env = |path: &str| Environ::from_iter([("PATH", "/old"), ("PATH", path)]);
        assert_eq!(candidates("run", &env("/a:/b")), ["/a/run", "/b/run"]);
        assert_eq!(candidates("run", &env("/a:")), ["/a/run", "./run"]);
        assert_eq!(candidates("run", &Environ::default()).len(), 3);
        assert_eq!(candidates("./run", &env("/a")), ["./run"]);
    }
}
