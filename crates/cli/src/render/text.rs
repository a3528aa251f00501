//! Text of others made safe to show: nothing is lost, nothing moves the cursor.

pub use nexus_api::shown::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Several lines, those after the first behind `columns` blanks.
pub fn hanging(text: &str, columns: usize) -> String {
    printable(text).trim_end_matches('\n').replace('\n', &format!("\n{}", " ".repeat(columns)))
}

/// The first line, marked if there are more.
pub fn first_line(text: &str) -> String {
    let shown = printable(text.trim_end_matches('\n'));
    match shown.split_once('\n') {
        Some((first, _)) => format!("{first} …"),
        None => shown,
    }
}

/// How many columns a terminal gives it: two for a character of East Asia, none for an accent that stands on another.
pub fn width(text: &str) -> usize {
    text.width()
}

/// At most `most` columns, the last a mark if some are missing.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_string();
    }
    let mut left = most.saturating_sub(1);
    let fits = |c: &char| {
        let columns = c.width().unwrap_or(0);
        let fits = columns <= left;
        left = left.saturating_sub(columns);
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// `1 job`, `3 jobs`
pub fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}

/// `3.5G`, whole MiB below that.
pub fn memory(mib: u64) -> String {
    match mib {
        0..1024 => format!("{mib}M"),
        _ if mib % 1024 < 52 => format!("{}G", mib / 1024),
        _ => format!("{:.1}G", mib as f64 / 1024.0),
    }
}

/// The same of bytes: `3.5G`, `12M`, `5K`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{}K", bytes >> 10),
        _ => memory(bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_go_between_characters() {
        let long = "日".repeat(300);
        assert_eq!(cut(&long, 4), "日…");
        assert_eq!(cut(&long, 5), "日日…");
        assert_eq!(cut("a日b", 4), "a日b");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(first_line(&long), long);
    }

    #[test]
    fn lines_hang_and_escapes_show() {
        assert_eq!(hanging("a\nb\n", 2), "a\n  b");
        assert_eq!(printable("a\x1b[2Jb\r"), "a\\x1b[2Jb\\x0d");
        assert_eq!(printable("a\u{202e}b\u{200b}"), "a\\u202eb\\u200b");
        assert_eq!(first_line("a\nb"), "a …");
    }

    #[test]
    fn counts_have_their_plural() {
        assert_eq!(counted(0, "job"), "0 jobs");
        assert_eq!(counted(1, "job"), "1 job");
    }
}
