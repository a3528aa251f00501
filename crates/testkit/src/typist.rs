//! Somebody who sits at a terminal: types, looks, and changes the size of the window while a command runs there.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{DEADLINE, Nexus, Output, terminal, until};

/// Between two looks.
const MOMENT: Duration = Duration::from_millis(5);

pub struct Typist {
    typed: String,
    child: Child,
    terminal: File,
    shown: Arc<Mutex<Vec<u8>>>,
    /// How far it has been looked at.
    looked: usize,
    /// Until this is false.
    looks: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Nexus {
    /// A nexus command at a terminal of this size, without colours; it is the one that controls the command, so that
    /// Ctrl-C typed there is a signal and closing it a hang-up.
    pub fn at_terminal<S: AsRef<OsStr>>(&self, size: (u16, u16), args: &[S]) -> Typist {
        let mut command = self.command(args);
        command.env("TERM", "xterm-256color").env("NO_COLOR", "1").env("SHELL", "/bin/sh");
        Typist::sit_down(command, size)
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

impl Typist {
    /// Runs any command with the terminal as its own.
    pub fn sit_down(mut command: Command, size: (u16, u16)) -> Typist {
        let (ours, theirs) = terminal::open(size);
        let end = || theirs.try_clone().expect("a descriptor is left");
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are async-signal-safe; standard input is the new terminal by then.
        unsafe {
            command.pre_exec(|| {
                let controls = libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) >= 0;
                if controls { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            });
        }
        let child = with_default_signals(&mut command).spawn().expect("the command runs");
        let typed = format!("{command:?} (at a terminal)");
        let (shown, looks) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(true)));
        let (eyes, seen, open) = (ours.try_clone().expect("a descriptor is left"), shown.clone(), looks.clone());
        let reader = Some(std::thread::spawn(move || look(eyes, &seen, &open)));
        Typist { typed, child, terminal: ours, shown, looked: 0, looks, reader }
    }

    pub fn types(&mut self, keys: &str) -> &mut Typist {
        self.terminal.write_all(keys.as_bytes()).expect("a terminal takes what is typed");
        self
    }

    pub fn ctrl_c(&mut self) -> &mut Typist {
        self.types("\x03")
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
        let start = Instant::now();
        self.looked = loop {
            if let Some(found) = find() {
                break found;
            }
            assert!(start.elapsed() < DEADLINE, "not shown: {text:?}\n{:?}", self.end_of_shown());
            std::thread::sleep(MOMENT);
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

    /// Waits for the command's end, and until nobody has the terminal open; stdout holds all that was shown.
    #[track_caller]
    pub fn ends(&mut self) -> Output {
        if let Some(reader) = &self.reader {
            let start = Instant::now();
            while !reader.is_finished() {
                assert!(start.elapsed() < DEADLINE, "{} does not end:\n{:?}", self.typed, self.end_of_shown());
                std::thread::sleep(MOMENT);
            }
        }
        self.done()
    }

    /// Closes the terminal, and waits for the command's end.
    #[track_caller]
    pub fn hangs_up(mut self) -> Output {
        self.looks.store(false, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            reader.join().expect("nobody panics here");
        }
        self.terminal = File::open("/dev/null").expect("there is nothing");
        self.done()
    }

    #[track_caller]
    fn done(&mut self) -> Output {
        let child = &mut self.child;
        let status = until("the command at the terminal ends", || child.try_wait().expect("a child can be waited for"));
        let stdout = self.shown.lock().expect("nobody panics here").clone();
        Output::new(self.typed.clone(), std::process::Output { status, stdout, stderr: Vec::new() })
    }
}

impl Drop for Typist {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.looks.store(false, Ordering::Relaxed);
    }
}

/// Takes in what is shown until nobody has the terminal open, or the user has left.
fn look(mut terminal: File, shown: &Mutex<Vec<u8>>, looks: &AtomicBool) {
    let mut part = [0; 4096];
    while looks.load(Ordering::Relaxed) {
        let mut ready = libc::pollfd { fd: terminal.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd of ours.
        if unsafe { libc::poll(&mut ready, 1, MOMENT.as_millis() as i32) } <= 0 {
            continue;
        }
        match terminal.read(&mut part) {
            Ok(count @ 1..) => shown.lock().expect("nobody panics here").extend_from_slice(&part[..count]),
            _ => return,
        }
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
