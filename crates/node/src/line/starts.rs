//! The node's runs as the service asks for them over the line. Those that want the login environment wait until it is
//! known; until then they are neither looked for nor forgotten.

use std::sync::{Mutex, MutexGuard};

use nexus_api::run_dir::RunSpec;
use nexus_core::ids::RunId;

use super::login::{Variables, merged};
use crate::node::Node;
use crate::words::RunPlace;

pub struct Starts {
    books: Mutex<Books>,
}

struct Books {
    /// None once it is closed.
    node: Option<Node>,
    login_env: Option<Variables>,
    waiting: Vec<RunSpec>,
}

impl Starts {
    pub fn new(node: Node) -> Starts {
        Starts { books: Mutex::new(Books { node: Some(node), login_env: None, waiting: Vec::new() }) }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    /// Now it is known, and what waited for it starts.
    pub fn know(&self, login_env: Variables) {
        let mut books = self.books();
        books.login_env = Some(login_env);
        let waiting = std::mem::take(&mut books.waiting);
        books.start(waiting);
    }

    pub fn start(&self, runs: Vec<RunSpec>) {
        self.books().start(runs);
    }

    /// Of those that wait nothing is told: they are on their way.
    pub fn observe(&self, mut runs: Vec<RunPlace>) {
        let books = self.books();
        runs.retain(|place| !books.is_waiting(place.run));
        if let Some(node) = &books.node {
            node.observe(runs);
        }
    }

    /// One that waits is not started any more, which the node makes sure of.
    pub fn stop(&self, runs: Vec<RunPlace>) {
        let mut books = self.books();
        books.waiting.retain(|spec| !runs.iter().any(|place| is(spec, place.run)));
        if let Some(node) = &books.node {
            node.stop(runs);
        }
    }

    pub fn with_node(&self, ask: impl FnOnce(&Node)) {
        if let Some(node) = &self.books().node {
            ask(node);
        }
    }

    /// Runs go on; those that waited never began.
    pub fn close(&self) {
        let node = self.books().node.take();
        drop(node);
    }
}

impl Books {
    fn is_waiting(&self, run: RunId) -> bool {
        self.waiting.iter().any(|spec| is(spec, run))
    }

    fn start(&mut self, runs: Vec<RunSpec>) {
        let mut ready = Vec::new();
        for mut spec in runs {
            match (&self.login_env, spec.login_env) {
                (_, false) => ready.push(spec),
                (Some(login_env), true) => {
                    spec.env = merged(login_env, std::mem::take(&mut spec.env));
                    ready.push(spec);
                }
                (None, true) => self.waiting.push(spec),
            }
        }
        if let Some(node) = &self.node {
            node.start(ready);
        }
    }
}

fn is(spec: &RunSpec, run: RunId) -> bool {
    spec.run.parse() == Ok(run)
}
