//! The colours of nexus, by what they stand for.

use anstyle::{AnsiColor, Style};

/// Whether colours are shown at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    pub on: bool,
}

pub const PLAIN: Paint = Paint { on: false };
#[cfg(test)]
pub const COLOURED: Paint = Paint { on: true };

impl Paint {
    fn with(self, color: AnsiColor, text: &str) -> String {
        if !self.on || text.is_empty() {
            return text.to_string();
        }
        let style = Style::new().fg_color(Some(color.into()));
        // Line by line, so that a cut or indented block never leaves a colour open.
        let lines: Vec<String> = text.split('\n').map(|line| format!("{style}{line}{style:#}")).collect();
        lines.join("\n")
    }

    pub fn id(self, text: &str) -> String {
        self.with(AnsiColor::Magenta, text)
    }

    pub fn command(self, text: &str) -> String {
        self.with(AnsiColor::BrightWhite, text)
    }

    pub fn time(self, text: &str) -> String {
        self.with(AnsiColor::Cyan, text)
    }

    pub fn gpu(self, text: &str) -> String {
        self.with(AnsiColor::White, text)
    }

    pub fn available(self, text: &str) -> String {
        self.with(AnsiColor::BrightGreen, text)
    }

    pub fn queue(self, text: &str) -> String {
        self.with(AnsiColor::Blue, text)
    }

    pub fn state(self, text: &str) -> String {
        self.with(AnsiColor::Yellow, text)
    }

    pub fn error(self, text: &str) -> String {
        self.with(AnsiColor::Red, text)
    }

    pub fn good(self, text: &str) -> String {
        self.with(AnsiColor::Green, text)
    }

    pub fn plain(self, text: &str) -> String {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_when_wanted() {
        assert_eq!(PLAIN.id("abc"), "abc");
        assert_eq!(Paint { on: true }.id("abc"), "\x1b[35mabc\x1b[0m");
        assert_eq!(Paint { on: true }.available("Available"), "\x1b[92mAvailable\x1b[0m");
    }
}
