//! One number for a list of texts, or for a file: the same for the same, and hardly ever for another. Databases hold such
//! numbers, so it never changes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ring::digest::{Context, SHA256, digest};

/// Of a text by itself, in letters and digits.
pub fn hex(text: &str) -> String {
    in_hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Of all bytes of a file, as `sha256sum` prints it.
pub fn of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut part, mut hash) = (File::open(path)?, vec![0; 64 << 10], Context::new(&SHA256));
    loop {
        match file.read(&mut part)? {
            0 => return Ok(in_hex(hash.finish().as_ref())),
            count => hash.update(&part[..count]),
        }
    }
}

pub fn in_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn of<T: AsRef<str>>(parts: impl IntoIterator<Item = T>) -> i64 {
    let mut text = Vec::with_capacity(256);
    write(&mut text, parts);
    of_written(&text)
}

/// The same for one list after the other, of which many are as the one before: those cost a look.
#[derive(Default)]
pub struct OneByOne {
    last: Vec<u8>,
    number: i64,
    next: Vec<u8>,
}

impl OneByOne {
    pub fn of<T: AsRef<str>>(&mut self, parts: impl IntoIterator<Item = T>) -> i64 {
        self.next.clear();
        write(&mut self.next, parts);
        if self.last.is_empty() || self.next != self.last {
            self.number = of_written(&self.next);
            std::mem::swap(&mut self.last, &mut self.next);
        }
        self.number
    }
}

/// Each with its length, so that where one part ends and the next begins counts too.
fn write<T: AsRef<str>>(text: &mut Vec<u8>, parts: impl IntoIterator<Item = T>) {
    for part in parts {
        let part = part.as_ref();
        text.extend((part.len() as u64).to_le_bytes());
        text.extend(part.as_bytes());
    }
}

fn of_written(text: &[u8]) -> i64 {
    let digest = digest(&SHA256, text);
    i64::from_le_bytes(*digest.as_ref().first_chunk().expect("it has 32"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_by_one_each_has_its_own_number() {
        let mut one_by_one = OneByOne::default();
        let lists: [&[&str]; 8] = [&[], &["a", "b"], &["a", "b"], &["ab"], &["a"], &["a", "b"], &["a", "b", ""], &[]];
        for list in lists {
            assert_eq!(one_by_one.of(list), of(list), "{list:?}");
        }
    }
}
