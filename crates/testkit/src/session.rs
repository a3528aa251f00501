//! A command that somebody sits in front of: its terminal is the one that controls it, so that Ctrl-C typed there is a
//! signal and closing it a hang-up. And one that nobody sits in front of.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::terminal::open;
use crate::{DEADLINE, Nexus, Output, until};

/// What Ctrl-C sends.
const INTERRUPT: &str = "\x03";

pub struct Session {
    typed: String,
    child: Child,
    terminal: File,
    shown: Vec<u8>,
}

impl Nexus {
    /// On a terminal of this size, without colours.
    pub fn session(&self, size: (u16, u16), args: &[&str]) -> Session {
        let (ours, theirs) = open(size);
        let mut command = self.command(args);
        let end = || theirs.try_clone().expect("a descriptor is left");
        command
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", "1")
            .env("SHELL", "/bin/sh")
            .stdin(end())
            .stdout(end())
            .stderr(end());
        // SAFETY: both calls are async-signal-safe; standard input is the new terminal by then.
        unsafe {
            command.pre_exec(|| {
                let controls = libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) >= 0;
                if controls { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let child = with_default_signals(&mut command).spawn().expect("the binary runs");
        let typed = format!("nexus {} (on a terminal)", args.join(" "));
        Session { typed, child, terminal: ours, shown: Vec::new() }
    }

    /// In the background, its output in pipes; signals do what they do by default.
    pub fn piped(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        with_default_signals(&mut command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs")
    }
}

/// Whatever those who started the tests ignore.
fn with_default_signals(command: &mut Command) -> &mut Command {
    // SAFETY: signal(2) is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        })
    }
}

impl Session {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn keys(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).expect("a terminal takes what is typed");
    }

    pub fn ctrl_c(&mut self) {
        self.keys(INTERRUPT);
    }

    /// Waits until this was shown, and gives all that was until then.
    #[track_caller]
    pub fn shows(&mut self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let shown = String::from_utf8_lossy(&self.shown).into_owned();
            if shown.contains(text) {
                return shown;
            }
            assert!(start.elapsed() < DEADLINE, "{}\ndoes not show {text:?}, but:\n{shown}", self.typed);
            assert!(self.read(), "{}\nhas ended without {text:?}:\n{shown}", self.typed);
        }
    }

    /// Reads what there is; false when nobody has the terminal open any more.
    fn read(&mut self) -> bool {
        let mut look = libc::pollfd { fd: self.terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let moment = Duration::from_millis(100).as_millis() as i32;
        // SAFETY: one pollfd of ours.
        if unsafe { libc::poll(&mut look, 1, moment) } <= 0 {
            return true;
        }
        let mut part = [0; 4096];
        match self.terminal.read(&mut part) {
            Ok(count @ 1..) => self.shown.extend_from_slice(&part[..count]),
            _ => return false,
        }
        true
    }

    /// Waits for its end; stdout holds all that was shown.
    #[track_caller]
    pub fn ends(mut self) -> Output {
        let start = Instant::now();
        while self.read() {
            assert!(
                start.elapsed() < DEADLINE,
                "{}\ndoes not end: {}",
                self.typed,
                String::from_utf8_lossy(&self.shown)
            );
        }
        self.done()
    }

    /// Closes the terminal, and waits for its end.
    #[track_caller]
    pub fn hangs_up(mut self) -> Output {
        self.terminal = File::open("/dev/null").expect("there is nothing");
        self.done()
    }

    #[track_caller]
    fn done(&mut self) -> Output {
        let status = until("it has ended", || self.child.try_wait().expect("a child can be waited for"));
        let done = std::process::Output { status, stdout: std::mem::take(&mut self.shown), stderr: Vec::new() };
        Output::new(self.typed.clone(), done)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Only one that failed its test is still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
