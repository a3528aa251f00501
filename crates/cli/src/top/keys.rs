//! What a key or a click does: to what is seen, or what is to be done about it.

use nexus_api::jobs::{Job, State as Word};

use super::deeds::Deed;
use super::input::Input;
use super::panes::Pane;
use super::state::{Bottom, State, Subject, View};
use crate::chosen;
use crate::render::{machines, outcome, paint::Paint, place, sweep, text};

/// Rows that a turn of the wheel moves.
const WHEEL: isize = 3;

const PLAIN: Paint = Paint { on: false };

/// What is left to do about a key.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing but to draw.
    Draw,
    /// Other rows are seen, or others are meant: they are to be read.
    Read,
    Do(Deed),
    Follow {
        id: String,
        command: String,
    },
    Attach(String),
    /// All is drawn anew.
    Redraw,
    Suspend,
    Quit,
}

pub fn press(state: &mut State, input: Input) -> Next {
    match input {
        Input::Control('c') => return Next::Quit,
        Input::Control('z') => return Next::Suspend,
        Input::Control('l') => return Next::Redraw,
        _ => {}
    }
    match &state.bottom {
        Bottom::Asks { .. } => return answer(state, input),
        Bottom::Types => return typed(state, input),
        Bottom::Says { .. } => state.bottom = Bottom::Keys,
        Bottom::Keys => {}
    }
    match state.view {
        View::Panes => on_panes(state, input),
        View::Log(_) | View::Page { .. } => on_page(state, input),
    }
}

/// Yes is done, all else is not.
fn answer(state: &mut State, input: Input) -> Next {
    match std::mem::replace(&mut state.bottom, Bottom::Keys) {
        Bottom::Asks { deed, .. } if matches!(input, Input::Char('y' | 'Y')) => Next::Do(deed),
        _ => {
            state.says("nothing was done".into());
            Next::Draw
        }
    }
}

fn typed(state: &mut State, input: Input) -> Next {
    let before = state.filter.clone();
    match input {
        Input::Char(c) => state.filter.push(c),
        Input::Backspace => drop(state.filter.pop()),
        Input::Control('u') => state.filter.clear(),
        Input::Enter => state.bottom = Bottom::Keys,
        Input::Escape => {
            state.filter.clear();
            state.bottom = Bottom::Keys;
        }
        _ => {}
    }
    filtered(state, &before)
}

fn filtered(state: &mut State, before: &str) -> Next {
    if state.filter == before {
        return Next::Draw;
    }
    state.known.forget_lists();
    state.settle();
    Next::Read
}

fn on_page(state: &mut State, input: Input) -> Next {
    let page = isize::try_from(state.page_rows()).unwrap_or(1).max(1);
    match input {
        Input::Escape | Input::Left | Input::Char('q' | 'b') => state.view = View::Panes,
        Input::Up | Input::Char('k') => scroll(state, -1),
        Input::Down | Input::Enter | Input::Char('j') => scroll(state, 1),
        Input::PageUp => scroll(state, -page),
        Input::PageDown | Input::Char(' ') => scroll(state, page),
        Input::Home | Input::Char('g') => scroll(state, isize::MIN / 2),
        Input::End | Input::Char('G') => scroll(state, isize::MAX / 2),
        Input::Wheel { down, .. } => scroll(state, if down { WHEEL } else { -WHEEL }),
        Input::Char('a') => {
            if let View::Log(log) = &state.view {
                return Next::Attach(log.id.clone());
            }
        }
        _ => {}
    }
    Next::Draw
}

/// So many rows down.
fn scroll(state: &mut State, rows: isize) {
    match &mut state.view {
        View::Log(log) => log.scroll(-rows),
        View::Page { lines, top, .. } => *top = top.saturating_add_signed(rows).min(lines.len().saturating_sub(1)),
        View::Panes => {}
    }
}

fn on_panes(state: &mut State, input: Input) -> Next {
    match input {
        Input::Char('q') => return Next::Quit,
        Input::Up | Input::Char('k') => state.step(-1),
        Input::Down | Input::Char('j') => state.step(1),
        Input::PageUp => state.leap(false),
        Input::PageDown | Input::Char(' ') => state.leap(true),
        Input::Home | Input::Char('g') => state.step(isize::MIN / 2),
        Input::End | Input::Char('G') => state.step(isize::MAX / 2),
        Input::Tab | Input::Right => state.turn(true),
        Input::BackTab | Input::Left => state.turn(false),
        Input::Click { row, .. } => {
            if let Some((pane, index)) = state.at(row) {
                state.look_at(pane);
                index.into_iter().for_each(|index| state.choose(pane, index));
            }
        }
        Input::Wheel { row, down, .. } => {
            if let Some((pane, _)) = state.at(row) {
                state.look_at(pane);
                state.step(if down { WHEEL } else { -WHEEL });
            }
        }
        Input::Char('/') => state.bottom = Bottom::Types,
        Input::Escape => {
            let before = std::mem::take(&mut state.filter);
            return filtered(state, &before);
        }
        Input::Char('?') => state.view = super::help::page(),
        Input::Char(key) => match Pane::by_key(key) {
            Some(pane) => to_pane(state, pane),
            None => return on_subject(state, key),
        },
        Input::Enter => return on_subject(state, 'l'),
        _ => return Next::Draw,
    }
    Next::Read
}

