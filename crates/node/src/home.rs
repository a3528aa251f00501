//! Finds the service's home from this process's environment and the file system it lies on.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nexus_api::paths::{Home, Surroundings};

use crate::socket_folder;
use crate::system_file;

#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error("cannot tell where nexus keeps its files: neither NEXUS_HOME nor HOME is set")]
    NoHome,
    #[error("HOME has to be an absolute path, and is {}", home.display())]
    RelativeHome { home: PathBuf },
}

/// Magic numbers of file systems that other machines see too, from `linux/magic.h` and their own sources.
const NETWORK: [u32; 12] = [
    0x6969,      // NFS
    0x517b,      // SMB
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x5346_414f, // AFS (OpenAFS)
    0x6b41_4653, // AFS (kernel)
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
    0x00c3_6400, // Ceph
    0x013a_60b7, // Panasas
    0x7461_636f, // OCFS2
];

const FUSE: u32 = 0x6573_5546;

/// FUSE is local or not, as its program is.
const NETWORK_FUSE: [&str; 8] = [
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph-fuse",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.gcsfuse",
    "fuse.juicefs",
    "fuse.davfs",
];

/// The home that the environment names. `NEXUS_NETWORK_HOME=1` takes any place for a network file system.
pub fn find_home() -> Result<Home, HomeError> {
    find_at(std::env::var_os("NEXUS_HOME"))
}

/// The home in this folder: of a node, or of a demonstration. On a network file system, which other machines see too, in a folder of
/// this machine in it.
pub fn node_home(folder: &Path) -> Result<Home, HomeError> {
    find_at(Some(folder.into()))
}

/// The home of a node of a cluster: this very folder, which the compute nodes see too.
pub fn shared_home(folder: &Path) -> Result<Home, HomeError> {
    find_around(&around(Some(folder.into())), |_| false)
}

fn find_at(nexus_home: Option<OsString>) -> Result<Home, HomeError> {
    let forced = std::env::var_os("NEXUS_NETWORK_HOME").is_some_and(|value| value == "1");
    find_around(&around(nexus_home), |path| forced || is_network(path))
}

fn find_around(around: &Surroundings, is_network: impl Fn(&Path) -> bool) -> Result<Home, HomeError> {
    Home::find(around, is_network).map(socket_folder::find).ok_or_else(|| {
        match around.home.clone().filter(|home| !home.is_empty()) {
            Some(home) => HomeError::RelativeHome { home: home.into() },
            None => HomeError::NoHome,
        }
    })
}

fn around(nexus_home: Option<OsString>) -> Surroundings {
    Surroundings {
        nexus_home,
        home: std::env::var_os("HOME"),
        runtime_dir: std::env::var_os("XDG_RUNTIME_DIR"),
        hostname: hostname(),
    }
}

/// Whether a folder, or the nearest parent that exists, lies on a network file system.
pub fn is_network(path: &Path) -> bool {
    path.ancestors().find_map(|place| {
        let kind = rustix::fs::statfs(place).ok()?.f_type as u32;
        Some(NETWORK.contains(&kind) || kind == FUSE && is_network_fuse(place))
    }) == Some(true)
}

fn is_network_fuse(place: &Path) -> bool {
    let Ok(device) = fs::metadata(place).map(|metadata| metadata.dev()) else { return false };
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let mounts = system_file::read_text("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| {
        let kind = line.split_once(" - ").and_then(|(_, kind)| kind.split(' ').next());
        line.split(' ').nth(2) == Some(&number) && kind.is_some_and(|kind| NETWORK_FUSE.contains(&kind))
    })
}

/// This machine's name as the kernel has it.
pub fn hostname() -> String {
    let text = system_file::read_text("/proc/sys/kernel/hostname").unwrap_or_default();
    if text.trim().is_empty() { "localhost".to_owned() } else { text.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_places_are_local_even_when_they_do_not_exist() {
        assert!(!is_network(Path::new("/proc")));
        assert!(!is_network(Path::new("/proc/no/such/place")));
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(!hostname().is_empty() && !hostname().contains('\n'));
    }
}
