//! What nodes report, in the words of the engine.

use nexus_core::apply::Report;
use nexus_core::ids::RunId;
use nexus_core::run::Outcome;
use nexus_core::time::Time;
use nexus_node::Report as NodeReport;

use super::{Engine, Message, Turn};
use crate::clock;
use crate::service_log::Line;

/// A node's report as the engine takes it.
pub fn messages(report: NodeReport) -> Vec<Message> {
    match report {
        NodeReport::Tidied { run } => vec![Message::Tidied(run)],
        NodeReport::Ended { run, record } => {
            let (found, lost_output_bytes) = (record.found.clone(), record.lost_output_bytes);
            let took = record.started_at_ms.map(|at| Time(record.ended_at_ms).since(Time(at)));
            let mut reports = reports(NodeReport::Ended { run, record });
            // Both are on disk, or neither.
            let ended = reports.pop().map(|report| Message::Ended { run, report, found, lost_output_bytes, took });
            reports.into_iter().map(Message::Report).chain(ended).collect()
        }
        report => reports(report).into_iter().map(Message::Report).collect(),
    }
}

/// A node's report in core's words.
fn reports(report: NodeReport) -> Vec<Report> {
    let now = clock::now();
    match report {
        NodeReport::Tidied { .. } => vec![],
        NodeReport::Started { run, pid, at_ms } => vec![Report::Started { run, pid, at: Time(at_ms) }],
        NodeReport::Ended { run, record } => {
            // The record knows when it began, should that message have been lost.
            let started = record.pid.zip(record.started_at_ms);
            let started = started.map(|(pid, at)| Report::Started { run, pid, at: Time(at) });
            let ended = Report::Ended { run, outcome: record.outcome(), at: Time(record.ended_at_ms) };
            started.into_iter().chain([ended]).collect()
        }
        // Whether it ran before is the engine's to know.
        NodeReport::NotStarted { run } => vec![Report::NotStarted { run, ran: false }],
        NodeReport::Underway { run } => vec![Report::Underway { run }],
        NodeReport::Claimed { run } => vec![Report::Ended { run, outcome: Outcome::NeverStarted, at: now }],
        NodeReport::StartFailed { run, error } => {
            vec![Report::Ended { run, outcome: Outcome::MachineError { error }, at: now }]
        }
        NodeReport::Lost { run, error } => vec![Report::Ended { run, outcome: Outcome::Lost { error }, at: now }],
    }
}

impl Engine {
    /// Output that its machine could not write down is told, once: an end may be reported again and again.
    pub(super) fn tell_lost_output(&self, run: RunId, bytes: u64, turn: &mut Turn) {
        if let Some(known) = self.world.run(run).filter(|_| bytes > 0) {
            let machine = self.pool.names.machine_name(known.lease.runs_on());
            let lost = format!("Output of job {}: {bytes} bytes could not be written on {machine}", run.job);
            turn.lines.push(Line::warn(lost));
        }
    }
}
