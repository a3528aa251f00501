//! The job's output, and between it what we have to say. On a terminal a line of ours stands below the output and
//! goes when more comes.

use crate::error::CliError;
use crate::render::text;
use crate::ui::{self, Ui};

pub struct Screen<'a> {
    ui: &'a Ui,
    /// A line of ours is there.
    drawn: bool,
    /// The output stopped in the middle of a line.
    mid_line: bool,
}

impl Screen<'_> {
    pub fn new(ui: &Ui) -> Screen<'_> {
        Screen { ui, drawn: false, mid_line: false }
    }

    /// As it was printed: progress bars move by themselves.
    pub fn output(&mut self, stderr: bool, bytes: &[u8]) -> Result<(), CliError> {
        let Some(last) = bytes.last() else { return Ok(()) };
        self.clear();
        self.mid_line = *last != b'\n';
        if stderr { self.ui.error_bytes(bytes) } else { self.ui.bytes(bytes) }
    }

    /// One line, in place of the one before.
    pub fn line(&mut self, text: &str) {
        if self.mid_line {
            self.ui.say("");
            self.mid_line = false;
        }
        let columns = ui::window().map_or(usize::MAX, |(columns, _)| usize::from(columns).saturating_sub(1));
        self.ui.draw_line(&text::cut(&text::printable(text), columns));
        self.drawn = true;
    }

    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            self.ui.draw_line("");
        }
    }

    /// A line that stays.
    pub fn say(&mut self, text: &str) {
        self.clear();
        if std::mem::take(&mut self.mid_line) && self.ui.err_is_terminal() {
            self.ui.say("");
        }
        self.ui.say(text);
    }
}
