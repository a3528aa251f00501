//! Why the database cannot be used, if it cannot. The engine sets it; those who answer clients read it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_api::problem::Problem;

#[derive(Default)]
pub struct Trouble {
    problem: Mutex<Option<Problem>>,
    is_checking: AtomicBool,
}

impl Trouble {
    pub fn get(&self) -> Option<Problem> {
        self.problem.lock().expect("nobody panics with it in hand").clone()
    }

    pub fn set(&self, problem: Option<Problem>) {
        *self.problem.lock().expect("nobody panics with it in hand") = problem;
    }

    /// Whether a check of the whole database should begin now: none is under way, and nothing is known yet.
    pub fn begins_check(&self) -> bool {
        self.get().is_none() && !self.is_checking.swap(true, Ordering::Relaxed)
    }

    pub fn ends_check(&self) {
        self.is_checking.store(false, Ordering::Relaxed);
    }
}
