//! Follows a process and all that it starts, and stops each of them before and after every system call.

use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Mutex;
use std::sync::mpsc::Sender;

use libc::pid_t;

use super::calls::Call;
use super::log::Log;

const OPTIONS: libc::c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    // Nobody goes on unseen when the test is over or fails.
    | libc::PTRACE_O_EXITKILL;

/// Runs until the command and all that it left behind have ended.
pub fn trace(command: &mut Command, binary: &Path, log: &Mutex<Log>, told: &Sender<ExitStatus>) {
    // SAFETY: ptrace(2) is async-signal-safe and touches no memory.
    unsafe { command.pre_exec(|| request(libc::PTRACE_TRACEME, 0, 0, 0).map(drop)) };
    #[expect(clippy::zombie_processes, reason = "it is waited for with all others, by `next_stop`")]
    let child = command.spawn().expect("a process can be traced: ptrace is allowed");
    let first = child.id() as pid_t;
    let mut calls: HashMap<pid_t, Call> = HashMap::new();
    let mut known = HashSet::from([first]);
    let mut is_set_up = false;
    while let Some((pid, status)) = next_stop() {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            calls.remove(&pid);
            known.remove(&pid);
            if pid == first {
                // Whoever waited may have given up.
                let _ = told.send(ExitStatus::from_raw(status));
            }
            continue;
        }
        if !is_set_up {
            request(libc::PTRACE_SETOPTIONS, pid, 0, OPTIONS as usize).expect("it has stopped at its first exec");
            is_set_up = true;
        }
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let mut deliver = 0;
        match (signal, event) {
            (_, libc::PTRACE_EVENT_EXEC) if !is(pid, binary) => {
                calls.remove(&pid);
                known.remove(&pid);
                // It may have been killed meanwhile.
                let _ = request(libc::PTRACE_DETACH, pid, 0, 0);
                continue;
            }
            (libc::SIGTRAP, _) => {}
            (signal, _) if signal == libc::SIGTRAP | 0x80 => step(pid, &mut calls, log),
            // How a new process or thread shows itself.
            (libc::SIGSTOP, _) if known.insert(pid) => {}
            (signal, _) => deliver = signal,
        }
        known.insert(pid);
        // It may have been killed meanwhile.
        let _ = request(libc::PTRACE_SYSCALL, pid, 0, deliver as usize);
    }
}

/// One that stopped or ended, of those that this thread started or traces; none when all have ended.
fn next_stop() -> Option<(pid_t, libc::c_int)> {
    let mut status = 0;
    loop {
        // Others in this process wait for children of their own.
        let flags = libc::__WALL | libc::__WNOTHREAD;
        // SAFETY: the status is ours to be written to.
        let pid = unsafe { libc::waitpid(-1, &mut status, flags) };
        match io::Error::last_os_error().raw_os_error() {
            _ if pid > 0 => return Some((pid, status)),
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return None,
            error => panic!("waitpid: {error:?}"),
        }
    }
}

fn is(pid: pid_t, binary: &Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == binary)
}

/// A process is about to make a system call, or has made it.
fn step(pid: pid_t, calls: &mut HashMap<pid_t, Call>, log: &Mutex<Log>) {
    // SAFETY: all fields are numbers.
    let mut told: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::ptrace_syscall_info>();
    let got = request(libc::PTRACE_GET_SYSCALL_INFO, pid, size, (&raw mut told) as usize);
    if got.is_err() {
        // It was killed meanwhile.
        return;
    }
    if told.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
        // SAFETY: the kernel filled in the part that `op` names.
        let entry = unsafe { told.u.entry };
        if let Some(call) = Call::begins(pid, entry.nr as libc::c_long, entry.args, log) {
            calls.insert(pid, call);
        }
    } else if told.op == libc::PTRACE_SYSCALL_INFO_EXIT
        && let Some(call) = calls.remove(&pid)
    {
        // SAFETY: as above.
        let exit = unsafe { told.u.exit };
        if exit.is_error == 0 {
            call.ends(pid, exit.sval, &mut log.lock().expect("no tracer panicked"));
        }
    }
}

fn request(what: libc::c_uint, pid: pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: `data` is a number, or the address of something that the caller owns and that is large enough.
    let done = unsafe { libc::ptrace(what, pid, address as *mut c_void, data as *mut c_void) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
