//! Puts a carriage return before each line feed, which the terminals of jobs leave out so that logs hold the bytes
//! as written. Not while a program has the alternate screen: there it moves the cursor by itself.

/// Modes that switch to the alternate screen and back.
const ALTERNATE: [&[u8]; 3] = [b"47", b"1047", b"1049"];

/// No sequence of ours is longer.
const LONGEST_SEQUENCE: usize = 32;

/// What was seen of the stream so far.
#[derive(Debug, Default)]
pub struct Carriage {
    place: Place,
    alternate: bool,
    after_return: bool,
}

#[derive(Debug, Default)]
enum Place {
    #[default]
    Text,
    Escape,
    /// Behind `ESC [`: what followed.
    Sequence(Vec<u8>),
}

impl Carriage {
    /// The next bytes as a raw terminal needs them.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(bytes.len() + bytes.len() / 16);
        for byte in bytes {
            if *byte == b'\n' && !self.alternate && !self.after_return {
                shown.push(b'\r');
            }
            shown.push(*byte);
            self.after_return = *byte == b'\r';
            self.step(*byte);
        }
        shown
    }

    /// Whether a program has the alternate screen now.
    pub fn is_alternate(&self) -> bool {
        self.alternate
    }

    fn step(&mut self, byte: u8) {
        self.place = match (std::mem::take(&mut self.place), byte) {
            (_, 0x1b) => Place::Escape,
            (Place::Escape, b'[') => Place::Sequence(Vec::new()),
            (Place::Sequence(mut content), b'0'..=b'9' | b';' | b'?') if content.len() < LONGEST_SEQUENCE => {
                content.push(byte);
                Place::Sequence(content)
            }
            (Place::Sequence(content), b'h' | b'l') => {
                let modes = content.strip_prefix(b"?").unwrap_or_default();
                if modes.split(|byte| *byte == b';').any(|mode| ALTERNATE.contains(&mode)) {
                    self.alternate = byte == b'h';
                }
                Place::Text
            }
            _ => Place::Text,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut carriage = Carriage::default();
        let whole = Carriage::default().push(text.as_bytes());
        let by_bytes: Vec<u8> = text.bytes().flat_map(|byte| carriage.push(&[byte])).collect();
        assert_eq!(whole, by_bytes, "the same however it arrives");
        String::from_utf8(whole).unwrap()
    }

    #[test]
    fn lines_begin_at_the_left() {
        assert_eq!(shown("a\nb\r\nc\n\n"), "a\r\nb\r\nc\r\n\r\n");
        assert_eq!(shown("\x1b[1;31mred\x1b[0m\n"), "\x1b[1;31mred\x1b[0m\r\n");
    }

    #[test]
    fn the_alternate_screen_is_left_alone() {
        assert_eq!(shown("\x1b[?1049h\n\x1b[?25l\n\x1b[?1049l\n"), "\x1b[?1049h\n\x1b[?25l\n\x1b[?1049l\r\n");
        assert_eq!(shown("\x1b[?25;47h\n\x1b[?47l\n"), "\x1b[?25;47h\n\x1b[?47l\r\n");
        assert_eq!(shown("\x1b[1049h\n"), "\x1b[1049h\r\n", "no private mode, no screen");
    }
}
