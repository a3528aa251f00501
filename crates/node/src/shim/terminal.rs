//! What the command has as standard streams: two terminals, so that programs draw their progress bars and the
//! streams stay apart; one for all, for a shell that somebody sits in, since shells take standard error for the
//! terminal whose jobs they control; or pipes and an empty input.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nexus_api::run_dir::RunSpec;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// The shim's ends, to be read without blocking, and the command's.
pub struct Streams {
    pub stdout: File,
    /// None where standard error is the terminal of standard output.
    pub stderr: Option<File>,
    command: CommandEnds,
}

struct CommandEnds {
    /// Standard output; as a terminal also standard input and the controlling one.
    stdout: OwnedFd,
    stderr: OwnedFd,
    terminal: bool,
}

/// Terminals that nobody has used: they take a while to make, and are made while there is time.
#[derive(Default)]
pub struct Spare(Vec<Pair>);

/// The shim's end, and the command's.
type Pair = (OwnedFd, OwnedFd);

impl Spare {
    /// As many as a run mostly needs. Where there are none left, the next run says so.
    pub fn make() -> Spare {
        Spare((0..2).map_while(|_| terminal_pair().ok()).collect())
    }
}

impl Streams {
    pub fn open(spec: &RunSpec, mut spare: Spare) -> io::Result<Streams> {
        let size = Winsize { ws_row: spec.rows, ws_col: spec.columns, ws_xpixel: 0, ws_ypixel: 0 };
        let mut open = || -> io::Result<Pair> {
            if !spec.tty {
                return pipe_pair();
            }
            let pair = spare.0.pop().map_or_else(terminal_pair, Ok)?;
            tcsetwinsize(&pair.1, size)?;
            Ok(pair)
        };
        let (stdout, command_stdout) = open()?;
        let (stderr, command_stderr) = match spec.tty && spec.one_terminal {
            true => (None, command_stdout.try_clone()?),
            false => open().map(|(ours, theirs)| (Some(File::from(ours)), theirs))?,
        };
        let command = CommandEnds { stdout: command_stdout, stderr: command_stderr, terminal: spec.tty };
        Ok(Streams { stdout: stdout.into(), stderr, command })
    }

    /// In the child: makes the ends its standard streams, in a session of its own.
    pub fn enter(&self) -> io::Result<()> {
        let (stdout, stderr) = (self.command.stdout.as_raw_fd(), self.command.stderr.as_raw_fd());
        let check = |result: i32| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        // SAFETY: calls with plain numbers, in a process of one thread that is about to be replaced.
        unsafe {
            check(libc::setsid())?;
            if self.command.terminal {
                check(libc::ioctl(stdout, libc::TIOCSCTTY, 0))?;
                check(libc::dup2(stdout, 0))?;
            }
            check(libc::dup2(stdout, 1))?;
            check(libc::dup2(stderr, 2))
        }
    }

    /// After the fork. Pipes must end when the job has closed them. The terminals are kept open here: a terminal
    /// that everybody has closed may be opened again as `/dev/tty`, and its reader must not have left.
    pub fn started(self) -> Sources {
        let kept = self.command.terminal.then_some(self.command);
        Sources { stdout: Some(self.stdout), stderr: self.stderr, _kept: kept }
    }
}

/// Where the job's output is read; `None` once a pipe has ended.
pub struct Sources {
    pub stdout: Option<File>,
    pub stderr: Option<File>,
    _kept: Option<CommandEnds>,
}

fn terminal_pair() -> io::Result<Pair> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    let mut modes = tcgetattr(&theirs)?;
    // Logs hold the bytes as written: no carriage returns are put in.
    modes.output_modes.remove(OutputModes::OPOST | OutputModes::ONLCR);
    tcsetattr(&theirs, OptionalActions::Now, &modes)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

fn pipe_pair() -> io::Result<Pair> {
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}
