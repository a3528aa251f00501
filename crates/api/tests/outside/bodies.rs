//! Any bytes as the body of a request, of every kind there is: what can be read and is written again is read as the same.

use nexus_api::command::Command;
use nexus_api::config::Overrides;
use nexus_api::edit::{JobEdit, QueueEdit};
use nexus_api::export::Exported;
use nexus_api::import::{Import, ImportText, Watch};
use nexus_api::jobs::{JobRequest, JobSpec, Move, OnJobs, Rerun};
use nexus_api::left::CopyResults;
use nexus_api::machines::{NewMachine, OnMachines, SetUpMachines};
use nexus_api::report::TagJobs;
use nexus_api::service::{OnGpus, SimulatedGpus, Stop};
use nexus_api::sweeps::NewSweep;
use nexus_api::variables::SetVariable;
use nexus_api::web::WebOn;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub fn hold(bytes: &[u8]) {
    for spec in again::<Vec<JobSpec>>(bytes).into_iter().flatten().chain(again::<JobSpec>(bytes)) {
        can_be_looked_at(&spec);
    }
    again::<JobRequest>(bytes);
    again::<NewSweep>(bytes);
    again::<SetUpMachines>(bytes);
    again::<NewMachine>(bytes);
    again::<OnMachines>(bytes);
    again::<QueueEdit>(bytes);
    if let Some(edit) = again::<JobEdit>(bytes) {
        can_be_edited(&edit);
    }
    again::<Import>(bytes);
    again::<ImportText>(bytes);
    again::<Watch>(bytes);
    again::<Rerun>(bytes);
    again::<OnJobs>(bytes);
    again::<OnGpus>(bytes);
    again::<Move>(bytes);
    again::<TagJobs>(bytes);
    again::<CopyResults>(bytes);
    again::<Overrides>(bytes);
    again::<SetVariable>(bytes);
    again::<WebOn>(bytes);
    again::<Stop>(bytes);
    again::<SimulatedGpus>(bytes);
    for line in bytes.split(|byte| *byte == b'\n') {
        again::<Exported>(line);
    }
}

fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(bytes).ok()?;
    let text = serde_json::to_string(&read).expect("what was read can be written");
    let same: T = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(read, same, "{text}");
    Some(read)
}

/// What is asked of every job that comes.
fn can_be_looked_at(spec: &JobSpec) {
    let refused = spec.command.check().is_err();
    assert!(refused || !spec.command.text().is_empty());
    let _ = (spec.request.shares(), spec.request.runs_elsewhere(), spec.request.amount().count());
    for (name, text) in nexus_api::queue_text::said(spec) {
        assert!(!name.is_empty(), "{text}");
    }
}

/// Options by their names: what is taken is told as something that is taken again, and means the same.
fn can_be_edited(edit: &JobEdit) {
    for (name, text) in &edit.options {
        let mut spec = JobSpec::new(Command::Shell("true".into()), "/".into());
        if nexus_api::queue_text::set(&mut spec, name, text).is_err() {
            continue;
        }
        let Some(told) = nexus_api::queue_text::told(&spec, name) else { continue };
        let mut same = JobSpec::new(Command::Shell("true".into()), "/".into());
        nexus_api::queue_text::set(&mut same, name, &told).unwrap_or_else(|error| panic!("{name} {told:?}: {error}"));
        assert_eq!(spec, same, "{name}: {text:?} is told as {told:?}");
    }
}
