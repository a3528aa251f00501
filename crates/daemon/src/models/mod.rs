//! What known commands need: the rules of the configuration first, then the table of models. Reads nothing but its
//! arguments, but for [`Source`].

mod pattern;
mod source;
mod table;

use std::sync::Arc;

use nexus_api::amount::{GpuAmount, Vram};
use nexus_api::command::Command;
use nexus_api::jobs::{JobSpec, Note};
use nexus_api::shell_words;

pub use pattern::Pattern;
pub use source::Source;
pub use table::Table;

/// What commands that fit a pattern need.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub pattern: Pattern,
    /// Under 1 a part of a GPU; 0 for a job on the CPU.
    pub gpus: Option<f64>,
    pub vram: Option<Vram>,
}

/// All that is in force at a moment.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub rules: Vec<Rule>,
    pub table: Option<Arc<Table>>,
}

/// What a rule says, and which it was.
struct Found {
    rule: String,
    gpus: Option<f64>,
    vram: Option<Vram>,
}

impl Rules {
    /// Says what a job needs of GPUs, where it says nothing of that itself and a rule fits.
    pub fn fill(&self, spec: &mut JobSpec) -> Option<Note> {
        if spec.request.gpus.is_some() || spec.request.vram.is_some() {
            return None;
        }
        spec.by_rule = None;
        let found = self.find(&spec.command)?;
        let (amount, is_rounded) = found.gpus.map_or((GpuAmount::ONE, false), amount);
        (spec.request.gpus, spec.request.vram) = (Some(amount), found.vram);
        spec.by_rule = Some(found.rule.clone());
        let asked = found.gpus.filter(|_| is_rounded)?;
        Some(Note::RoundedUp { rule: found.rule, asked, gpus: amount })
    }

    /// Whether they say anything of a command.
    pub fn know(&self, command: &Command) -> bool {
        self.find(command).is_some()
    }

    /// The first rule that fits, or what the table says.
    fn find(&self, command: &Command) -> Option<Found> {
        if self.rules.is_empty() && self.table.is_none() {
            return None;
        }
        let commands = words(command);
        if let Some(rule) = self.rules.iter().find(|rule| rule.pattern.fits(&commands)) {
            return Some(Found { rule: rule.pattern.text().into(), gpus: rule.gpus, vram: rule.vram });
        }
        let (rule, gpus) = self.table.as_ref()?.need(&commands)?;
        Some(Found { rule, gpus: Some(gpus), vram: None })
    }
}

/// An edited job whose needs are others than a rule gave it says them itself from now on.
pub fn after_edit(before: &JobSpec, after: &mut JobSpec) {
    if (after.request.gpus, after.request.vram) != (before.request.gpus, before.request.vram) {
        after.by_rule = None;
    }
}

/// The words of a command; of each command, where it is a text for the shell. One that no shell would take is matched
/// by its blanks.
fn words(command: &Command) -> Vec<Vec<String>> {
    match command {
        Command::Argv(words) => vec![words.clone()],
        Command::Shell(text) => {
            shell_words::commands(text).unwrap_or_else(|_| vec![text.split_whitespace().map(String::from).collect()])
        }
    }
}

/// Whole GPUs from one on, rounded up, and whether they had to be; parts to the next thousandth.
fn amount(asked: f64) -> (GpuAmount, bool) {
    if asked > 1.0 {
        return (GpuAmount::whole(asked.ceil() as u16), asked.fract() != 0.0);
    }
    let milli = (asked * 1000.0).round().max(if asked > 0.0 { 1.0 } else { 0.0 }) as u16;
    (GpuAmount::part(milli).unwrap_or(GpuAmount::ONE), false)
}

/// Whether a rule can ask for so much.
pub fn is_amount(gpus: f64) -> bool {
    (0.0..=f64::from(nexus_core::request::MAX_GPUS)).contains(&gpus)
}

#[cfg(test)]
mod tests;
