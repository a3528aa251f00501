//! One number for a list of texts, or for a file: the same for the same, and hardly ever for another. Databases hold such
//! numbers, so it never changes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Of a text by itself, in letters and digits.
pub fn hex(text: &str) -> String {
    in_hex(&Sha256::digest(text.as_bytes()))
}

/// Of all bytes of a file, as `sha256sum` prints it.
pub fn of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut part, mut hash) = (File::open(path)?, vec![0; 64 << 10], Sha256::new());
    loop {
        match file.read(&mut part)? {
            0 => return Ok(in_hex(&hash.finalize())),
            count => hash.update(&part[..count]),
        }
    }
}

pub fn in_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn of<T: AsRef<str>>(parts: impl IntoIterator<Item = T>) -> i64 {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        // With its length, so that where one part ends and the next begins counts too.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let first: [u8; 8] = digest[..8].try_into().expect("eight of them");
    i64::from_le_bytes(first)
}
