//! A new process that only executes something, at once or when there is word. It shares this one's memory until it does, while
//! this one stands still, as after vfork(2): a copy of the memory, which is thrown away at once, would cost more than all the
//! rest of a start.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
#[cfg(target_arch = "x86_64")]
use std::sync::Once;

/// Whether [`clone`] is more than a fork here.
const SHARES_MEMORY: bool = cfg!(target_arch = "x86_64");

/// The child's stack. It calls the kernel and little else.
#[cfg(target_arch = "x86_64")]
const STACK_BYTES: usize = 64 << 10;

/// What nobody may touch below it: one that grows too large ends its process, and does not write over what lies there.
#[cfg(target_arch = "x86_64")]
const GUARD_BYTES: usize = 4 << 10;

/// One is enough: whoever starts a child stands still until it needs no stack of ours any more.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(4096))]
struct Stack {
    guard: UnsafeCell<[u8; GUARD_BYTES]>,
    stack: UnsafeCell<[u8; STACK_BYTES]>,
}

// SAFETY: only the child writes to it, while the one thread of this process stands still.
#[cfg(target_arch = "x86_64")]
unsafe impl Sync for Stack {}

#[cfg(target_arch = "x86_64")]
static STACK: Stack = Stack { guard: UnsafeCell::new([0; GUARD_BYTES]), stack: UnsafeCell::new([0; STACK_BYTES]) };

#[cfg(target_arch = "x86_64")]
static IS_GUARDED: Once = Once::new();

type Child<'a> = &'a mut dyn FnMut() -> Never;

/// What the child comes to.
pub enum Never {}

/// Starts a process, in the cgroup if one is given (since Linux 5.7): what comes of it is never outside, not even for an
/// instant. Fails where this kernel or this user may not.
///
/// # Safety
/// This process has one thread. What the child does to memory stays done: it must free nothing that was there.
pub unsafe fn start(cgroup: Option<BorrowedFd>, mut child: Child) -> io::Result<u32> {
    // SAFETY: as promised by the caller; the closure is borrowed for as long as this one stands still.
    match unsafe { clone(&mut arguments(cgroup), (&raw mut child).cast()) } {
        pid if pid > 0 => Ok(pid as u32),
        // Containers often know no clone3(2).
        // SAFETY: as above.
        _ if cgroup.is_none() => unsafe { fork((&raw mut child).cast()) },
        error => Err(io::Error::from_raw_os_error(-error as i32)),
    }
}

/// The same where the memory is shared for certain, and what the child has written there is here to be read. Fails where it
/// cannot be.
///
/// # Safety
/// As for [`start`].
pub unsafe fn start_shared(cgroup: Option<BorrowedFd>, mut child: Child) -> io::Result<u32> {
    if !SHARES_MEMORY {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: as in `start`.
    match unsafe { clone(&mut arguments(cgroup), (&raw mut child).cast()) } {
        pid if pid > 0 => Ok(pid as u32),
        error => Err(io::Error::from_raw_os_error(-error as i32)),
    }
}

fn arguments(cgroup: Option<BorrowedFd>) -> libc::clone_args {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: all fields are numbers, for which zero means "not given".
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    arguments
}

/// With a copy of the memory: slower, and the same.
unsafe fn fork(child: *mut c_void) -> io::Result<u32> {
    // SAFETY: as promised by the caller.
    match unsafe { libc::fork() } {
        0 => enter(child),
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid as u32),
    }
}

/// What the child begins with.
extern "C" fn enter(child: *mut c_void) -> ! {
    // SAFETY: `start` gave a pointer to its closure, and waits.
    match unsafe { (*child.cast::<Child>())() } {}
}

#[cfg(target_arch = "x86_64")]
unsafe fn clone(arguments: &mut libc::clone_args, child: *mut c_void) -> i64 {
    IS_GUARDED.call_once(|| {
        // Where it cannot be had the stack is as good as it is.
        // SAFETY: whole pages of our own, which nothing is ever read from or written to.
        let _ = unsafe { libc::mprotect(STACK.guard.get().cast(), GUARD_BYTES, libc::PROT_NONE) };
    });
    arguments.flags |= (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    arguments.stack = STACK.stack.get() as u64;
    arguments.stack_size = STACK_BYTES as u64;
    let result;
    // SAFETY: the child has a stack of its own and never comes back to this one's; nothing here is freed before it has
    // executed or ended, since this process stands still until then.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") &raw const *arguments,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") child,
            in("r13") enter as extern "C" fn(*mut c_void) -> !,
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

/// A copy of the memory here too.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn clone(arguments: &mut libc::clone_args, child: *mut c_void) -> i64 {
    // SAFETY: without CLONE_VM and with no stack given this is a fork, and this process has one thread.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const *arguments, size_of::<libc::clone_args>()) } {
        0 => enter(child),
        -1 => -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        pid => pid,
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn ended(pid: u32) -> ExitStatus {
        let mut status = 0;
        // SAFETY: waits for a child of ours.
        assert_eq!(unsafe { libc::waitpid(pid as i32, &raw mut status, 0) }, pid as i32);
        ExitStatus::from_raw(status)
    }

    /// Takes so many KiB of the stack at least.
    #[inline(never)]
    fn deep(kib: usize) -> u64 {
        let room = std::hint::black_box([1u8; 1 << 10]);
        let below = if kib > 1 { deep(kib - 1) } else { 0 };
        below + u64::from(std::hint::black_box(&room)[kib % room.len()])
    }

    #[test]
    fn a_child_whose_stack_is_used_up_ends_by_itself() {
        let child = |kib: usize| {
            let mut run = move || -> Never {
                let status = i32::from(deep(kib) != kib as u64);
                // SAFETY: ends this process alone.
                unsafe { libc::_exit(status) }
            };
            // SAFETY: the child frees nothing. Other threads there are, and they touch nothing that it touches.
            ended(unsafe { start_shared(None, &mut run) }.unwrap())
        };
        // Memory that was written over may hold locks that nobody opens any more.
        // SAFETY: without a handler it ends this process, if it is still there then.
        unsafe { libc::alarm(60) };
        assert_eq!(child(16).code(), Some(0));
        assert_eq!(child(128).signal(), Some(libc::SIGSEGV));
        assert_eq!(child(16).code(), Some(0), "and the next is as good as any");
        // SAFETY: takes it back.
        unsafe { libc::alarm(0) };
    }
}
