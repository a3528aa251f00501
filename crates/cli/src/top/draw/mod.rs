//! Draws what is seen: the head, the panes or the page over them, the last line. Changes nothing but where a log is drawn up
//! to.

mod bars;
mod columns;
mod gpus;
mod jobs;
mod look;
mod pool;
#[cfg(test)]
mod tests;

use jiff::Zoned;
use nexus_api::jobs::Job;
use nexus_api::service::Status;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Span};

use self::columns::{Columns, clipped};
pub use self::look::Look;
use super::help;
use super::log::{Log, Standing};
use super::panes::{Pane, Place};
use super::state::{Bottom, HEAD, LEAST, State, View};
use super::text;
use crate::render::text::{counted, first_line, printable};

/// Below this the disk is told about.
const LITTLE_DISK_BYTES: u64 = 1 << 30;

/// What a part of the picture is made of.
pub struct Sight<'a> {
    state: &'a State,
    look: Look,
    now: &'a Zoned,
    width: u16,
}

pub fn draw(state: &mut State, look: Look, now: &Zoned, frame: &mut Frame) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if state.is_too_small() {
        return too_small(area, look, buffer);
    }
    let mut cursor = None;
    // The log is drawn as it moves with the size of the window, and so is changed by it.
    if let View::Log(log) = &mut state.view {
        let rows = usize::from(area.height.saturating_sub(HEAD + 2));
        let (title, lines) = (log_title(log), log.rows(usize::from(area.width), rows));
        let empty = log.is_empty().then(|| nothing_printed(log));
        draw_text(&title, &empty.map_or(lines, |said| vec![said]), area, look, buffer);
    }
    let sight = Sight { state, look, now, width: area.width };
    head(&sight, area, buffer);
    match &state.view {
        View::Panes => state.places().iter().for_each(|place| pane(&sight, place, area, buffer)),
        View::Page { title, lines, top } => {
            let rows =
                lines.iter().skip(*top).flat_map(|line| text::wrapped(&printable(line), usize::from(area.width)));
            let rows: Vec<String> = rows.take(usize::from(area.height)).collect();
            draw_text(title, &rows, area, look, buffer);
        }
        View::Log(_) => {}
    }
    bottom(&sight, area, buffer, &mut cursor);
    if let Some(position) = cursor {
        frame.set_cursor_position(position);
    }
}

fn too_small(area: Rect, look: Look, buffer: &mut Buffer) {
    let said = format!(
        "This window has {} columns and {} lines; nexus top needs {} and {}. Make it larger, or q to leave: nexus prints the same once.",
        area.width, area.height, LEAST.width, LEAST.height
    );
    let words = said.split(' ').fold(vec![String::new()], |mut lines, word| {
        let room = usize::from(area.width);
        let last = lines.last_mut().filter(|line| text::width(line) + 1 + text::width(word) <= room);
        match last {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => line.push_str(&format!(" {word}")),
            None => lines.push(word.to_string()),
        }
        lines
    });
    for (row, line) in words.iter().take(usize::from(area.height)).enumerate() {
        buffer.set_stringn(0, row as u16, line, usize::from(area.width), look.strong());
    }
}

fn head(sight: &Sight, area: Rect, buffer: &mut Buffer) {
    let (look, known) = (sight.look, &sight.state.known);
    let host = known.host.as_deref().map(|host| format!(" {}", printable(host))).unwrap_or_default();
    let mut spans = vec![Span::styled(format!("nexus{host}"), look.strong())];
    let mut say = |content: String, style: Style| spans.extend([Span::raw("  "), Span::styled(content, style)]);
    if known.away {
        say(" service is away, waiting for it ".into(), look.alarm());
    }
    if !sight.state.filter.is_empty() && !matches!(sight.state.bottom, Bottom::Types) {
        say(format!("only with {:?} (Esc: all)", sight.state.filter), look.state());
    }
    match &known.status {
        None if !known.away => say("reading …".into(), look.faint()),
        None => {}
        Some(status) => {
            if let Some(standstill) = &status.standstill {
                say(printable(&standstill.title), look.alarm());
            }
            if status.disk_free_bytes < LITTLE_DISK_BYTES {
                say(format!("only {}MB of disk free, make room", status.disk_free_bytes >> 20), look.error());
            }
            say(counts(status), look.plain());
        }
    }
    let clock = sight.now.strftime("%H:%M:%S").to_string();
    let room = usize::from(area.width).saturating_sub(clock.len() + 2);
    buffer.set_line(0, 0, &clipped(&Line::from(spans), room), area.width);
    buffer.set_string(area.width.saturating_sub(clock.len() as u16), 0, &clock, look.time());
}

