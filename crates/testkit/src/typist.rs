//! Somebody who sits at a terminal: types, looks, and changes the size of the window while a command runs there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

use crate::{Nexus, terminal, until};

pub struct Typist {
    child: Child,
    terminal: File,
    shown: Arc<Mutex<Vec<u8>>>,
    /// How far it has been looked at.
    looked: usize,
}

impl Nexus {
    /// A nexus command at a terminal of this size.
    pub fn at_terminal<S: AsRef<OsStr>>(&self, size: (u16, u16), args: &[S]) -> Typist {
        let mut command = self.command(args);
        command.env("TERM", "xterm-256color");
        Typist::sit_down(command, size)
    }
}

impl Typist {
    /// Runs any command with the terminal as its own.
    pub fn sit_down(mut command: Command, size: (u16, u16)) -> Typist {
        let (ours, theirs) = terminal::open(size);
        let end = || theirs.try_clone().expect("a descriptor is left");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are async-signal-safe and touch no memory of ours.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                match libc::ioctl(0, libc::TIOCSCTTY, 0) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        let child = command.spawn().expect("the command runs");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let (mut eyes, seen) = (ours.try_clone().expect("a descriptor is left"), shown.clone());
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = eyes.read(&mut part) {
                seen.lock().expect("nobody panics here").extend_from_slice(&part[..count]);
            }
        });
        Typist { child, terminal: ours, shown, looked: 0 }
    }

    pub fn types(&mut self, keys: &str) -> &mut Typist {
        self.terminal.write_all(keys.as_bytes()).expect("a terminal takes what is typed");
        self
    }

    /// Waits until this is shown, behind what was waited for before.
    #[track_caller]
    pub fn sees(&mut self, text: &str) -> &mut Typist {
        let (shown, from) = (self.shown.clone(), self.looked);
        let find = || {
            let shown = shown.lock().expect("nobody panics here");
            let found = shown[from..].windows(text.len()).position(|part| part == text.as_bytes())?;
            Some(from + found + text.len())
        };
        let start = std::time::Instant::now();
        self.looked = loop {
            if let Some(found) = find() {
                break found;
            }
            assert!(start.elapsed() < crate::DEADLINE, "not shown: {text:?}\n{:?}", self.end_of_shown());
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        self
    }

    /// All that was shown.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("nobody panics here")).into_owned()
    }

    fn end_of_shown(&self) -> String {
        let shown = self.shown();
        let skipped = shown.chars().count().saturating_sub(2000);
        shown.chars().skip(skipped).collect()
    }

    pub fn resizes(&mut self, (columns, rows): (u16, u16)) -> &mut Typist {
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the kernel reads the size.
        assert_eq!(unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &size) }, 0);
        self
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the terminal is set as a shell expects it: lines are edited and echoed.
    pub fn is_cooked(&self) -> bool {
        // SAFETY: the kernel writes the modes, all of which are numbers.
        unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.terminal.as_raw_fd(), &mut modes), 0);
            let cooked = libc::ICANON | libc::ECHO | libc::ISIG;
            modes.c_lflag & cooked == cooked && modes.c_oflag & libc::OPOST != 0
        }
    }

    /// Waits for the command's end; its exit code.
    #[track_caller]
    pub fn ends(&mut self) -> i32 {
        let child = &mut self.child;
        let ended = until("the command at the terminal ends", || child.try_wait().expect("a child can be waited for"));
        ended.code().unwrap_or(-1)
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
