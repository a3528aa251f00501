//! Which signals mean something to node, launcher and shim, and that the command hears all of them as usual.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Read by the shim through a descriptor.
const READ_BY_SHIM: [i32; 3] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT];

/// Must not end the shim: a hangup, a closed pipe, a limit on file sizes, a `pkill` of all and sundry.
const IGNORED_BY_SHIM: [i32; 6] =
    [libc::SIGHUP, libc::SIGPIPE, libc::SIGXFSZ, libc::SIGUSR1, libc::SIGUSR2, libc::SIGQUIT];

fn set_action(signal: i32, action: libc::sighandler_t) {
    // SAFETY: sets the signal to a constant action, or to a function that does only what is allowed there.
    unsafe { libc::signal(signal, action) };
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, which sigaddset then changes.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// The set of blocked signals from before.
pub struct Unblocked(libc::sigset_t);

impl Unblocked {
    pub fn restore(&self) {
        // SAFETY: both pointers are valid or null.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// A process that writes beyond the limit of file sizes (`ulimit -f`) gets an error from the write, and no SIGXFSZ, which would end it.
pub fn ignore_file_size_signal() {
    set_action(libc::SIGXFSZ, libc::SIG_IGN);
}

/// The launcher outlives a terminal and leaves no zombies; it is ended by closing its socket.
pub fn prepare_launcher() {
    for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGPIPE, libc::SIGCHLD] {
        set_action(signal, libc::SIG_IGN);
    }
}

/// Holds back what the shim will read, until it can.
pub fn block_for_shim() -> Unblocked {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the kernel writes the old set, which is therefore initialised.
    unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, &set_of(&READ_BY_SHIM), before.as_mut_ptr());
        Unblocked(before.assume_init())
    }
}

/// Where [`wake_on_end`] has signals written down.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// Signals that would end this process make this eventfd readable instead. It stays open for good.
pub fn wake_on_end(eventfd: OwnedFd) {
    extern "C" fn wake(_: i32) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: write(2) is allowed here; the descriptor was given away for this.
        unsafe { libc::write(WAKE.load(Ordering::Relaxed), one.as_ptr().cast(), one.len()) };
    }
    WAKE.store(eventfd.into_raw_fd(), Ordering::Relaxed);
    for signal in [libc::SIGHUP, libc::SIGTERM, libc::SIGINT] {
        set_action(signal, wake as *const () as libc::sighandler_t);
    }
}

/// The signals sent to a shim, as a descriptor to poll.
pub struct Signals(File);

/// What came since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    pub child_ended: bool,
    pub stop: bool,
}

impl Signals {
    /// Called once, in the shim. No others are ignored from here on than it chose itself.
    pub fn open() -> io::Result<Signals> {
        ignore_none();
        for signal in IGNORED_BY_SHIM {
            set_action(signal, libc::SIG_IGN);
        }
        block_for_shim();
        // SAFETY: a new descriptor, owned by the file.
        unsafe {
            match libc::signalfd(-1, &set_of(&READ_BY_SHIM), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => Ok(Signals(File::from_raw_fd(descriptor))),
            }
        }
    }

    pub fn take(&mut self) -> Arrived {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut arrived = Arrived::default();
        let mut message = [0; SIZE];
        while self.0.read(&mut message).is_ok_and(|length| length == SIZE) {
            // `ssi_signo` is the first field.
            match u32::from_ne_bytes([message[0], message[1], message[2], message[3]]) as i32 {
                libc::SIGCHLD => arrived.child_ended = true,
                _ => arrived.stop = true,
            }
        }
        arrived
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Changes of the window's size, as a descriptor to poll.
pub struct Windows(File);

impl Windows {
    /// Called once, before there are other threads.
    pub fn open() -> io::Result<Windows> {
        let set = set_of(&[libc::SIGWINCH]);
        // SAFETY: the set is ours to be read; the new descriptor is owned by the file.
        unsafe {
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                descriptor => Ok(Windows(File::from_raw_fd(descriptor))),
            }
        }
    }

    /// Whether there was one since the last look.
    pub fn take(&mut self) -> bool {
        let mut messages = [0; 8 * size_of::<libc::signalfd_siginfo>()];
        self.0.read(&mut messages).is_ok_and(|length| length > 0)
    }
}

impl AsFd for Windows {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn ignore_none() {
    for signal in 1..=64 {
        set_action(signal, libc::SIG_DFL);
    }
}

/// In a child before exec: every signal does what it does by default, and none is held back.
pub fn restore() {
    ignore_none();
    Unblocked(set_of(&[])).restore();
}

/// The same in a shim's child, where it is known what is ignored.
pub fn restore_in_shim() {
    for signal in IGNORED_BY_SHIM {
        set_action(signal, libc::SIG_DFL);
    }
    Unblocked(set_of(&[])).restore();
}