fn to_pane(state: &mut State, pane: Pane) {
    match state.panes().iter().any(|(shown, _)| *shown == pane) {
        true => state.look_at(pane),
        false => state.says(match pane {
            Pane::Sweeps => "no sweep is on".into(),
            Pane::Machines => "there is no other machine than this one".into(),
            _ => "nothing has ended yet".into(),
        }),
    }
}

fn on_subject(state: &mut State, key: char) -> Next {
    if !"lwsaKhrf+=-".contains(key) {
        return Next::Draw;
    }
    match state.subject() {
        Some(Subject::Job(job)) => on_job(state, &job, key),
        Some(Subject::Gpu(gpu)) => {
            state.says(format!("no job is on GPU {gpu}"));
            Next::Draw
        }
        Some(Subject::Sweep(sweep)) => {
            if "lws".contains(key) {
                let text = sweep::show(&sweep, &jiff::Zoned::now(), PLAIN);
                state.view = page(format!("sweep {}", sweep.name), &text);
            } else {
                state.says(format!(
                    "that is for a job; nexus help sweep, and sweep:{} where an id is taken",
                    sweep.name
                ));
            }
            Next::Draw
        }
        Some(Subject::Machine(machine)) => {
            if "lws".contains(key) {
                let text = machines::show(&machine, &jiff::Zoned::now(), PLAIN);
                state.view = page(format!("machine {}", machine.name), &text);
            } else {
                state.says("that is for a job; nexus help machine".into());
            }
            Next::Draw
        }
        None => {
            state.says("there is no row here".into());
            Next::Draw
        }
    }
}

/// A text with a title, from its beginning.
pub fn page(title: String, text: &str) -> View {
    View::Page { title, lines: text.lines().map(String::from).collect(), top: 0 }
}

fn on_job(state: &mut State, job: &Job, key: char) -> Next {
    let id = job.id.clone();
    match key {
        'l' => return Next::Follow { id, command: text::first_line(&job.command) },
        'a' => return Next::Attach(id),
        'w' => return Next::Do(Deed::Why(id)),
        's' => return Next::Do(Deed::Show(id)),
        'r' => return Next::Do(Deed::Rerun(id)),
        'h' if job.state == Word::Held => return Next::Do(Deed::Release(id)),
        'h' => return Next::Do(Deed::Hold(id)),
        'f' => return Next::Do(Deed::First(id)),
        '+' | '=' | '-' => return moved(state, job, key == '-'),
        'K' => ask_to_end(state, job),
        _ => {}
    }
    Next::Draw
}

fn ask_to_end(state: &mut State, job: &Job) {
    let (what, deed) = if (chosen::KILL.states)(job.state) {
        ("kill", Deed::Kill(job.id.clone()))
    } else if (chosen::REMOVE.states)(job.state) {
        ("remove", Deed::Remove(job.id.clone()))
    } else {
        return state.fails(format!("{} has ended: {}", job.id, outcome::state_words(job)));
    };
    let what = format!("{what} {}{}", job.id, place::on_place(job));
    state.bottom = Bottom::Asks { question: format!("{what}? y/n   {}", text::first_line(&job.command)), deed };
}

/// A place up or down among the rows that are seen.
fn moved(state: &mut State, job: &Job, down: bool) -> Next {
    if state.focus != Pane::Queue {
        state.says("only jobs that wait have a place in the queue".into());
        return Next::Draw;
    }
    let (queue, at) = (&state.known.queue, state.list(Pane::Queue).at());
    let before = match (down, at) {
        (false, 0) => None,
        (false, at) => queue.get(at - 1),
        (true, at) => queue.get(at + 2),
    };
    let id = job.id.clone();
    match before {
        Some(before) => Next::Do(Deed::Move { id, before: Some(before.id.clone()) }),
        None if down && at + 1 < queue.len() && !queue.has_more() => Next::Do(Deed::Move { id, before: None }),
        None => {
            state.says(format!("{id} is the {} one", if down { "last" } else { "first" }));
            Next::Draw
        }
    }
}
