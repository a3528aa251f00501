//! Single keys from the terminal, without Enter. The terminal is as it was when this is dropped.

use std::io::{self, Stdin};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub struct Keys {
    input: AsyncFd<Stdin>,
    before: Termios,
}

impl Keys {
    pub fn open() -> io::Result<Keys> {
        // SAFETY: standard input stays open for as long as this process lives.
        let input = unsafe { AsyncFd::register_with_interest(io::stdin(), Interest::READABLE) }?;
        let before = tcgetattr(io::stdin())?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // A read never waits: it is made when there is something.
        keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
        Ok(Keys { input, before })
    }

    /// The next key; none when the terminal is gone.
    pub async fn next(&self) -> Option<u8> {
        loop {
            let mut ready = self.input.readable().await.ok()?;
            let mut key = [0];
            match rustix::io::read(io::stdin(), &mut key) {
                Ok(1..) => return Some(key[0]),
                // Nothing any more: somebody else was faster.
                Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => ready.clear_ready(),
                Err(_) => return None,
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // What was typed beyond the answer, its Enter say, is not for the shell. A terminal that is gone needs nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.before);
    }
}

/// Whether keys typed now are typed for us, and not for whoever started us in the background.
pub fn are_ours() -> bool {
    tcgetpgrp(io::stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}
