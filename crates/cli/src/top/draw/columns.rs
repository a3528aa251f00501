//! Rows in columns on the screen. A column without content is left out, as is one that can be spared where room is short; the
//! last has what is left.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};

use super::look::Look;
use crate::render::text::first_line;
use crate::top::text;

/// Blanks between two columns.
const GAP: usize = 2;

/// What the last column has at least, while another can be spared.
const LEAST_LAST: usize = 16;

pub struct Columns {
    columns: Vec<Column>,
    least_last: usize,
}

pub struct Column {
    head: String,
    cells: Vec<Line<'static>>,
    most: usize,
    right: bool,
    /// How early it goes where room is short; none = never.
    spare: Option<u8>,
}

/// One text in one colour, on one line.
pub fn cell(content: &str, style: Style) -> Line<'static> {
    Line::from(Span::styled(first_line(content), style))
}

impl Column {
    pub fn new(head: &str, cells: Vec<Line<'static>>) -> Column {
        Column { head: head.into(), cells, most: usize::MAX, right: false, spare: None }
    }

    /// As wide as this, and no wider.
    pub fn most(self, most: usize) -> Column {
        Column { most, ..self }
    }

    /// Numbers end below each other.
    pub fn right(self) -> Column {
        Column { right: true, ..self }
    }

    /// It goes where room is short, and of several the one with the smallest number.
    pub fn spare(self, turn: u8) -> Column {
        Column { spare: Some(turn), ..self }
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell.width() == 0)
    }

    fn width(&self) -> usize {
        self.whole_width().min(self.most)
    }

    /// Where nothing is cut.
    fn whole_width(&self) -> usize {
        let cells = self.cells.iter().map(Line::width).max().unwrap_or(0);
        cells.max(text::width(&self.head))
    }
}

impl Columns {
    pub fn new(columns: Vec<Column>) -> Columns {
        Columns { columns, least_last: LEAST_LAST }
    }

    /// What stands in the last column is short.
    pub fn least_last(self, least_last: usize) -> Columns {
        Columns { least_last, ..self }
    }

    /// Heads on the first line, rows below. `chosen` is one of the rows.
    pub fn draw(mut self, area: Rect, chosen: Option<usize>, look: Look, buffer: &mut Buffer) {
        self.make_room(usize::from(area.width));
        let widths = self.widths(usize::from(area.width));
        let rows = self.columns.first().map_or(0, |column| column.cells.len());
        let heads: Vec<Line> = self.columns.iter().map(|column| cell(&column.head, look.faint())).collect();
        self.draw_row(&heads, &widths, area.x, area.y, buffer);
        for row in 0..rows.min(usize::from(area.height.saturating_sub(1))) {
            let is_chosen = chosen == Some(row);
            let cells: Vec<Line> = self.columns.iter().map(|column| column.cells[row].clone()).collect();
            let y = area.y + 1 + row as u16;
            self.draw_row(&cells, &widths, area.x, y, buffer);
            if is_chosen {
                // In one colour: what is marked is to be read, not to be judged.
                let line = Rect { y, height: 1, ..area };
                buffer.set_style(line, Style::reset());
                buffer.set_style(line, look.chosen());
            }
        }
    }

    fn make_room(&mut self, columns: usize) {
        let last = self.columns.len().saturating_sub(1);
        let mut place = 0;
        self.columns.retain(|column| {
            place += 1;
            place > last || !column.is_empty()
        });
        while self.last_width(columns) < self.least_last.min(self.columns.last().map_or(0, Column::width)) {
            let spared = self.columns.iter().enumerate().filter_map(|(at, column)| Some((column.spare?, at)));
            let Some((_, at)) = spared.min() else { break };
            self.columns.remove(at);
        }
    }

    fn last_width(&self, columns: usize) -> usize {
        let others = self.columns.len().saturating_sub(1);
        let used: usize = self.columns.iter().take(others).map(|column| column.width() + GAP).sum();
        columns.saturating_sub(used)
    }

