//! Progress bars as a terminal would leave them: of a line written over and over the last version stays.

/// A line without end is passed on in parts of this size.
const LONGEST_LINE: usize = 64 * 1024;

#[derive(Default)]
pub struct Collapse {
    line: Vec<u8>,
    returned: bool,
}

impl Collapse {
    /// Takes bytes as they come, gives lines as they are finished.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut finished = Vec::with_capacity(bytes.len());
        for byte in bytes {
            match byte {
                b'\r' => self.returned = true,
                b'\n' => {
                    finished.append(&mut self.line);
                    finished.push(b'\n');
                    self.returned = false;
                }
                other => {
                    if self.returned {
                        self.line.clear();
                        self.returned = false;
                    } else if self.line.len() >= LONGEST_LINE {
                        finished.append(&mut self.line);
                    }
                    self.line.push(*other);
                }
            }
        }
        finished
    }

    /// What stands on the last line so far.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// What stands on the last line.
    pub fn finish(self) -> Vec<u8> {
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collapsed(parts: &[&str]) -> String {
        let mut collapse = Collapse::default();
        let mut all: Vec<u8> = parts.iter().flat_map(|part| collapse.push(part.as_bytes())).collect();
        all.extend(collapse.finish());
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn the_last_version_of_a_line_stays() {
        assert_eq!(collapsed(&["10%\r50%\r100%\ndone\n"]), "100%\ndone\n");
        assert_eq!(collapsed(&["a\r\nb\r", "\nc"]), "a\nb\nc");
        assert_eq!(collapsed(&["10%\r", "20%\r"]), "20%");
        assert_eq!(collapsed(&["é\r", "ü\n\n"]), "ü\n\n");
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut collapse = Collapse::default();
        let out = collapse.push(&vec![b'x'; 200_000]);
        assert_eq!(out.len() + collapse.finish().len(), 200_000);
    }
}
