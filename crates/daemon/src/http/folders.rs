//! Looks at the folders of new jobs. One on a dead server may keep the look waiting: the thread then steps aside for
//! others, which costs more than the look itself. So it does not where the folder is known to be on this machine.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nexus_api::jobs::JobSpec;
use nexus_api::problem::Problem;

use crate::{blocking, checks};

/// More than are in use at a time.
const MOST: usize = 256;

/// Folders that were seen on a disk of this machine.
#[derive(Default)]
pub struct NearFolders(Mutex<BTreeSet<String>>);

impl NearFolders {
    /// Checks specs, as [`checks::spec`].
    pub fn check(&self, specs: &mut [JobSpec]) -> Result<(), Problem> {
        if specs.iter().all(|spec| spec.results.is_none() && self.has(&spec.cwd)) {
            return specs.iter_mut().try_for_each(checks::spec);
        }
        blocking::in_place(|| {
            specs.iter_mut().try_for_each(checks::spec)?;
            let is_near = |cwd: &Path| cwd.is_absolute() && !nexus_node::home::is_network(cwd);
            // Those of many jobs are few.
            if let Some(spec) = specs.first().filter(|spec| is_near(Path::new(&spec.cwd))) {
                self.keep(spec.cwd.clone());
            }
            Ok(())
        })
    }

    fn has(&self, cwd: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(cwd)
    }

    fn keep(&self, cwd: String) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(cwd);
    }
}
