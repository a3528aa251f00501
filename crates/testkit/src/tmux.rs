//! A command in a real terminal: tmux draws what it sends, and a test looks at the picture, types, clicks and changes the
//! size of the window.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::{DEADLINE, Nexus};

/// Between two looks.
const MOMENT: Duration = Duration::from_millis(20);

/// One server with one window. It is ended on drop.
pub struct Tmux {
    socket: String,
}

impl Tmux {
    /// Whether there is such a program here.
    pub fn exists() -> bool {
        Command::new("tmux").arg("-V").output().is_ok_and(|said| said.status.success())
    }

    fn tmux(&self, args: &[&str]) -> Output {
        let done = Command::new("tmux").args(["-u", "-L", &self.socket]).args(args).output();
        done.expect("tmux runs")
    }

    fn ok(&self, args: &[&str]) -> String {
        let done = self.tmux(args);
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "tmux {args:?}: {out}{err}");
        out.into_owned()
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        self.ok(&["capture-pane", "-p"])
    }

    /// The same with its colours.
    pub fn painted(&self) -> String {
        self.ok(&["capture-pane", "-p", "-e"])
    }

    /// Letters, as they are.
    pub fn types(&self, text: &str) -> &Tmux {
        self.ok(&["send-keys", "-l", "--", text]);
        self
    }

    /// A key by its name: `Enter`, `Down`, `Escape`, `C-c`.
    pub fn key(&self, name: &str) -> &Tmux {
        self.ok(&["send-keys", name]);
        self
    }

    pub fn resizes(&self, (columns, rows): (u16, u16)) -> &Tmux {
        self.ok(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        self
    }

    /// Waits until the screen fits.
    #[track_caller]
    pub fn shows(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if fits(&screen) {
                return screen;
            }
            assert!(start.elapsed() < DEADLINE, "not shown: {what}\n{screen}");
            std::thread::sleep(MOMENT);
        }
    }

    /// Waits until this is on the screen.
    #[track_caller]
    pub fn sees(&self, text: &str) -> String {
        self.shows(text, |screen| screen.contains(text))
    }

    /// Waits until this is not.
    #[track_caller]
    pub fn misses(&self, text: &str) -> String {
        self.shows(&format!("no {text}"), |screen| !screen.contains(text))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen:\n{}", String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout));
        }
        // It may be gone already.
        self.tmux(&["kill-server"]);
    }
}

impl Nexus {
    /// A nexus command in a window of this size. When it has ended its exit code is shown as `left with 0`, below what stood
    /// on the screen before.
    pub fn in_tmux(&self, (columns, rows): (u16, u16), env: &[(&str, &str)], args: &[&str]) -> Tmux {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let tmux = Tmux { socket: format!("nx-{}-{number}", std::process::id()) };
        let own = self.command(args);
        let mut server = Command::new("tmux");
        server.env_clear().current_dir(self.work());
        server.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
        server.env("TERM", "xterm-256color").env("SHELL", "/bin/sh").envs(env.iter().copied());
        let (columns, rows) = (columns.to_string(), rows.to_string());
        server.args(["-u", "-L", &tmux.socket, "-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows]);
        for (name, value) in env {
            server.args(["-e", &format!("{name}={value}")]);
        }
        server.args(["--", "sh", "-c", "echo before; \"$@\"; echo \"left with $?\"; exec cat", "sh"]);
        server.arg(own.get_program()).args(args);
        let done = server.output().expect("tmux runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        tmux
    }
}
