//! What is typed and clicked, made of the bytes that a terminal sends.

/// A sequence that does not end within this is nothing that a terminal sends.
const LONGEST: usize = 64;

const ESCAPE: u8 = 0x1b;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Char(char),
    /// Ctrl with this letter.
    Control(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Column and row count from 0.
    Click {
        column: u16,
        row: u16,
    },
    Wheel {
        column: u16,
        row: u16,
        down: bool,
    },
}

/// Bytes that came and are not the whole of anything yet.
#[derive(Debug, Default)]
pub struct Inputs {
    unread: Vec<u8>,
}

/// What stands first in some bytes.
enum First {
    /// So many bytes mean this, or nothing to us.
    Whole(usize, Option<Input>),
    /// More must come.
    Part,
}

impl Inputs {
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.unread.extend_from_slice(bytes);
        let mut found = Vec::new();
        while !self.unread.is_empty() {
            match first(&self.unread) {
                First::Whole(length, input) => {
                    self.unread.drain(..length);
                    found.extend(input);
                }
                First::Part if self.unread.len() > LONGEST => self.unread.clear(),
                First::Part => break,
            }
        }
        found
    }

    /// Whether something has begun that may yet go on: the key Esc looks like the beginning of many others.
    pub fn is_amid(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Nothing followed.
    pub fn settle(&mut self) -> Option<Input> {
        let was = std::mem::take(&mut self.unread);
        (was.first() == Some(&ESCAPE)).then_some(Input::Escape)
    }
}

fn first(bytes: &[u8]) -> First {
    match bytes {
        [ESCAPE] => First::Part,
        [ESCAPE, b'[', rest @ ..] => sequence(rest),
        [ESCAPE, b'O'] => First::Part,
        [ESCAPE, b'O', letter, ..] => First::Whole(3, by_letter(*letter)),
        [ESCAPE, ..] => First::Whole(1, Some(Input::Escape)),
        [byte, ..] => match byte {
            b'\r' | b'\n' => First::Whole(1, Some(Input::Enter)),
            b'\t' => First::Whole(1, Some(Input::Tab)),
            0x7f | 0x08 => First::Whole(1, Some(Input::Backspace)),
            1..=0x1a => First::Whole(1, Some(Input::Control(char::from(byte + b'a' - 1)))),
            0 | 0x1c..=0x1f => First::Whole(1, None),
            _ => character(bytes),
        },
        [] => First::Part,
    }
}

fn character(bytes: &[u8]) -> First {
    let length = match bytes[0] {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => return First::Whole(1, None),
    };
    match bytes.get(..length) {
        None => First::Part,
        Some(whole) => match std::str::from_utf8(whole).ok().and_then(|text| text.chars().next()) {
            Some(c) => First::Whole(length, Some(Input::Char(c))),
            None => First::Whole(1, None),
        },
    }
}

/// What follows `ESC [`: parameters, and a byte that ends them.
fn sequence(rest: &[u8]) -> First {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else { return First::Part };
    let parameters = std::str::from_utf8(&rest[..end]).unwrap_or_default();
    let input = match (parameters.strip_prefix('<'), rest[end]) {
        (Some(mouse), letter @ (b'M' | b'm')) => clicked(mouse, letter == b'M'),
        (Some(_), _) => None,
        (None, b'~') => match parameters.split(';').next().unwrap_or_default() {
            "1" | "7" => Some(Input::Home),
            "4" | "8" => Some(Input::End),
            "5" => Some(Input::PageUp),
            "6" => Some(Input::PageDown),
            _ => None,
        },
        (None, letter) => by_letter(letter),
    };
    First::Whole(2 + end + 1, input)
}

fn by_letter(letter: u8) -> Option<Input> {
    Some(match letter {
        b'A' => Input::Up,
        b'B' => Input::Down,
        b'C' => Input::Right,
        b'D' => Input::Left,
        b'H' => Input::Home,
        b'F' => Input::End,
        b'M' => Input::Enter,
        b'Z' => Input::BackTab,
        _ => return None,
    })
}

/// `0;12;3`: the button, the column, the row, from 1.
fn clicked(mouse: &str, pressed: bool) -> Option<Input> {
    let mut numbers = mouse.split(';').map(|number| number.parse::<u16>().ok());
    let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let (column, row) = (column.saturating_sub(1), row.saturating_sub(1));
    match button {
        0 if pressed => Some(Input::Click { column, row }),
        64 | 65 => Some(Input::Wheel { column, row, down: button == 65 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parts: &[&[u8]]) -> Vec<Input> {
        let mut inputs = Inputs::default();
        let mut found: Vec<Input> = parts.iter().flat_map(|part| inputs.push(part)).collect();
        found.extend(inputs.settle());
        found
    }

    #[test]
    fn keys_of_terminals_are_known() {
        for (bytes, input) in [
            (&b"j"[..], Input::Char('j')),
            ("é".as_bytes(), Input::Char('é')),
            ("日".as_bytes(), Input::Char('日')),
            (b"\x03", Input::Control('c')),
            (b"\r", Input::Enter),
            (b"\t", Input::Tab),
            (b"\x1b[Z", Input::BackTab),
            (b"\x7f", Input::Backspace),
            (b"\x1b", Input::Escape),
            (b"\x1b[A", Input::Up),
            (b"\x1bOB", Input::Down),
            (b"\x1b[1;5C", Input::Right),
            (b"\x1b[5~", Input::PageUp),
            (b"\x1b[6~", Input::PageDown),
            (b"\x1b[H", Input::Home),
            (b"\x1b[4~", Input::End),
            (b"\x1b[<0;12;3M", Input::Click { column: 11, row: 2 }),
            (b"\x1b[<64;1;1M", Input::Wheel { column: 0, row: 0, down: false }),
            (b"\x1b[<65;80;24M", Input::Wheel { column: 79, row: 23, down: true }),
        ] {
            assert_eq!(read(&[bytes]), [input], "{bytes:?}");
            // However it is cut.
            let bytes: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(read(&bytes), [input], "{bytes:?}");
        }
    }

    #[test]
    fn what_means_nothing_does_nothing() {
        for bytes in [&b"\x1b[<0;1;1m"[..], b"\x1b[200~", b"\x1b[?1;2c", b"\x1b[<0;;1M", b"\xff", b"\0"] {
            assert_eq!(read(&[bytes]), [], "{bytes:?}");
        }
        let endless = [b"\x1b[".as_slice(), &[b'1'; 100]].concat();
        assert_eq!(read(&[&endless, b"j"]), [Input::Char('j')], "it is given up");
    }

    #[test]
    fn several_come_at_once() {
        assert_eq!(read(&[b"jk\x1b[B/x"]).len(), 5);
        assert_eq!(read(&[b"\x1bq"]), [Input::Escape, Input::Char('q')]);
        assert_eq!(read(&[b"\x1b\x1b[A"]), [Input::Escape, Input::Up]);
    }
}
