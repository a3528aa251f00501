//! What forgotten jobs left on other machines. It is removed there at once, or when the machine is back.
//!
//! ```text
//!   forgotten ──> on the list, on disk ──> asked of the machine ──> gone there: off the list
//!                         └ no line: when there is one ──^ └ the line is lost: with the next
//! ```
//! The list outlives the service. What is on it is nobody's any more: its jobs are forgotten already.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use nexus_api::run_dir::of_run;
use nexus_core::ids::MachineId;
use nexus_node::line::{Hello, Stream};
use nexus_node::threads;
use serde::{Deserialize, Serialize};

use super::{Engine, Message, Turn};
use crate::backend::Backend;
use crate::backend::ssh::Remote;
use crate::mirrors::is_lines;
use crate::service_log::Line;
use crate::store::{Store, StoreError};

/// Where the list is kept in the database.
const KEY: &str = "remnants";

/// Asked of a machine at a time: the rest is not lost with a line that breaks.
const AT_ONCE: usize = 5000;

const STACK: usize = 128 << 10;

/// What a forgotten job left on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remnant {
    /// The logs and results of this job.
    Job(String),
    /// Checkpoints that are named by this job.
    Checkpoints(String),
}

impl Remnant {
    fn folders(&self, hello: &Hello) -> Vec<PathBuf> {
        match self {
            Remnant::Job(id) => vec![of_run(&hello.logs, id, 1), hello.results.join(id)],
            Remnant::Checkpoints(id) => vec![hello.checkpoints.join(id)],
        }
    }
}

/// What is still to be removed, by machine.
#[derive(Default)]
pub struct Remnants {
    list: BTreeMap<MachineId, BTreeSet<Remnant>>,
    /// Machines that are being asked, and whether there was a new line meanwhile.
    asked: BTreeMap<MachineId, bool>,
}

/// What a machine removed of what it was asked to.
pub struct Gone {
    pub machine: MachineId,
    pub left: Vec<Remnant>,
    /// Of these, why some stay there.
    pub troubles: Vec<String>,
}

impl Remnants {
    pub fn read(store: &Store) -> Result<Remnants, StoreError> {
        let text = store.meta(KEY)?.unwrap_or_default();
        // One that cannot be read is of another release: its folders stay where they are.
        let list: BTreeMap<u32, BTreeSet<Remnant>> = serde_json::from_str(&text).unwrap_or_default();
        let list = list.into_iter().map(|(machine, left)| (MachineId(machine), left)).collect();
        Ok(Remnants { list, asked: BTreeMap::new() })
    }

    fn note(&self) -> (&'static str, String) {
        let list: BTreeMap<u32, &BTreeSet<Remnant>> =
            self.list.iter().map(|(machine, left)| (machine.0, left)).collect();
        (KEY, serde_json::to_string(&list).expect("plain data"))
    }
}

impl Engine {
    /// These are on the list from now on, by the names of machines.
    pub(super) fn keep_remnants(&mut self, left: Vec<(String, Remnant)>, turn: &mut Turn) {
        let mut machines = BTreeSet::new();
        for (name, left) in left {
            // What lies on one that was taken out stays there.
            if let Ok(machine) = self.pool.named(&name) {
                self.remnants.list.entry(machine).or_default().insert(left);
                machines.insert(machine);
            }
        }
        if !machines.is_empty() {
            turn.batch.meta.push(self.remnants.note());
        }
        machines.into_iter().for_each(|machine| self.remove_remnants(machine));
    }

    /// Asks a machine to remove what is on its list, if there is a line.
    pub(super) fn remove_remnants(&mut self, machine: MachineId) {
        let Some(left) = self.remnants.list.get(&machine) else { return };
        if let Some(again) = self.remnants.asked.get_mut(&machine) {
            *again = true;
            return;
        }
        let Some(member) = self.pool.member(machine) else { return };
        let (Backend::Ssh(remote), Some(hello)) = (&member.backend, member.hello()) else { return };
        let left = left.iter().take(AT_ONCE).map(|left| (left.clone(), left.folders(hello))).collect();
        let (remote, engine) = (remote.clone(), self.outbox.clone());
        let work = move || remove(machine, left, &remote, &engine);
        match threads::start_with_stack("nexus-remove", STACK, work) {
            Ok(_) => drop(self.remnants.asked.insert(machine, false)),
            // The next line asks again.
            Err(error) => self.log.write(&[Line::error(format!("failed to start a thread: {error}"))]),
        }
    }

    pub(super) fn remnants_gone(&mut self, gone: Gone, turn: &mut Turn) {
        let Gone { machine, left, troubles } = gone;
        let again = self.remnants.asked.remove(&machine).unwrap_or(false) || !left.is_empty();
        let name = self.pool.names.machine_name(machine);
        turn.lines.extend(troubles.into_iter().map(|why| Line::warn(format!("Machine {name}: {why}"))));
        if let Some(list) = self.remnants.list.get_mut(&machine).filter(|_| !left.is_empty()) {
            for left in &left {
                list.remove(left);
            }
            if list.is_empty() {
                self.remnants.list.remove(&machine);
            }
            turn.batch.meta.push(self.remnants.note());
        }
        if again {
            self.remove_remnants(machine);
        }
    }
}

/// One after another, until all is gone or the line is.
fn remove(machine: MachineId, left: Vec<(Remnant, Vec<PathBuf>)>, remote: &Remote, engine: &Sender<Message>) {
    let (mut done, mut troubles) = (Vec::new(), Vec::new());
    for (left, folders) in left {
        let removed = folders.into_iter().try_for_each(|path| {
            let mut channel = remote.open(Stream::Remove { path })?;
            io::copy(&mut channel, &mut io::sink()).map(drop)
        });
        match removed {
            Err(error) if is_lines(&error) => break,
            // Asked again it would say the same.
            Err(error) => troubles.push(error.to_string()),
            Ok(()) => {}
        }
        done.push(left);
    }
    // The engine is gone: the next service asks again.
    let _ = engine.send(Message::RemnantsGone(Gone { machine, left: done, troubles }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("nexus.db"), false).unwrap();
        assert!(Remnants::read(&store).unwrap().list.is_empty());
        let left = BTreeSet::from([Remnant::Job("abc".into()), Remnant::Checkpoints("abd".into())]);
        let there = Remnants { list: BTreeMap::from([(MachineId(7), left)]), asked: BTreeMap::new() };
        let (key, text) = there.note();
        store.set_meta(key, &text).unwrap();
        assert_eq!(Remnants::read(&store).unwrap().list, there.list);
    }
}