    fn widths(&self, columns: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(Column::width).collect();
        let Some((last, others)) = widths.split_last_mut() else { return widths };
        // What the last does not need, those have that would be cut.
        let mut left = self.last_width(columns);
        for (width, column) in others.iter_mut().zip(&self.columns) {
            let more = column.whole_width().saturating_sub(*width).min(left.saturating_sub(*last));
            *width += more;
            left -= more;
        }
        *last = left;
        widths
    }

    fn draw_row(&self, cells: &[Line], widths: &[usize], x: u16, y: u16, buffer: &mut Buffer) {
        let mut at = usize::from(x);
        for ((cell, width), column) in cells.iter().zip(widths).zip(&self.columns) {
            let shown = clipped(cell, *width);
            let blanks = if column.right { width - shown.width().min(*width) } else { 0 };
            let (Ok(from), Ok(room)) = (u16::try_from(at + blanks), u16::try_from(*width)) else { return };
            buffer.set_line(from, y, &shown, room);
            at += width + GAP;
        }
    }
}

/// At most so wide, with a mark if something is missing.
pub fn clipped(line: &Line<'_>, columns: usize) -> Line<'static> {
    let mut left = columns;
    let is_whole = line.width() <= columns;
    let mut spans = Vec::new();
    for span in &line.spans {
        let content = match is_whole {
            true => span.content.to_string(),
            // The mark is put where the first letter is missing.
            false if text::width(&span.content) < left => span.content.to_string(),
            false => text::fit(&format!("{} ", span.content), left),
        };
        left = left.saturating_sub(text::width(&content));
        spans.push(Span::styled(content, span.style));
        if left == 0 {
            break;
        }
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(width: u16, columns: Vec<Column>) -> Vec<String> {
        let area = Rect::new(0, 0, width, 4);
        let mut buffer = Buffer::empty(area);
        Columns::new(columns).draw(area, None, Look { on: false }, &mut buffer);
        super::super::lines(&buffer)
    }

    fn column(head: &str, cells: [&str; 2]) -> Column {
        let plain = Style::new();
        Column::new(head, cells.map(|content| cell(content, plain)).to_vec())
    }

    #[test]
    fn columns_stand_below_each_other_with_wide_letters_too() {
        let columns = || {
            vec![
                column("ID", ["abc", "日本語"]),
                column("NAME", ["", ""]),
                column("TIME", ["5s", "2h 15m"]).right(),
                column("COMMAND", ["python train.py", "echo\nline"]),
            ]
        };
        let lines = drawn(40, columns());
        assert_eq!(lines[0], "ID        TIME  COMMAND");
        assert_eq!(lines[1], "abc         5s  python train.py");
        assert_eq!(lines[2], "日本語  2h 15m  echo …");
        assert_eq!(drawn(26, columns())[1], "abc         5s  python tr…");
    }

    #[test]
    fn what_can_be_spared_goes_first() {
        let columns = || {
            vec![
                column("ID", ["abc", "def"]),
                column("PROJECT", ["nlp", "vision"]).spare(1),
                column("PID", ["12", "345"]).right().spare(2),
                column("COMMAND", ["a command of some length", "b"]),
            ]
        };
        assert_eq!(drawn(50, columns())[1], "abc  nlp       12  a command of some length");
        assert_eq!(drawn(28, columns())[1], "abc   12  a command of some…");
        assert_eq!(drawn(22, columns())[1], "abc  a command of som…");
    }

    #[test]
    fn room_that_the_last_does_not_need_is_not_wasted() {
        let columns = |last| vec![column("WHY", ["a long reason", "b"]).most(6), column("COMMAND", [last, ""])];
        assert_eq!(drawn(30, columns("exit 1"))[1], "a long reason  exit 1");
        assert_eq!(drawn(30, columns("a command of some length"))[1], "a lon…  a command of some len…");
    }

    #[test]
    fn several_colours_are_cut_as_one() {
        let line = Line::from(vec![Span::raw("abc "), Span::raw("paused")]);
        assert_eq!(clipped(&line, 20).to_string(), "abc paused");
        assert_eq!(clipped(&line, 7).to_string(), "abc pa…");
        assert_eq!(clipped(&line, 3).to_string(), "ab…");
    }
}
