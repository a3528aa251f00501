//! The user's terminal while it is somebody else's: every key comes as it is, and whatever happens it is put back.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::error::CliError;

/// How the terminal was before; kept where a panic finds it, too.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// What programs switch on and a terminal should not keep: attributes, a hidden cursor, mouse reports, pasting in
/// brackets, cursor keys of their own.
pub const CALM: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1l\x1b>";

/// Leaves the alternate screen.
pub const LEAVE_ALTERNATE: &[u8] = b"\x1b[?1049l";

/// Raw from here on until it is dropped.
pub struct RawTerminal {
    input: AsyncFd<OwnedFd>,
}

impl RawTerminal {
    pub fn enter() -> Result<RawTerminal, CliError> {
        let fail = || CliError::io("the terminal cannot be used");
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).map_err(io::Error::from).map_err(fail())?;
        let input = stdin.as_fd().try_clone_to_owned().map_err(fail())?;
        // SAFETY: an OwnedFd keeps its one descriptor open until it is dropped.
        let input = unsafe { AsyncFd::register_with_interest(input, Interest::READABLE) };
        let input = input.map_err(io::Error::from).map_err(fail())?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(before);
        let entered = RawTerminal { input };
        tcsetattr(&stdin, OptionalActions::Drain, &raw).map_err(io::Error::from).map_err(fail())?;
        Ok(entered)
    }

    /// The next keys; none when the terminal is gone.
    pub async fn keys(&self) -> Option<Vec<u8>> {
        let mut keys = [0; 4096];
        loop {
            let mut ready = self.input.readable().await.ok()?;
            // The terminal is not set to "do not block": others use it as well. It is asked whether that is needed.
            if !has_input(self.input.get_ref().as_fd()) {
                ready.clear_ready();
                continue;
            }
            return match rustix::io::read(self.input.get_ref(), &mut keys) {
                Ok(0) => None,
                Ok(count) => Some(keys[..count].to_vec()),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(_) => None,
            };
        }
    }
}

fn has_input(input: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::from_borrowed_fd(input, PollFlags::IN)], Some(&now)), Ok(1..))
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back, if it was changed. Also for those who leave in a hurry.
pub fn restore() {
    // One who panics while it holds the lock has not changed the terminal yet.
    let Ok(mut before) = BEFORE.try_lock() else { return };
    if let Some(before) = before.take() {
        // A terminal that is gone needs no care.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}
