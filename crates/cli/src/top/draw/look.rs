//! The colours of nexus on cells, by what they stand for. Without colours what is chosen is still seen.

use nexus_api::jobs::{Job, State};
use ratatui_core::style::{Color, Modifier, Style};

/// Whether colours are shown at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub on: bool,
}

impl Look {
    fn with(self, colour: Color) -> Style {
        if self.on { Style::new().fg(colour) } else { Style::new() }
    }

    pub fn plain(self) -> Style {
        Style::new()
    }

    pub fn id(self) -> Style {
        self.with(Color::Magenta)
    }

    pub fn time(self) -> Style {
        self.with(Color::Cyan)
    }

    pub fn queue(self) -> Style {
        self.with(Color::Blue)
    }

    pub fn available(self) -> Style {
        self.with(Color::LightGreen)
    }

    pub fn good(self) -> Style {
        self.with(Color::Green)
    }

    pub fn state(self) -> Style {
        self.with(Color::Yellow)
    }

    pub fn error(self) -> Style {
        self.with(Color::Red)
    }

    /// Heads of columns, rules, and what is said where nothing is.
    pub fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The pane that keys are for.
    pub fn focus(self) -> Style {
        self.with(Color::Cyan).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// The row that keys are for.
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Something that must not be overlooked.
    pub fn alarm(self) -> Style {
        self.with(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED)
    }

    /// Green when low, yellow in between, red when high.
    pub fn by_height(self, percent: Option<u64>, (medium, high): (u64, u64)) -> Style {
        match percent {
            None => self.plain(),
            Some(percent) if percent >= high => self.error(),
            Some(percent) if percent >= medium => self.state(),
            Some(_) => self.good(),
        }
    }

    pub fn of_state(self, job: &Job) -> Style {
        match job.state {
            State::Completed => self.good(),
            State::Failed => self.error(),
            _ => self.state(),
        }
    }
}
