//! What is typed at a terminal that is attached: Ctrl+A is for nexus, all else for the job.

const CTRL_A: u8 = 1;
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;

/// What was typed so far and not yet decided.
#[derive(Debug, Default)]
pub struct Keys {
    after_prefix: bool,
}

/// What came of some keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// For the job.
    pub input: Vec<u8>,
    /// Ctrl+A D: what follows it is not for the job.
    pub detach: bool,
}

impl Keys {
    pub fn push(&mut self, keys: &[u8]) -> Typed {
        let mut typed = Typed::default();
        for key in keys {
            match (std::mem::take(&mut self.after_prefix), *key) {
                (false, CTRL_A) => self.after_prefix = true,
                (false, key) => typed.input.push(key),
                (true, b'd' | b'D' | CTRL_D) => {
                    typed.detach = true;
                    return typed;
                }
                (true, b'a' | b'A') => typed.input.push(CTRL_A),
                (true, key) => typed.input.extend([CTRL_A, key]),
            }
        }
        typed
    }
}

/// Whether keys end a view in which nobody can be typed to: Ctrl+C, too.
pub fn leaves(keys: &mut Keys, typed: &[u8]) -> bool {
    typed.contains(&CTRL_C) || keys.push(typed).detach
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(parts: &[&str]) -> (String, bool) {
        let mut keys = Keys::default();
        let (mut input, mut detach) = (Vec::new(), false);
        for part in parts {
            let typed = keys.push(part.as_bytes());
            input.extend(typed.input);
            detach |= typed.detach;
        }
        (String::from_utf8(input).unwrap(), detach)
    }

    #[test]
    fn the_prefix_detaches_or_sends_itself() {
        for (parts, input, detach) in [
            (&["ls\r"][..], "ls\r", false),
            (&["\x01d"], "", true),
            (&["x\x01", "D"], "x", true),
            (&["\x01\x04y"], "", true),
            (&["\x01a\x01A"], "\x01\x01", false),
            (&["\x01k", "d"], "\x01kd", false),
            (&["\x01\x01d"], "\x01\x01d", false),
            (&["\x03"], "\x03", false),
        ] {
            assert_eq!(typed(parts), (input.to_string(), detach), "{parts:?}");
        }
    }

    #[test]
    fn a_view_is_left_by_control_c_too() {
        assert!(leaves(&mut Keys::default(), b"\x03") && leaves(&mut Keys::default(), b"\x01d"));
        assert!(!leaves(&mut Keys::default(), b"q"));
    }
}
