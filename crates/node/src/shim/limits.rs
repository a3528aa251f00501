//! What a process of the run may use, set in the child before it is the command.

use std::io;

use nexus_api::run_dir::{ResourceLimits, UNLIMITED};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::failure::Failure;

#[derive(Clone, Copy)]
pub struct Limit {
    /// As in `config.toml`.
    name: &'static str,
    resource: Resource,
    wanted: Option<u64>,
}

/// Always in the same order.
pub fn of(limits: &ResourceLimits) -> [Limit; 2] {
    [
        Limit { name: "nofile", resource: Resource::Nofile, wanted: limits.nofile },
        Limit { name: "memlock", resource: Resource::Memlock, wanted: limits.memlock },
    ]
}

impl Limit {
    /// Allocates nothing. A number over what the machine allows is refused; unlimited means all that it allows.
    pub fn set(&self) -> io::Result<()> {
        let Some(wanted) = self.wanted else { return Ok(()) };
        let allowed = getrlimit(self.resource).maximum;
        let set = |current: Option<u64>, maximum: Option<u64>| setrlimit(self.resource, Rlimit { current, maximum });
        if wanted == UNLIMITED {
            // Only root may raise what is allowed, and not everything.
            return set(None, None).or_else(|_| set(allowed, allowed)).map_err(Into::into);
        }
        let maximum = allowed.map(|allowed| allowed.max(wanted));
        set(Some(wanted), maximum).map_err(Into::into)
    }

    /// Said in the shim, which is under the same limits as its child.
    pub fn failure(&self, source: io::Error) -> Failure {
        let most = getrlimit(self.resource).maximum;
        Failure::Limit { name: self.name, wanted: self.wanted.unwrap_or(0), most, source }
    }
}
