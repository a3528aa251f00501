//! Puts the web page into the binary, as far as it was made.

#![allow(clippy::disallowed_methods, reason = "tests make and read what they like")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    // A folder that is not there cannot be watched, and would have this done anew each time.
    let _ = std::fs::create_dir(&dist);
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    find(&dist, "", &mut files);
    files.sort();
    let mut list = String::from("&[");
    for (name, path) in files {
        let path = path.canonicalize().expect("a file that was just found");
        write!(list, "({name:?}, include_bytes!({path:?}) as &[u8]),").expect("text takes all");
    }
    list.push(']');
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo says where")).join("page.rs");
    std::fs::write(out, list).expect("cargo's folder can be written");
}

fn find(folder: &Path, before: &str, files: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = format!("{before}{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => find(&entry.path(), &format!("{name}/"), files),
            false => files.push((name, entry.path())),
        }
    }
}
