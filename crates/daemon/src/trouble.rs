//! What only a person can mend: why the database cannot be used, and why the queue stands still. The engine sets it; those who
//! answer clients read it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_api::problem::Problem;
use nexus_api::standstill::Standstill;

#[derive(Default)]
pub struct Trouble {
    problem: Mutex<Option<Problem>>,
    standstill: Mutex<Option<Standstill>>,
    is_checking: AtomicBool,
}

impl Trouble {
    pub fn get(&self) -> Option<Problem> {
        self.problem.lock().expect("nobody panics with it in hand").clone()
    }

    pub fn set(&self, problem: Option<Problem>) {
        *self.problem.lock().expect("nobody panics with it in hand") = problem;
    }

    pub fn standstill(&self) -> Option<Standstill> {
        self.standstill.lock().expect("nobody panics with it in hand").clone()
    }

    pub fn set_standstill(&self, standstill: Option<Standstill>) {
        *self.standstill.lock().expect("nobody panics with it in hand") = standstill;
    }

    /// Whether a check of the whole database should begin now: none is under way, and nothing is known yet.
    pub fn begins_check(&self) -> bool {
        self.get().is_none() && !self.is_checking.swap(true, Ordering::Relaxed)
    }

    pub fn ends_check(&self) {
        self.is_checking.store(false, Ordering::Relaxed);
    }
}
