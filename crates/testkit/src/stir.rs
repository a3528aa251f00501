//! Throws the seeds of `fuzz`, and what chance makes of them, at a reader: the cheap way to what `fuzz/run` does at length.
//! The chance is the same each time.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use crate::Chance;

/// What readers stumble over.
const STONES: &[&[u8]] = &[
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\xc3\xa9",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r\n",
    b"\"",
    b"'",
    b"\\",
    b",",
    b";",
    b"=",
    b":",
    b".",
    b"..",
    b"-",
    b"-1",
    b"0",
    b"00000000",
    b"18446744073709551615",
    b"4294967296",
    b"1e308",
    b"1e-400",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[",
    b"null",
    b"true",
    b"\\u0000",
    b"(",
    b")",
    b"**",
    b"#",
    b" ",
];

/// All files of these folders of the repository, and so many things made of them, must hold. What does not is printed.
pub fn stir(folders: &[&str], count: u64, holds: impl Fn(&[u8])) {
    let seeds: Vec<Vec<u8>> = folders.iter().flat_map(|folder| files(folder)).collect();
    let mut chance = Chance::from_seed(10);
    let stirred = (0..count).map(|_| stirred(&seeds, &mut chance));
    for bytes in seeds.iter().cloned().chain(stirred.collect::<Vec<_>>()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| holds(&bytes))) {
            eprintln!("it does not hold for b\"{}\"", bytes.escape_ascii());
            resume_unwind(panic);
        }
    }
}

/// In the order of their names.
fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let listed = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = listed.map(|entry| entry.expect("a folder can be listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths.iter().map(|path| std::fs::read(path).expect("a seed can be read")).collect()
}

fn stirred(seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = chance.pick(seeds);
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len() as u64 + 1) as usize;
        let end = bytes.len().min(at + chance.below(16) as usize);
        match chance.below(6) {
            0 => drop(bytes.drain(at..end)),
            1 => bytes.truncate(at),
            2 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            3 => {
                let other = chance.pick(seeds);
                let from = chance.below(other.len() as u64 + 1) as usize;
                bytes.splice(at.., other[from..].iter().copied());
            }
            4 if at < bytes.len() => bytes[at] = chance.below(256) as u8,
            _ => drop(bytes.splice(at..at, chance.pick(STONES).iter().copied())),
        }
    }
    bytes
}
