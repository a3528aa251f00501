//! The nexus that is sent to machines: the very one that runs here.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::digest::in_hex;

/// This process's own program, even after somebody replaced the file.
const SELF: &str = "/proc/self/exe";

/// Letters of the hash that tell builds of one version apart.
const IN_NAME: usize = 12;

#[derive(Clone, Debug)]
pub struct Binary {
    pub path: PathBuf,
    pub size: u64,
    /// SHA-256 in hex.
    pub hash: String,
    /// `nexus-0.1.0-3f2a…`: another build is another file.
    pub name: String,
}

impl Binary {
    /// Read once, when the first machine is called.
    pub fn own() -> io::Result<&'static Binary> {
        static OWN: OnceLock<Binary> = OnceLock::new();
        if let Some(own) = OWN.get() {
            return Ok(own);
        }
        let (size, hash) = hashed(Path::new(SELF))?;
        let name = format!("nexus-{}-{}", env!("CARGO_PKG_VERSION"), &hash[..IN_NAME]);
        Ok(OWN.get_or_init(|| Binary { path: SELF.into(), size, hash, name }))
    }
}

/// Whether this process is the program that was sent, whole.
pub fn is_own(hash: &str) -> io::Result<bool> {
    Ok(hashed(Path::new(SELF))?.1 == hash)
}

fn hashed(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut size, mut piece) = (Sha256::new(), 0, vec![0; 256 << 10]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((size, in_hex(&hash.finalize()))),
            length => {
                hash.update(&piece[..length]);
                size += length as u64;
            }
        }
    }
}
