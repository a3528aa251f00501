//! Which machine is behind which name. Two names of one machine would take its node from each other without end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use nexus_node::line::Hello;

/// A folder of nexus, on a machine since it was switched on.
type Place = (String, PathBuf);

/// Shared by all calls of a service.
#[derive(Clone, Debug, Default)]
pub struct Reached(Arc<Mutex<BTreeMap<Place, String>>>);

impl Reached {
    fn names(&self) -> MutexGuard<'_, BTreeMap<Place, String>> {
        self.0.lock().expect("nobody panics with the names in hand")
    }

    /// The first name that leads there keeps it, for as long as it is called; another is told that one.
    pub fn claim(&self, name: &str, hello: &Hello) -> Result<(), String> {
        let mut names = self.names();
        let holder = names.entry((hello.boot_id.clone(), hello.home.clone())).or_insert_with(|| name.to_string());
        match holder == name {
            true => Ok(()),
            false => Err(holder.clone()),
        }
    }

    /// Nobody calls it by this name any more.
    pub fn release(&self, name: &str) {
        self.names().retain(|_, holder| holder != name);
    }
}
