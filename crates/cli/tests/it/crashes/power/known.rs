//! What clients had asked for and been told when the power was cut.

use std::collections::BTreeMap;
use std::rc::Rc;

use nexus_testkit::record::Event;

/// One command of a client. Its number is its place among all.
pub struct Command {
    /// The number of the command that added the job it is about.
    pub job: usize,
    pub asked: Asked,
    pub succeeded: bool,
}

pub enum Asked {
    Add { code: i64, held: bool, endless: bool, priority: i64 },
    Hold,
    Release,
    Tag(String),
    Priority(i64),
    Cancel,
    Look(Option<End>),
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub state: String,
    pub reason: Option<String>,
    pub code: Option<i64>,
}

pub fn asked_note(command: usize) -> usize {
    2 * command
}

pub fn answered_note(command: usize) -> usize {
    2 * command + 1
}

/// The name of the job that a command adds.
pub fn name_of(command: usize) -> String {
    format!("job-{command}")
}

/// All commands, and where in the recording they were asked and answered.
pub struct Known {
    commands: Rc<Vec<Command>>,
    asked_at: Vec<usize>,
    answered_at: Vec<usize>,
}

/// What was known at one moment: by name of the job, what was asked of it in order, and whether it was answered well.
pub type Past<'a> = BTreeMap<String, Vec<(&'a Asked, bool)>>;

impl Known {
    pub fn new(commands: Vec<Command>, events: &[Event]) -> Known {
        Known::placed(Rc::new(commands), events)
    }

    /// The same commands in another recording.
    pub fn in_place_of(&self, events: &[Event]) -> Known {
        Known::placed(Rc::clone(&self.commands), events)
    }

    fn placed(commands: Rc<Vec<Command>>, events: &[Event]) -> Known {
        let mut places = vec![usize::MAX; 2 * commands.len()];
        for (at, event) in events.iter().enumerate() {
            if let Event::Note(note) = event {
                places[*note] = at;
            }
        }
        assert!(!places.contains(&usize::MAX), "every command was asked and answered");
        let of = |note: fn(usize) -> usize| (0..commands.len()).map(|number| places[note(number)]).collect();
        Known { asked_at: of(asked_note), answered_at: of(answered_note), commands }
    }

    /// Before the event of this place.
    pub fn until(&self, at: usize) -> Past<'_> {
        let mut past = Past::new();
        for (number, command) in self.commands.iter().enumerate().filter(|(number, _)| self.asked_at[*number] < at) {
            let answered = command.succeeded && self.answered_at[number] < at;
            past.entry(name_of(command.job)).or_default().push((&command.asked, answered));
        }
        past
    }
}
