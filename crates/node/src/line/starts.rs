//! The node's runs as the service asks for them over the line. Those that want the login environment, or code that is not
//! here, wait until it is; until then they are neither looked for nor forgotten.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

use nexus_api::jobs::Code;
use nexus_api::run_dir::RunSpec;
use nexus_core::ids::RunId;

use super::words::{FromNode, part_of};
use crate::login::{Variables, merged};
use crate::node::Node;
use crate::slurm::Submitter;
use crate::words::{Report, RunPlace, RunTerms};

/// Contents that may be much the same as one that is wanted: the newest.
const BESIDE: usize = 4;

/// Tells the service something.
pub type Tell = Box<dyn Fn(FromNode) + Send + Sync>;

pub struct Starts {
    books: Mutex<Books>,
    /// Where contents are, a folder each.
    code: PathBuf,
    tell: Tell,
}

/// Who does what is asked.
pub enum Doer {
    Machine(Node),
    Cluster(Submitter),
}

impl Doer {
    fn start(&self, runs: Vec<RunSpec>) {
        match self {
            Doer::Machine(node) => node.start(runs, vec![]),
            Doer::Cluster(submitter) => submitter.start_runs(runs),
        }
    }

    fn observe(&self, runs: Vec<RunPlace>) {
        match self {
            Doer::Machine(node) => node.observe(runs),
            Doer::Cluster(submitter) => submitter.observe(runs),
        }
    }

    fn stop(&self, runs: Vec<RunPlace>) {
        match self {
            Doer::Machine(node) => node.stop(runs),
            Doer::Cluster(submitter) => submitter.stop(runs),
        }
    }

    fn clear(&self, runs: Vec<RunPlace>, leftovers: bool) {
        match self {
            Doer::Machine(node) => node.clear(runs, leftovers),
            Doer::Cluster(submitter) => submitter.clear(runs),
        }
    }
}

struct Books {
    /// None once it is closed.
    doer: Option<Doer>,
    login_env: Option<Variables>,
    waiting: Vec<RunSpec>,
    /// Contents that were asked for.
    wanted: BTreeSet<String>,
}

impl Starts {
    pub fn new(doer: Doer, code: PathBuf, tell: Tell) -> Starts {
        let books = Books { doer: Some(doer), login_env: None, waiting: Vec::new(), wanted: BTreeSet::new() };
        Starts { books: Mutex::new(books), code, tell }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().expect("nobody panics with the books in hand")
    }

    /// Now it is known, and what waited for it starts.
    pub fn know(&self, login_env: Variables) {
        let mut books = self.books();
        books.login_env = Some(login_env);
        self.start_waiting(&mut books);
    }

    /// A content came, or could not.
    pub fn code_came(&self, content: &str, error: Option<String>) {
        let mut books = self.books();
        if !books.wanted.remove(content) {
            return;
        }
        let came = match error {
            Some(error) => Err(error),
            None => self.take_in(content).map_err(|error| format!("its code cannot be kept here: {error}")),
        };
        let Err(error) = came else { return self.start_waiting(&mut books) };
        let waits = |spec: &RunSpec| spec.code.as_deref() == Some(content);
        for spec in books.waiting.extract_if(.., |spec| waits(spec)) {
            if let Ok(run) = spec.run.parse() {
                (self.tell)(FromNode::Report(Report::StartFailed { run, error: error.clone() }));
            }
        }
    }

    /// What was sent gets its name.
    fn take_in(&self, content: &str) -> std::io::Result<()> {
        let whole = self.code.join(content);
        match std::fs::rename(self.code.join(part_of(content)), &whole) {
            // Another has put it there meanwhile.
            Err(_) if whole.is_dir() => Ok(()),
            renamed => renamed,
        }
    }

    pub fn start(&self, runs: Vec<RunSpec>) {
        let mut books = self.books();
        books.waiting.extend(runs);
        self.start_waiting(&mut books);
    }

    fn start_waiting(&self, books: &mut Books) {
        let mut ready = Vec::new();
        for mut spec in std::mem::take(&mut books.waiting) {
            if !self.has_code(&spec, books) {
                books.waiting.push(spec);
                continue;
            }
            match (&books.login_env, spec.login_env) {
                (_, false) => ready.push(spec),
                (Some(login_env), true) => {
                    spec.env = merged(login_env, &spec.env);
                    ready.push(spec);
                }
                (None, true) => books.waiting.push(spec),
            }
        }
        if let Some(doer) = books.doer.as_ref().filter(|_| !ready.is_empty()) {
            doer.start(ready);
        }
    }

    /// Whether the code of a run is here; the service is asked for it once.
    fn has_code(&self, spec: &RunSpec, books: &mut Books) -> bool {
        let Some(content) = spec.code.as_ref().filter(|content| Code::is_content(content)) else { return true };
        if self.code.join(content).is_dir() {
            return true;
        }
        if books.wanted.insert(content.clone()) {
            // Whoever sends it says what is wrong, if this is.
            let _ = std::fs::create_dir_all(&self.code);
            (self.tell)(FromNode::WantCode { content: content.clone(), beside: newest(&self.code) });
        }
        false
    }

    /// Of those that wait nothing is told: they are on their way.
    pub fn observe(&self, mut runs: Vec<RunPlace>) {
        let books = self.books();
        runs.retain(|place| !books.is_waiting(place.run));
        if let Some(doer) = &books.doer {
            doer.observe(runs);
        }
    }

    /// One that waits is not started any more, which the node makes sure of.
    pub fn stop(&self, runs: Vec<RunPlace>) {
        let mut books = self.books();
        books.waiting.retain(|spec| !runs.iter().any(|place| is(spec, place.run)));
        if let Some(doer) = &books.doer {
            doer.stop(runs);
        }
    }

    /// Slurm ends what it runs, and its shims, by means of its own.
    pub fn know_terms(&self, runs: Vec<RunTerms>) {
        if let Some(Doer::Machine(node)) = &self.books().doer {
            node.know_terms(runs);
        }
    }

    pub fn clear(&self, runs: Vec<RunPlace>, leftovers: bool) {
        if let Some(doer) = &self.books().doer {
            doer.clear(runs, leftovers);
        }
    }

    /// Runs go on; those that waited never began.
    pub fn close(&self) {
        let doer = self.books().doer.take();
        drop(doer);
    }
}

impl Books {
    fn is_waiting(&self, run: RunId) -> bool {
        self.waiting.iter().any(|spec| is(spec, run))
    }
}

fn is(spec: &RunSpec, run: RunId) -> bool {
    spec.run.parse() == Ok(run)
}

/// Contents that are here, the newest first.
fn newest(code: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(code).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok().filter(|name| Code::is_content(name))?;
        Some((entry.metadata().and_then(|about| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH), name))
    });
    let mut all: Vec<(SystemTime, String)> = named.collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.into_iter().take(BESIDE).map(|(_, name)| name).collect()
}