/// `25 jobs completed, 2 failed, 1 killed`
fn counts(status: &Status) -> String {
    let mut said = format!("{} completed", counted(status.completed, "job"));
    for (count, word) in [(status.failed, "failed"), (status.killed, "killed")] {
        if count > 0 {
            said.push_str(&format!(", {count} {word}"));
        }
    }
    said
}

/// A rule with words on it.
fn rule(words: Vec<Span<'static>>, y: u16, area: Rect, look: Look, buffer: &mut Buffer) {
    let mut spans = vec![Span::styled("──", look.faint())];
    spans.extend(words);
    let line = clipped(&Line::from(spans), usize::from(area.width));
    let used = line.width();
    buffer.set_line(area.x, y, &line, area.width);
    let rest = usize::from(area.width).saturating_sub(used);
    buffer.set_string(area.x + used as u16, y, "─".repeat(rest), look.faint());
}

fn pane(sight: &Sight, place: &Place, area: Rect, buffer: &mut Buffer) {
    let (look, state) = (sight.look, sight.state);
    let has_focus = state.focus == place.pane;
    let style = if has_focus { look.focus() } else { look.strong() };
    let name = format!(" {} {} ", place.pane.number(), place.pane.title());
    let mut words = vec![Span::styled(name, style)];
    words.extend(about(sight, place));
    rule(words, place.y, area, look, buffer);
    if place.height < 2 {
        return;
    }
    let below = Rect { x: 0, y: place.y + 1, width: area.width, height: place.height - 1 };
    if state.count(place.pane) == 0 {
        let said = nothing(sight, place.pane);
        buffer.set_stringn(
            below.x,
            below.y,
            text::fit(&said, usize::from(area.width)),
            usize::from(area.width),
            look.faint(),
        );
        return;
    }
    let list = state.list(place.pane);
    let chosen = has_focus.then(|| list.at() - list.top());
    rows(sight, place.pane, list.top(), place.rows()).draw(below, chosen, look, buffer);
}

/// The rows of a pane from one on, so many of them.
fn rows(sight: &Sight, pane: Pane, from: usize, count: usize) -> Columns {
    let known = &sight.state.known;
    match pane {
        Pane::Gpus => gpus::columns(sight, from, count),
        Pane::Running => {
            let seen: Vec<&Job> = known.active.iter().skip(from).take(count).collect();
            jobs::running(sight, &seen)
        }
        Pane::Queue => {
            let seen: Vec<&Job> = known.queue.rows().skip(from).take(count).collect();
            jobs::queue(sight, &seen)
        }
        Pane::Ended => {
            let seen: Vec<&Job> = known.ended.rows().skip(from).take(count).collect();
            jobs::ended(sight, &seen)
        }
        Pane::Sweeps => pool::sweeps(sight, from, count),
        Pane::Machines => pool::machines(sight, from, count),
    }
}

/// What stands beside the title.
fn about(sight: &Sight, place: &Place) -> Vec<Span<'static>> {
    let (look, state) = (sight.look, sight.state);
    let mut words: Vec<(String, Style)> = Vec::new();
    let filtered = !state.filter.is_empty();
    match (place.pane, &state.known.status) {
        (Pane::Queue, Some(status)) => {
            let held = if status.held > 0 { format!(", {} held", status.held) } else { String::new() };
            words.push((format!("{} pending{held}", counted(status.pending, "job")), look.queue()));
            words.push(if status.queue_paused {
                ("[PAUSED]".into(), look.state())
            } else {
                (String::new(), look.plain())
            });
        }
        (Pane::Running, Some(_)) if state.count(Pane::Running) > 0 => {
            words.push((counted(state.count(Pane::Running) as u64, "job"), look.plain()));
        }
        (Pane::Ended, _) => words.push(("the newest first".into(), look.faint())),
        _ => {}
    }
    words.extend(unseen(state, place).map(|said| (said, look.faint())));
    if filtered && matches!(place.pane, Pane::Running | Pane::Queue | Pane::Ended | Pane::Sweeps) {
        words.push(("filtered".into(), look.state()));
    }
    let some = words.into_iter().filter(|(content, _)| !content.is_empty());
    let mut spans: Vec<Span> =
        some.flat_map(|(content, style)| [Span::raw("  "), Span::styled(content, style)]).skip(1).collect();
    if !spans.is_empty() {
        spans.insert(0, Span::raw(" "));
        spans.push(Span::raw(" "));
    }
    spans
}

