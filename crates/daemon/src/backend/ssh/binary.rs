//! The nexus that is sent to machines: the very one that runs here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nexus_node::line::copy_name;

use crate::digest;

/// This process's own program, even after somebody replaced the file.
const SELF: &str = "/proc/self/exe";

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
        let path = Path::new(SELF);
        let (size, hash) = (std::fs::metadata(path)?.len(), digest::of_file(path)?);
        let name = copy_name(env!("CARGO_PKG_VERSION"), &hash);
        Ok(OWN.get_or_init(|| Binary { path: SELF.into(), size, hash, name }))
    }
}
