//! The only place that prints: data to stdout, talk to stderr, questions to the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::ValueEnum;
use nexus_api::shown;

use crate::error::{CliError, Told};
use crate::render::paint::Paint;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    #[default]
    Auto,
    Always,
    Never,
}

pub struct Ui {
    out: Paint,
    err: Paint,
    out_is_terminal: bool,
    err_is_terminal: bool,
    can_ask: bool,
}

impl Ui {
    pub fn new(color: ColorWhen) -> Ui {
        let (out, err) = (io::stdout(), io::stderr());
        Ui {
            out: paint(color, || anstream::AutoStream::choice(&out)),
            err: paint(color, || anstream::AutoStream::choice(&err)),
            out_is_terminal: out.is_terminal(),
            err_is_terminal: err.is_terminal(),
            can_ask: io::stdin().is_terminal() && err.is_terminal(),
        }
    }

    /// How data is painted.
    pub fn paint(&self) -> Paint {
        self.out
    }

    /// How talk is painted.
    pub fn talk_paint(&self) -> Paint {
        self.err
    }

    pub fn out_is_terminal(&self) -> bool {
        self.out_is_terminal
    }

    pub fn err_is_terminal(&self) -> bool {
        self.err_is_terminal
    }

    pub fn can_ask(&self) -> bool {
        self.can_ask
    }

    /// Bytes as they are, to a terminal too: what a job printed, our own scripts. Anything else goes through
    /// [`data`](Ui::data) or [`stream`](Ui::stream).
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), CliError> {
        write(&mut io::stdout().lock(), bytes)
    }

    /// What a job wrote to its standard error, as it is.
    pub fn error_bytes(&self, bytes: &[u8]) -> Result<(), CliError> {
        write(&mut io::stderr().lock(), bytes)
    }

    /// Data; a last newline is added where it is missing. On a terminal control characters are shown and not obeyed.
    pub fn data(&self, text: &str) -> Result<(), CliError> {
        if text.is_empty() {
            return Ok(());
        }
        let text = if self.out_is_terminal { shown::for_terminal(text) } else { text.into() };
        match text.ends_with('\n') {
            true => self.bytes(text.as_bytes()),
            false => self.bytes(format!("{text}\n").as_bytes()),
        }
    }

    /// Data in which texts of others stand as they are, as in a table: as [`data`](Ui::data), but on a terminal without colours.
    pub fn colourless(&self, text: &str) -> Result<(), CliError> {
        match self.out_is_terminal {
            true => self.data(&shown::Stream::default().push(text.as_bytes())),
            false => self.data(text),
        }
    }

    /// Data that comes in pieces: as it is, but on a terminal without control characters. `stream` is kept from one piece to
    /// the next.
    pub fn stream(&self, stream: &mut shown::Stream, bytes: &[u8]) -> Result<(), CliError> {
        match self.out_is_terminal {
            true => self.bytes(stream.push(bytes).as_bytes()),
            false => self.bytes(bytes),
        }
    }

    /// An API type as it is: indented for eyes, on one line for programs.
    pub fn json<T: serde::Serialize>(&self, value: &T) -> Result<(), CliError> {
        let text = match self.out_is_terminal {
            true => serde_json::to_string_pretty(value),
            false => serde_json::to_string(value),
        };
        let text = text.expect("types of the interface are writable as JSON");
        match self.out_is_terminal {
            true => self.data(&shown::json_for_terminal(&text)),
            false => self.data(&text),
        }
    }

    /// Draws over what was drawn before, on a terminal; one picture after the other elsewhere.
    pub fn redraw(&self, picture: &str, first: bool) -> Result<(), CliError> {
        if !self.out_is_terminal {
            return self.bytes(if first { picture.to_string() } else { format!("\n{picture}") }.as_bytes());
        }
        let start = if first { "\x1b[2J\x1b[H" } else { "\x1b[H" };
        let picture = shown::for_terminal(picture);
        let rows = window().map_or(usize::MAX, |(_, rows)| usize::from(rows).saturating_sub(1).max(1));
        let lines: String = picture.lines().take(rows).map(|line| format!("{line}\x1b[K\n")).collect();
        // Long lines end at the edge (no wrapping), or the next picture would not lie on this one.
        self.bytes(format!("\x1b[?7l{start}{lines}\x1b[J\x1b[?7h").as_bytes())
    }

    /// Talk on the terminal, in place of what stands on this line.
    pub fn draw_line(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r\x1b[K{}", self.err.state(&shown::printable(text))).and_then(|()| err.flush());
    }

    /// Talk. Nobody listening is no error. It is for people wherever it goes: control characters are shown, not obeyed.
    pub fn say(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{}", shown::for_terminal(text));
    }

    /// Something to know; nothing is wrong.
    pub fn note(&self, text: &str) {
        self.say(&format!("{} {}", self.err.queue("note:"), shown::printable(text)));
    }

    pub fn warn(&self, text: &str) {
        self.say(&format!("{} {}", self.err.state("warning:"), shown::printable(text)));
    }

    /// What failed, why, what to type.
    pub fn failed(&self, told: &Told, usage: Option<&str>) {
        let mut text = format!("{} {}", self.err.error("error:"), shown::printable(&told.error));
        for line in [told.why.as_deref(), usage].into_iter().flatten() {
            text.push_str(&format!("\n{}", shown::printable(line)));
        }
        if let Some(hint) = &told.hint {
            text.push_str(&format!("\n{} {}", self.err.queue("hint:"), shown::printable(hint)));
        }
        self.say(&text);
    }

    /// Asks on the terminal; anything but yes is no.
    pub fn confirm(&self, question: &str) -> bool {
        let mut err = io::stderr().lock();
        let _ = write!(err, "{} [y/N] ", shown::for_terminal(question)).and_then(|()| err.flush());
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
    }
}

fn write(out: &mut impl Write, bytes: &[u8]) -> Result<(), CliError> {
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        // A terminal that is gone.
        _ if error.raw_os_error() == Some(libc::EIO) => CliError::OutputClosed,
        _ => CliError::Io { doing: "the output could not be written".into(), source: error },
    })
}

fn paint(color: ColorWhen, choice: impl FnOnce() -> anstream::ColorChoice) -> Paint {
    let on = match color {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        ColorWhen::Auto => !matches!(choice(), anstream::ColorChoice::Never),
    };
    Paint { on }
}

/// What is drawn on the terminal, for one who has all of it.
pub fn to_terminal(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush())
}

/// Columns and rows of the terminal, if there is one.
pub fn window() -> Option<(u16, u16)> {
    let size = |fd: &dyn std::os::fd::AsFd| rustix::termios::tcgetwinsize(fd.as_fd()).ok();
    let found = size(&io::stdout()).or_else(|| size(&io::stdin()))?;
    (found.ws_col > 0 && found.ws_row > 0).then_some((found.ws_col, found.ws_row))
}
