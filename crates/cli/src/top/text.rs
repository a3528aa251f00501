//! Text as wide as it is on the screen: cut, filled up, and broken into lines.

use ratatui_core::style::Style;
use ratatui_core::text::Span;

pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// At most so many columns, the last with a mark if something is missing.
pub fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_string();
    }
    let mut cut = start(text, columns.saturating_sub(1)).to_string();
    if columns > 0 {
        cut.push('…');
    }
    cut
}

/// As much of the beginning as there is room for.
fn start(text: &str, columns: usize) -> &str {
    let (mut used, mut end) = (0, 0);
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        used += width(grapheme.symbol);
        if used > columns {
            break;
        }
        end += grapheme.symbol.len();
    }
    // A control character is no grapheme of a span; texts here have none.
    text.get(..end).unwrap_or_default()
}

/// Lines of at most this width.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut lines = Vec::new();
    let mut rest = text;
    while width(rest) > columns {
        let line = start(rest, columns);
        if line.is_empty() {
            break;
        }
        lines.push(line.to_string());
        rest = &rest[line.len()..];
    }
    lines.push(rest.to_string());
    lines
}

/// What a program meant for a terminal, as plain text: colours and moves of the cursor are left out.
pub fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        if c != '\x1b' {
            shown.push(c);
            continue;
        }
        match letters.next() {
            Some('[') => drop(letters.find(|c| ('@'..='~').contains(c))),
            // A title or a link: up to its bell, or to the escape of its end, whose backslash goes too.
            Some(']') if letters.find(|c| matches!(c, '\x07' | '\x1b')) == Some('\x1b') => drop(letters.next()),
            _ => {}
        }
    }
    crate::render::text::printable(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_count_as_they_are_shown() {
        assert_eq!((width("abc"), width("日本"), width("é")), (3, 4, 1));
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!((fit("abc", 0), fit("abc", 1)), (String::new(), "…".into()));
    }

    #[test]
    fn lines_break_at_the_edge() {
        assert_eq!(wrapped("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("日本", 0), ["日", "本"]);
    }

    #[test]
    fn what_moves_the_cursor_is_left_out() {
        assert_eq!(plain("\x1b[31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;http://a\x1b\\y\x1b[A"), "red xy");
        assert_eq!(plain("a\x07b\tc"), "a\\x07b    c");
    }
}
