//! How the process begins, and how it ends.
//!
//! The standard library's own beginning reads the map of the process's memory to know where its stack ends, for a word about
//! an overflow: a tenth of a millisecond of every command. Here that is left out; the rest of it is done. A stack that
//! overflows ends the process by a signal.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::code;

/// What the process ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    pub const SUCCESS: ExitCode = ExitCode(0);
    pub const FAILURE: ExitCode = ExitCode(1);
}

impl From<u8> for ExitCode {
    fn from(code: u8) -> ExitCode {
        ExitCode(code)
    }
}

/// The service and a node end well, or do not.
impl From<std::process::ExitCode> for ExitCode {
    fn from(code: std::process::ExitCode) -> ExitCode {
        if code == std::process::ExitCode::SUCCESS { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// All that happens between the first function of the process and its end.
pub fn live(work: impl FnOnce() -> ExitCode) -> ! {
    if cfg!(target_env = "gnu") {
        prepare();
    }
    let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or(ExitCode(code::BUG));
    // Writes what is left of standard output.
    std::process::exit(ended.0.into())
}

/// Standard streams that are closed must not become the first files that are opened, and a reader that is gone is an error
/// like others.
#[expect(clippy::disallowed_methods, reason = "/dev/null")]
fn prepare() {
    for stream in 0..=2 {
        // SAFETY: asks for flags; opens a file, which has the lowest number that is free.
        unsafe {
            if libc::fcntl(stream, libc::F_GETFD) < 0 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
    // SAFETY: no thread is there yet that could mind.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Of all of the mathematical library, the runtime of the service needs this alone. With it here no command loads that library.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn pow(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}
