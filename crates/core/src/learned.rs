//! What earlier runs of a command were like.

use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The most memory that one had on one GPU; 0 = not known.
    pub peak_mib: u32,
    /// Those that completed, and how long they took.
    pub runs: u32,
    pub total: Duration,
    pub longest: Duration,
}

impl Learned {
    /// A run ended that reached so much memory; `took` if it completed.
    pub fn add(&mut self, peak_mib: u32, took: Option<Duration>) {
        self.peak_mib = self.peak_mib.max(peak_mib);
        if let Some(took) = took {
            self.runs = self.runs.saturating_add(1);
            self.total = self.total.saturating_add(took);
            self.longest = self.longest.max(took);
        }
    }

    /// None where none has completed.
    pub fn longest(&self) -> Option<Duration> {
        (self.runs > 0).then_some(self.longest)
    }

    pub fn mean(&self) -> Option<Duration> {
        self.total.checked_div(self.runs)
    }
}
