//! A job as the file of jobs has it: one object for each change of its state.

use nexus_api::jobs::{Job, State};
use serde::{Deserialize, Serialize};

/// The names are those that scripts rely on, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub command: String,
    pub status: Status,
    #[serde(default)]
    pub pid: Option<u32>,
    /// The first of its GPUs.
    #[serde(default)]
    pub gpu_id: Option<u16>,
    #[serde(default)]
    pub start_time: Option<String>,
    #[serde(default)]
    pub end_time: Option<String>,
    /// Minus a signal's number for a command that a signal ended; null for one that was killed.
    #[serde(default)]
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub log_file: Option<String>,
    /// When this was written.
    #[serde(default)]
    pub time: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Pending,
    Running,
    Completed,
    Failed,
}

impl Status {
    pub fn has_ended(self) -> bool {
        matches!(self, Status::Completed | Status::Failed)
    }

    fn of(state: State) -> Status {
        match state {
            State::Held | State::Queued | State::Starting => Status::Pending,
            State::Running | State::Copying => Status::Running,
            State::Completed => Status::Completed,
            State::Failed | State::Killed => Status::Failed,
        }
    }
}

impl Record {
    /// `log_file`: of its newest run.
    pub fn of(job: &Job, log_file: Option<String>) -> Record {
        let status = Status::of(job.state);
        // What is known of an earlier attempt says nothing of one that is to come.
        let ran = status != Status::Pending && job.started_at.is_some();
        Record {
            id: job.id.clone(),
            command: job.command.clone(),
            status,
            pid: job.pid.filter(|_| ran),
            gpu_id: job.gpus.first().copied().filter(|_| ran),
            start_time: job.started_at.clone().filter(|_| ran),
            end_time: job.ended_at.clone().filter(|_| status.has_ended()),
            exit_code: exit_code(job),
            log_file: log_file.filter(|_| ran),
            time: now(),
        }
    }

    /// What was to be told before this, and was not: that it ran.
    pub fn running(&self) -> Option<Record> {
        (self.status.has_ended() && self.start_time.is_some()).then(|| Record {
            status: Status::Running,
            end_time: None,
            exit_code: None,
            ..self.clone()
        })
    }

    /// Whether it says nothing new.
    pub fn says_the_same(&self, other: &Record) -> bool {
        *self == Record { time: self.time.clone(), ..other.clone() }
    }

    /// As it is written, with its newline.
    pub fn line(&self) -> String {
        format!("{}\n", serde_json::to_string(self).expect("a record is plain data"))
    }
}

fn exit_code(job: &Job) -> Option<i32> {
    match job.state {
        State::Completed | State::Failed => job.exit_code.or(job.signal.map(|signal| -signal)),
        _ => None,
    }
}

/// RFC 3339, to the millisecond, as all times.
fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn a_record_has_these_names_in_this_order() {
        let mut job = samples::ended("abc", State::Failed, "exit");
        (job.exit_code, job.pid, job.started_at) = (Some(3), Some(7), Some("2024-10-24T15:30:15.000Z".into()));
        job.ended_at = Some("2024-10-24T15:31:15.000Z".into());
        let mut record = Record::of(&job, Some("/d/job.log".into()));
        record.time = "2024-10-24T15:31:16.000Z".into();
        let line = "{\"id\":\"abc\",\"command\":\"python train.py\",\"status\":\"failed\",\"pid\":7,\"gpu_id\":0,\
            \"start_time\":\"2024-10-24T15:30:15.000Z\",\"end_time\":\"2024-10-24T15:31:15.000Z\",\"exit_code\":3,\
            \"log_file\":\"/d/job.log\",\"time\":\"2024-10-24T15:31:16.000Z\"}\n";
        assert_eq!(record.line(), line);
        assert_eq!(serde_json::from_str::<Record>(line).unwrap(), record);
        let ran = record.running().unwrap();
        assert_eq!((ran.status, ran.exit_code, &ran.end_time, ran.pid), (Status::Running, None, &None, Some(7)));
        assert!(record.says_the_same(&Record { time: "later".into(), ..record.clone() }));
        assert!(!record.says_the_same(&ran));
    }

    #[test]
    fn ends_have_their_codes() {
        let code = |state, exit_code, signal| {
            let mut job = samples::ended("abc", state, "x");
            (job.exit_code, job.signal) = (exit_code, signal);
            Record::of(&job, None).exit_code
        };
        assert_eq!(code(State::Completed, Some(0), None), Some(0));
        assert_eq!(code(State::Failed, None, Some(9)), Some(-9));
        assert_eq!(code(State::Killed, Some(143), Some(15)), None);
        assert_eq!(code(State::Failed, None, None), None);
    }
}