/// `rows 41 to 60` where not all are seen.
fn unseen(state: &State, place: &Place) -> Option<String> {
    let (count, rows) = (state.count(place.pane), place.rows());
    if rows == 0 || count <= rows {
        return None;
    }
    let first = state.list(place.pane).top();
    let more = state.known.pages(place.pane).is_some_and(|pages| pages.has_more());
    let of = if more { String::new() } else { format!(" of {count}") };
    Some(format!("rows {} to {}{of}", first + 1, (first + rows).min(count)))
}

fn nothing(sight: &Sight, pane: Pane) -> String {
    let (state, known) = (sight.state, &sight.state.known);
    let Some(status) = &known.status else { return String::new() };
    let filtered = !state.filter.is_empty();
    match pane {
        Pane::Gpus => gpus::none(&status.machines),
        Pane::Queue if !known.queue.is_known() => "reading …".into(),
        Pane::Running | Pane::Queue if filtered => format!("nothing here has {:?} in it", state.filter),
        Pane::Running => "nothing runs".into(),
        Pane::Queue => "nothing waits; nexus add \"command\" queues a job".into(),
        Pane::Sweeps | Pane::Machines | Pane::Ended => String::new(),
    }
}

/// A title and lines below it, over all panes.
fn draw_text(title: &str, lines: &[String], area: Rect, look: Look, buffer: &mut Buffer) {
    rule(vec![Span::styled(format!(" {title} "), look.focus())], HEAD, area, look, buffer);
    let rows = usize::from(area.height.saturating_sub(HEAD + 2));
    for (row, line) in lines.iter().take(rows).enumerate() {
        buffer.set_stringn(0, HEAD + 1 + row as u16, line, usize::from(area.width), look.plain());
    }
}

fn log_title(log: &Log) -> String {
    let command = first_line(&log.command);
    match &log.standing {
        Standing::Over(how) => format!("log of {}, {}", log.id, first_line(how)),
        Standing::Away => format!("log of {}, the service is away: {command}", log.id),
        Standing::Open if log.follows() => format!("log of {}, as it comes: {command}", log.id),
        Standing::Open => format!("log of {}, G goes to its end: {command}", log.id),
    }
}

fn nothing_printed(log: &Log) -> String {
    match log.standing {
        Standing::Over(_) => "it printed nothing".into(),
        _ => "nothing printed yet; it comes here".into(),
    }
}

fn bottom(sight: &Sight, area: Rect, buffer: &mut Buffer, cursor: &mut Option<(u16, u16)>) {
    let look = sight.look;
    let y = area.height.saturating_sub(1);
    let room = usize::from(area.width);
    let line = match &sight.state.bottom {
        Bottom::Says { text, is_error: true } => Line::from(Span::styled(format!("error: {text}"), look.error())),
        Bottom::Says { text, .. } => Line::from(Span::styled(text.clone(), look.good())),
        Bottom::Asks { question, .. } => Line::from(Span::styled(question.clone(), look.alarm())),
        Bottom::Types => {
            let typed = format!("filter: {}", printable(&sight.state.filter));
            let end = text::width(&typed).min(room.saturating_sub(1));
            *cursor = Some((end as u16, y));
            let help = Span::styled("   Enter keeps it, Esc drops it", look.faint());
            Line::from(vec![Span::styled(typed, look.strong()), Span::raw(" "), help])
        }
        Bottom::Keys => keys(sight, room),
    };
    buffer.set_line(0, y, &clipped(&line, room), area.width);
}

/// As many as there is room for; how to get help and how to leave always.
fn keys(sight: &Sight, room: usize) -> Line<'static> {
    let (some, always) = help::line(sight.state);
    let wide = |(key, does): &(&str, &str)| text::width(key) + 1 + text::width(does) + 2;
    let mut left = room.saturating_sub(always.iter().map(wide).sum());
    let fits = some.into_iter().take_while(|pair| {
        let fits = wide(pair) <= left;
        left = left.saturating_sub(wide(pair));
        fits
    });
    let spans = fits.chain(always).flat_map(|(key, does)| {
        [Span::styled(key, sight.look.strong()), Span::styled(format!(" {does}  "), sight.look.faint())]
    });
    Line::from(spans.collect::<Vec<_>>())
}

/// What stands in a buffer, line by line, without blanks at their ends.
#[cfg(test)]
fn lines(buffer: &Buffer) -> Vec<String> {
    let area = *buffer.area();
    let line = |y: u16| {
        let (mut text, mut skip) = (String::new(), 0);
        for x in 0..area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = buffer[(x, y)].symbol();
            skip = text::width(symbol).saturating_sub(1);
            text.push_str(symbol);
        }
        text.trim_end().to_string()
    };
    (0..area.height).map(line).collect()
}
