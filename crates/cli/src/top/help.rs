//! The keys of top: all on a page, the most used on the last line.

use super::panes::Pane;
use super::state::{State, View};

const KEYS: &str = "\
Move
  arrows, j k      up and down            PgUp PgDn, Space   a page
  Home End, g G    first and last         mouse              click chooses, wheel scrolls
  Tab, 1 to 6      another pane; the one you are in has the most room

The chosen job
  Enter, l   its log, as it comes         w   why it waits, or how it ended
  s          all that is known of it      a   its terminal; Ctrl+A D comes back
  K          kill it, or take it out of the queue; asks first
  h          hold it, or release it       r   queue it again
  f          to the head of the queue     + - a place up, a place down
  On a GPU they mean the job on it. On a sweep or a machine Enter shows what is known.

Find
  /          only jobs with this in their id, name, command, project or a tag; Enter keeps it, Esc drops it

Leave
  Esc, q     back from a log or a page    q, Ctrl+C   leave top; jobs and service go on

Colours
  load of a GPU:   green below 10 %, yellow below 75 %, red above
  its memory:      green below 10 %, yellow below 80 %, red above
  To mark text with the mouse hold Shift, which most terminals understand.
";

pub fn page() -> View {
    super::keys::page("keys".into(), KEYS)
}

/// What the last line has room for, the most needed first.
pub fn line(state: &State) -> Vec<(&'static str, &'static str)> {
    match &state.view {
        View::Log(log) if log.follows() => {
            vec![("Esc", "back"), ("↑↓ PgUp PgDn", "scroll"), ("a", "attach"), ("Ctrl+C", "quit")]
        }
        View::Log(_) => vec![("Esc", "back"), ("↑↓ PgUp PgDn", "scroll"), ("G", "to the end"), ("Ctrl+C", "quit")],
        View::Page { .. } => vec![("Esc", "back"), ("↑↓ PgUp PgDn", "scroll"), ("Ctrl+C", "quit")],
        View::Panes => {
            let on_it: &[(&str, &str)] = match state.focus {
                Pane::Queue => &[("w", "why"), ("h", "hold"), ("f", "first"), ("+-", "move"), ("K", "remove")],
                Pane::Gpus | Pane::Running => &[("Enter", "log"), ("a", "attach"), ("K", "kill"), ("w", "why")],
                Pane::Ended => &[("Enter", "log"), ("w", "why"), ("r", "rerun")],
                Pane::Sweeps | Pane::Machines => &[("Enter", "show")],
            };
            let always = [("/", "filter"), ("Tab", "pane"), ("?", "all keys"), ("q", "quit")];
            on_it.iter().copied().chain(always).collect()
        }
    }
}
