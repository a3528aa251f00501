//! Text of others, made safe to show: control characters and what turns or hides letters become visible, so that a terminal
//! shows them and obeys none.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal would not show this character but do something, or show nothing: control characters (C0, DEL, C1),
/// bidirectional overrides, isolates and marks, separators of lines, and characters without width. Joiners (U+200C, U+200D)
/// are none of them: scripts and emoji need them.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `\x1b`, `\u202e`, `\u{e0041}`. From U+0080 to U+FFFF it is an escape of JSON too.
fn escape(c: char, shown: &mut String) {
    let number = u32::from(c);
    let written = match number {
        0..0x80 => write!(shown, "\\x{number:02x}"),
        0x80..0x1_0000 => write!(shown, "\\u{number:04x}"),
        _ => write!(shown, "\\u{{{number:x}}}"),
    };
    written.expect("a string takes all");
}

/// Newlines stay, a tab is four blanks.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push(c),
            '\t' => shown.push_str("    "),
            c if is_hidden(c) => escape(c, &mut shown),
            c => shown.push(c),
        }
    }
    shown
}

/// A text of several lines in one, as in service.log. Tabs stay.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_hidden(c) && c != '\t') {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push(c),
            c if is_hidden(c) => escape(c, &mut shown),
            c => shown.push(c),
        }
    }
    shown.into()
}

/// Text that is about to go to a terminal. Newlines, tabs and the colours of nexus stay: `\x1b[0m`, `\x1b[31m` to `37m`,
/// `\x1b[91m` to `97m`. They move nothing and hide nothing. Black is not among them: it hides text on a black background.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    let is_fine = |c: char| !is_hidden(c) || matches!(c, '\n' | '\t');
    if text.chars().all(is_fine) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(|c| !is_fine(c)) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match color(rest) {
            Some(color) => {
                shown.push_str(color);
                color.len()
            }
            None => {
                let c = rest.chars().next().expect("one was found");
                escape(c, &mut shown);
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    shown.push_str(rest);
    shown.into()
}

/// The sequence at the begin of a text, if it is one of those.
fn color(text: &str) -> Option<&str> {
    let inside = text.strip_prefix("\x1b[")?;
    let length = match inside.as_bytes() {
        [b'0', b'm', ..] => 2,
        [b'3' | b'9', b'1'..=b'7', b'm', ..] => 3,
        _ => return None,
    };
    Some(&text[.."\x1b[".len() + length])
}

/// Bytes of a stream that are about to go to a terminal, however they are cut. Without colours of their own.
#[derive(Default)]
pub struct Stream {
    /// The begin of a letter whose end is yet to come.
    begun: Vec<u8>,
}

impl Stream {
    /// As much as can be shown so far.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.begun.extend_from_slice(bytes);
        let whole = match self.begun.utf8_chunks().last() {
            // At most three bytes at the end may become a letter.
            Some(last) if could_go_on(last.invalid()) => self.begun.len() - last.invalid().len(),
            _ => self.begun.len(),
        };
        let rest = self.begun.split_off(whole);
        let text = std::mem::replace(&mut self.begun, rest);
        let text = String::from_utf8_lossy(&text);
        let mut shown = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '\n' | '\t' => shown.push(c),
                c if is_hidden(c) => escape(c, &mut shown),
                c => shown.push(c),
            }
        }
        shown
    }
}

/// Whether bytes that are no letter are the begin of one.
fn could_go_on(bytes: &[u8]) -> bool {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 0,
    };
    bytes.len() < length
}

/// JSON that is about to go to a terminal: characters that it may have as they are, and a terminal would obey, are escaped as
/// JSON escapes them.
pub fn json_for_terminal(json: &str) -> Cow<'_, str> {
    let is_bare = |c: char| is_hidden(c) && c != '\n';
    if !json.contains(is_bare) {
        return json.into();
    }
    let mut shown = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        match is_bare(c) {
            true => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(shown, "\\u{unit:04x}").expect("a string takes all");
                }
            }
            false => shown.push(c),
        }
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that must not reach a terminal.
    fn hostile() -> impl Iterator<Item = char> {
        let bidi = ['\u{61c}', '\u{200e}', '\u{200f}'].into_iter();
        let controls = ('\0'..='\u{1f}').chain('\u{7f}'..='\u{9f}');
        controls.chain(bidi).chain('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}')
    }

    #[test]
    fn nothing_hostile_comes_through() {
        for c in hostile() {
            let text = format!("a{c}b");
            assert!(is_hidden(c), "{c:?}");
            let kept = |c: char| matches!(c, '\n' | '\t');
            let through = |shown: &str| shown.chars().any(|c| is_hidden(c) && !kept(c));
            assert!(!through(&printable(&text)) && !through(&for_terminal(&text)), "{c:?}");
            assert!(!one_line(&text).contains(['\n', '\r', c].as_slice()) || c == '\t', "{c:?}");
            assert!(!through(&Stream::default().push(text.as_bytes())), "{c:?}");
            let json = serde_json::to_string(&text).unwrap();
            let shown = json_for_terminal(&json);
            assert!(!through(&shown), "{c:?}");
            assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text, "it means the same");
        }
        assert_eq!(printable("a\x1b[2Jb\r\t"), "a\\x1b[2Jb\\x0d    ");
        assert_eq!(printable("\u{202e}\u{85}\u{e0041}"), "\\u202e\\u0085\\u{e0041}");
        assert_eq!(json_for_terminal("\"\u{e0041}\"\n"), "\"\\udb40\\udc41\"\n");
        assert_eq!(one_line("a\tb\r\nc\x1b"), "a\tb\\r\\nc\\x1b");
    }

    #[test]
    fn letters_of_all_scripts_stay() {
        let text = "日本 é e\u{301} שלום नि\u{200d}क 👩\u{200d}👩\u{200d}👧 ✔\u{fe0f}";
        assert_eq!((printable(text), for_terminal(text), one_line(text)), (text.into(), text.into(), text.into()));
        for size in 1..8 {
            let mut stream = Stream::default();
            let shown: String = text.as_bytes().chunks(size).map(|piece| stream.push(piece)).collect();
            assert_eq!(shown, text, "in pieces of {size}");
        }
        let mut stream = Stream::default();
        let pieces = [&b"a\xff\xe2\x80"[..], b"\xae", b"\xe2\x28b"].map(|piece| stream.push(piece));
        assert_eq!(pieces, ["a\u{fffd}", "\\u202e", "\u{fffd}(b"]);
    }

    #[test]
    fn colours_of_nexus_stay_and_other_sequences_do_not() {
        let painted = "\x1b[31merror:\x1b[0m a\tb\n\x1b[97mc\x1b[0m";
        assert_eq!(for_terminal(painted), painted);
        for (text, shown) in [
            ("\x1b[8mhidden", "\\x1b[8mhidden"),
            ("\x1b[31;8m", "\\x1b[31;8m"),
            ("\x1b[38m", "\\x1b[38m"),
            ("\x1b[30mblack", "\\x1b[30mblack"),
            ("\x1b[90mgrey", "\\x1b[90mgrey"),
            ("\x1b[3", "\\x1b[3"),
            ("\x1b", "\\x1b"),
            ("\x1b]0;title\x07\x1b[31mx", "\\x1b]0;title\\x07\x1b[31mx"),
        ] {
            assert_eq!(for_terminal(text), shown);
        }
    }
}
