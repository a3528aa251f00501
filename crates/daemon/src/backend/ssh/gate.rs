//! Keeps what is heard over one line between the two moments that the engine hears of the line itself.
//!
//! ```text
//!   Waiting ── the line is up: that first, then all that waited ──> Open ── the line is lost ──> Closed
//! ```
//! The thread that reads the line hears the node's first GPU reading before the calling thread has measured the round trip and
//! told that the line is up. Until then the engine must hear nothing: what it would ask in return would find no line and be
//! lost. The same holds for readings and reports that are read while the line is being closed.

use std::sync::{Mutex, MutexGuard};

use super::{News, Sink};

/// News that wait for the line to be up. A node says less than this within seconds. Later ones are dropped: all runs are
/// observed once the line is up, and GPUs are read again at the next poll.
const MAX_WAITING_NEWS: usize = 1_000;

pub struct Gate {
    sink: Sink,
    state: Mutex<State>,
}

enum State {
    Waiting(Vec<News>),
    Open,
    Closed,
}

impl Gate {
    pub fn new(sink: Sink) -> Gate {
        Gate { sink, state: Mutex::new(State::Waiting(Vec::new())) }
    }

    /// The sink is called with the state locked, so that the order of news is the order in which they came here.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics in a sink")
    }

    /// Something was heard over the line.
    pub fn pass(&self, news: News) {
        match &mut *self.state() {
            State::Waiting(waiting) if waiting.len() < MAX_WAITING_NEWS => waiting.push(news),
            State::Open => (self.sink)(news),
            State::Waiting(_) | State::Closed => {}
        }
    }

    /// Something for the thread that calls, which waits for words of the node before the line is up.
    pub fn tell_caller(&self, tell: impl FnOnce()) {
        if !matches!(*self.state(), State::Closed) {
            tell();
        }
    }

    /// The line is up, as `up` says; whoever hears that can use it.
    pub fn open(&self, up: News) {
        let mut state = self.state();
        let State::Waiting(waiting) = &mut *state else { return };
        let waiting = std::mem::take(waiting);
        *state = State::Open;
        (self.sink)(up);
        waiting.into_iter().for_each(|news| (self.sink)(news));
    }

    /// Nothing more passes: after this the loss of the line may be told.
    pub fn close(&self) {
        *self.state() = State::Closed;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use nexus_node::gpu::Reading;

    use super::super::{Step, Trouble};
    use super::*;

    fn gate() -> (Gate, mpsc::Receiver<&'static str>) {
        let (told, heard) = mpsc::channel();
        let word = |news: News| match news {
            News::Gpus(_) => "GPUs",
            News::NoLoginEnv(_) => "login",
            // What stands for the line being up here: a hello has many fields.
            News::Step(_) => "up",
            News::Down { .. } => "down",
            _ => "other",
        };
        (Gate::new(Arc::new(move |news| told.send(word(news)).unwrap())), heard)
    }

    #[test]
    fn nothing_is_heard_before_the_line_is_up_and_nothing_after_its_loss() {
        let (gate, heard) = gate();
        let words = || heard.try_iter().collect::<Vec<_>>();
        gate.pass(News::Gpus(Reading::default()));
        gate.pass(News::NoLoginEnv(String::new()));
        assert!(words().is_empty());
        gate.open(News::Step(Step::Starting));
        assert_eq!(words(), ["up", "GPUs", "login"]);
        gate.pass(News::Gpus(Reading::default()));
        assert_eq!(words(), ["GPUs"]);
        gate.close();
        (gate.sink)(News::Down { trouble: Trouble::passing("x"), again_in: std::time::Duration::ZERO });
        gate.pass(News::Gpus(Reading::default()));
        gate.open(News::Step(Step::Starting));
        gate.tell_caller(|| panic!("the next line would take it for its own"));
        assert_eq!(words(), ["down"]);
    }

    #[test]
    fn a_node_that_talks_without_end_fills_no_memory() {
        let (gate, heard) = gate();
        for _ in 0..MAX_WAITING_NEWS * 2 {
            gate.pass(News::Gpus(Reading::default()));
        }
        gate.open(News::Step(Step::Starting));
        assert_eq!(heard.try_iter().count(), 1 + MAX_WAITING_NEWS);
    }
}
