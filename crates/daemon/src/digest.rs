//! One number for a list of texts, or for a file: the same for the same, and hardly ever for another. Databases hold such
//! numbers, so it never changes.

use std::io::{self, Read};
use std::path::Path;

use nexus_node::own_file;
use ring::digest::{Context, SHA256, digest};

/// Of a text by itself, in letters and digits.
pub fn hex(text: &str) -> String {
    in_hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Of all bytes of a file, as `sha256sum` prints it.
pub fn of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut part, mut hash) = (own_file::open(path)?, vec![0; 64 << 10], Context::new(&SHA256));
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
    let mut list = List::default();
    parts.into_iter().for_each(|part| list.add(part.as_ref()));
    list.number()
}

/// A list of texts on its way to a number: each with its length, so that where one part ends and the next begins counts too.
#[derive(PartialEq, Eq)]
pub struct List(Vec<u8>);

/// Few lists have more bytes.
const USUAL_BYTES: usize = 256;

impl Default for List {
    fn default() -> List {
        List(Vec::with_capacity(USUAL_BYTES))
    }
}

impl List {
    pub fn add(&mut self, part: &str) {
        self.add_pieces(|pieces| pieces.extend(part.as_bytes()));
    }

    /// A part that is put together here.
    pub fn add_pieces(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let length = self.0.len();
        self.0.extend([0; size_of::<u64>()]);
        let begin = self.0.len();
        write(&mut self.0);
        let written = (self.0.len() - begin) as u64;
        self.0[length..begin].copy_from_slice(&written.to_le_bytes());
    }

    pub fn number(&self) -> i64 {
        let digest = digest(&SHA256, &self.0);
        i64::from_le_bytes(*digest.as_ref().first_chunk().expect("it has 32"))
    }
}

/// The same for one list after the other, of which many are as the one before: those cost a look.
#[derive(Default)]
pub struct OneByOne {
    last: List,
    number: i64,
    next: List,
}

impl OneByOne {
    pub fn of(&mut self, write: impl FnOnce(&mut List)) -> i64 {
        self.next.0.clear();
        write(&mut self.next);
        if self.last.0.is_empty() || self.next != self.last {
            self.number = self.next.number();
            std::mem::swap(&mut self.last, &mut self.next);
        }
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_by_one_each_has_its_own_number() {
        let mut one_by_one = OneByOne::default();
        let lists: [&[&str]; 8] = [&[], &["a", "b"], &["a", "b"], &["ab"], &["a"], &["a", "b"], &["a", "b", ""], &[]];
        for list in lists {
            let write = |to: &mut List| list.iter().for_each(|part| to.add(part));
            assert_eq!(one_by_one.of(write), of(list), "{list:?}");
        }
    }
}
