//! INT, TERM and HUP as they come. One that whoever started us has us ignore (`nohup`, a shell's `&`) stays ignored.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::CliError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caught {
    Interrupt,
    Terminate,
    HangUp,
}

impl Caught {
    pub fn number(self) -> i32 {
        match self {
            Caught::Interrupt => libc::SIGINT,
            Caught::Terminate => libc::SIGTERM,
            Caught::HangUp => libc::SIGHUP,
        }
    }
}

pub struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
    hang_up: Option<Signal>,
}

impl Signals {
    pub fn listen() -> Result<Signals, CliError> {
        let heard = |kind: SignalKind| match is_ignored(kind) {
            true => Ok(None),
            false => signal(kind).map(Some).map_err(CliError::io("signals cannot be listened for")),
        };
        Ok(Signals {
            interrupt: heard(SignalKind::interrupt())?,
            terminate: heard(SignalKind::terminate())?,
            hang_up: heard(SignalKind::hangup())?,
        })
    }

    pub async fn next(&mut self) -> Caught {
        tokio::select! {
            () = next_of(&mut self.interrupt) => Caught::Interrupt,
            () = next_of(&mut self.terminate) => Caught::Terminate,
            () = next_of(&mut self.hang_up) => Caught::HangUp,
        }
    }
}

async fn next_of(signal: &mut Option<Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending().await
    }
}

fn is_ignored(kind: SignalKind) -> bool {
    // SAFETY: all fields are numbers; the call only fills them in.
    unsafe {
        let mut found: libc::sigaction = std::mem::zeroed();
        libc::sigaction(kind.as_raw_value(), std::ptr::null(), &mut found) == 0 && found.sa_sigaction == libc::SIG_IGN
    }
}
