//! The keys of top: all on a page, the most used on the last line.

use super::panes::Pane;
use super::state::{State, View};

const KEYS: &str = "\
Move
  arrows, j k     up and down             PgUp PgDn, Space   a page
  Home End, g G   first and last          Tab, 1 to 6        another pane
  mouse           click chooses, wheel scrolls; Shift marks text
The chosen job (on a GPU: the job on it)
  Enter, l   its log, as it comes         w   why it waits, or how it ended
  a          its terminal                 s   all that is known of it
             (Ctrl+A D comes back)        r   queue it again
  h          hold it, or release it       f   to the head of the queue
  K          kill it, or take it out      + - a place up, a place down
             of the queue; asks first
A sweep, a machine
  Enter      what is known of it
Find
  /          jobs with this in id, name, command, project or a tag
             Enter keeps the filter, Esc drops it
Leave
  Esc, q     back from a log or a page    q, Ctrl+C   leave; all goes on
Colours
  load green below 10 %, yellow below 75 %, red above; memory 10 %, 80 %
";

pub fn page() -> View {
    super::keys::page("keys".into(), KEYS)
}

/// A key, and what it does.
type Does = (&'static str, &'static str);

/// What the last line has room for, the most needed first; and what always stands there.
pub fn line(state: &State) -> (Vec<Does>, Vec<Does>) {
    let scroll = ("↑↓ PgUp PgDn", "scroll");
    match &state.view {
        View::Log(log) if log.follows() => (vec![scroll, ("a", "attach")], vec![("Esc", "back"), ("Ctrl+C", "quit")]),
        View::Log(_) => (vec![scroll, ("G", "to the end")], vec![("Esc", "back"), ("Ctrl+C", "quit")]),
        View::Page { .. } => (vec![scroll], vec![("Esc", "back"), ("Ctrl+C", "quit")]),
        View::Panes => {
            let on_it: &[Does] = match state.focus {
                Pane::Queue => &[("w", "why"), ("h", "hold"), ("f", "first"), ("+-", "move"), ("K", "remove")],
                Pane::Gpus | Pane::Running => &[("Enter", "log"), ("a", "attach"), ("K", "kill"), ("w", "why")],
                Pane::Ended => &[("Enter", "log"), ("w", "why"), ("r", "rerun")],
                Pane::Sweeps | Pane::Machines => &[("Enter", "show")],
            };
            let some = on_it.iter().copied().chain([("/", "filter"), ("Tab", "pane")]);
            (some.collect(), vec![("?", "all keys"), ("q", "quit")])
        }
    }
}
