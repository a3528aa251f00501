//! Aligned columns. A column without content is left out; the last one is never padded, cut or wrapped,
//! so that a command is always whole and can be copied.

use super::paint::Paint;
use super::text;

type Colour = fn(Paint, &str) -> String;

pub struct Table {
    columns: Vec<Column>,
}

struct Column {
    head: &'static str,
    cells: Vec<String>,
    colour: Colour,
}

impl Table {
    pub fn new() -> Table {
        Table { columns: Vec::new() }
    }

    /// Adds a column; all have the same number of cells.
    pub fn column(mut self, head: &'static str, colour: Colour, cells: impl IntoIterator<Item = String>) -> Table {
        let cells: Vec<String> = cells.into_iter().map(|cell| text::printable(&cell)).collect();
        assert!(self.columns.first().is_none_or(|first| first.cells.len() == cells.len()), "uneven table");
        self.columns.push(Column { head, cells, colour });
        self
    }

    pub fn render(mut self, with_heads: bool, paint: Paint) -> String {
        self.columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
        let rows = self.columns.first().map_or(0, |column| column.cells.len());
        // Once for all rows: a queue may be very long.
        let widths: Vec<usize> = self.columns.iter().map(|column| column.width(with_heads)).collect();
        let mut shown = String::new();
        if with_heads && rows > 0 {
            let heads: Vec<(&str, Colour)> =
                self.columns.iter().map(|column| (column.head, Paint::plain as Colour)).collect();
            push_row(&heads, &widths, paint, &mut shown);
        }
        for row in 0..rows {
            let cells: Vec<(&str, Colour)> =
                self.columns.iter().map(|column| (column.cells[row].as_str(), column.colour)).collect();
            push_row(&cells, &widths, paint, &mut shown);
        }
        shown
    }
}

fn push_row(cells: &[(&str, Colour)], widths: &[usize], paint: Paint, shown: &mut String) {
    let mut indent = 0;
    for (width, (cell, colour)) in widths.iter().zip(cells).take(cells.len() - 1) {
        let cell = text::first_line(cell);
        let blanks = " ".repeat(width.saturating_sub(text::width(&cell)) + 2);
        shown.push_str(&colour(paint, &cell));
        shown.push_str(&blanks);
        indent += width + 2;
    }
    if let Some((last, colour)) = cells.last() {
        shown.push_str(&colour(paint, &text::hanging(last, indent)));
    }
    let end = shown.trim_end_matches(' ').len();
    shown.truncate(end);
    shown.push('\n');
}

impl Column {
    fn width(&self, with_heads: bool) -> usize {
        let head = if with_heads { text::width(self.head) } else { 0 };
        let cells = self.cells.iter().map(|cell| text::width(&text::first_line(cell)));
        cells.max().unwrap_or(0).max(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paint::PLAIN;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn columns_stand_below_each_other() {
        let table = || {
            Table::new()
                .column("ID", Paint::id, words(&["abc", "öäüx"]))
                .column("NAME", Paint::plain, words(&["", ""]))
                .column("COMMAND", Paint::command, words(&["a\nb", "c"]))
        };
        assert_eq!(table().render(true, PLAIN), "ID    COMMAND\nabc   a\n      b\nöäüx  c\n");
        assert_eq!(table().render(false, PLAIN), "abc   a\n      b\nöäüx  c\n");
        let wide = Table::new().column("NAME", Paint::plain, words(&["日本", "e\u{301}a"])).column(
            "COMMAND",
            Paint::command,
            words(&["a", "b"]),
        );
        assert_eq!(wide.render(false, PLAIN), "日本  a\ne\u{301}a    b\n");
    }

    #[test]
    fn no_rows_no_text() {
        assert_eq!(Table::new().column("ID", Paint::id, words(&[])).render(true, PLAIN), "");
    }
}
