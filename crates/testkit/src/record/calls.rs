//! What each system call does to files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;

use libc::{c_long, pid_t};

use super::log::Log;
use super::{Event, Kind};

type Args = [u64; 6];

/// The longest path the kernel takes.
const PATH_BYTES: usize = 4096;

/// A call that has begun, with what is known of it only then.
pub struct Call {
    number: c_long,
    args: Args,
    paths: Vec<PathBuf>,
    sync: Option<usize>,
}

impl Call {
    /// None for a call that does nothing to files.
    pub fn begins(pid: pid_t, number: c_long, args: Args, log: &Mutex<Log>) -> Option<Call> {
        let here = libc::AT_FDCWD as u32 as u64;
        let path = |folder: u64, address: u64| resolve(pid, folder as i32, address);
        let paths = match number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename | libc::SYS_link => vec![path(here, args[0])?, path(here, args[1])?],
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_mkdir => vec![path(here, args[0])?],
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => vec![raw_path(pid, args[0])?, path(here, args[1])?],
            libc::SYS_truncate => vec![path(here, args[0])?],
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => {
                vec![path(args[0], args[1])?, path(args[2], args[3])?]
            }
            libc::SYS_unlinkat | libc::SYS_mkdirat => vec![path(args[0], args[1])?],
            libc::SYS_symlinkat => vec![raw_path(pid, args[0])?, path(args[1], args[2])?],
            number if BY_DESCRIPTOR.contains(&number) => Vec::new(),
            _ => return None,
        };
        let sync = matches!(number, libc::SYS_fsync | libc::SYS_fdatasync).then(|| {
            let mut log = log.lock().expect("no tracer panicked");
            log.open_node(&link(pid, args[0])).map(|node| log.sync_begins(node))
        });
        Some(Call { number, args, paths, sync: sync.flatten() })
    }

    /// It has succeeded.
    pub fn ends(self, pid: pid_t, result: i64, log: &mut Log) {
        let (args, count) = (self.args, result as usize);
        let node = |log: &Log, descriptor: u64| log.open_node(&link(pid, descriptor));
        match self.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open | libc::SYS_creat => opened(pid, result as u64, log),
            libc::SYS_openat | libc::SYS_openat2 => opened(pid, result as u64, log),
            libc::SYS_write => {
                if let Some(node) = node(log, args[0]) {
                    let at = place(pid, args[0], count as u64);
                    log.wrote(node, at, memory(pid, args[1], count));
                }
            }
            libc::SYS_pwrite64 => {
                if let Some(node) = node(log, args[0]) {
                    log.wrote(node, Some(args[3]), memory(pid, args[1], count));
                }
            }
            libc::SYS_writev => {
                if let Some(node) = node(log, args[0]) {
                    let at = place(pid, args[0], count as u64);
                    log.wrote(node, at, gathered(pid, args[1], args[2], count));
                }
            }
            libc::SYS_ftruncate => {
                if let Some(node) = node(log, args[0]) {
                    log.sized(node, args[1]);
                }
            }
            libc::SYS_fallocate => {
                if let Some(node) = node(log, args[0]) {
                    assert_eq!(args[1], 0, "only plain room is taken");
                    log.sized(node, log.size(node).max(args[2] + args[3]));
                }
            }
            libc::SYS_fsync | libc::SYS_fdatasync => {
                if let Some(sync) = self.sync {
                    log.push(Event::SyncEnds { sync });
                }
            }
            libc::SYS_mmap => {
                let shared = args[3] as i32 & libc::MAP_SHARED != 0 && args[2] as i32 & libc::PROT_WRITE != 0;
                if let Some(node) = node(log, args[4]).filter(|_| shared && (args[4] as i32) >= 0) {
                    let name = log.name_of(node).map(|name| name.display().to_string()).unwrap_or_default();
                    assert!(name.ends_with("-shm"), "{name} is written by memory, which cannot be recorded");
                }
            }
            number if UNSEEN.contains(&number) => {
                let known = [args[0], args[2]].into_iter().find_map(|descriptor| node(log, descriptor));
                assert!(known.is_none() || number == libc::SYS_sync_file_range, "call {number} cannot be recorded");
            }
            _ => self.named(log),
        }
    }

    /// Calls that change names.
    fn named(&self, log: &mut Log) {
        let swaps = self.number == libc::SYS_renameat2 && self.args[4] as u32 & libc::RENAME_EXCHANGE != 0;
        match (self.number, self.paths.as_slice()) {
            (libc::SYS_renameat2, [one, other]) if swaps => log.swapped(one, other),
            (libc::SYS_renameat | libc::SYS_renameat2, [from, to]) => log.moved(from, to),
            (libc::SYS_linkat, [from, to]) => log.linked(from, to),
            (libc::SYS_symlinkat, [target, path]) => log.made(path, path, Kind::Link(target.clone())),
            (libc::SYS_mkdirat, [path]) => log.made(path, path, Kind::Folder),
            (libc::SYS_unlinkat, [path]) => log.dropped(path),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_rename, [from, to]) => log.moved(from, to),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_link, [from, to]) => log.linked(from, to),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_symlink, [target, path]) => log.made(path, path, Kind::Link(target.clone())),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_mkdir, [path]) => log.made(path, path, Kind::Folder),
            #[cfg(target_arch = "x86_64")]
            (libc::SYS_unlink | libc::SYS_rmdir, [path]) => log.dropped(path),
            (number, paths) => assert!(!paths.iter().any(|path| log.has(path)), "call {number} cannot be recorded"),
        }
    }
}

/// Calls whose file is known by its descriptor.
const BY_DESCRIPTOR: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_mmap,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_sync_file_range,
];

/// Those of them that would have to be understood if they met a file that is recorded. `sync_file_range` promises
/// nothing that a power cut would keep.
const UNSEEN: &[c_long] = &[
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_sync_file_range,
];

fn link(pid: pid_t, descriptor: u64) -> PathBuf {
    format!("/proc/{pid}/fd/{}", descriptor as i32).into()
}

/// A file that was opened: it may be new, or empty from now on.
fn opened(pid: pid_t, descriptor: u64, log: &mut Log) {
    let link = link(pid, descriptor);
    let (Ok(path), Ok(found)) = (std::fs::read_link(&link), std::fs::metadata(&link)) else { return };
    if !found.is_file() {
        return;
    }
    if !log.has(&path) {
        return log.made(&path, &link, Kind::File);
    }
    if let Some(node) = log.open_node(&link).filter(|_| found.len() == 0) {
        log.sized(node, 0);
    }
}

/// Where the last write of so many bytes began; none for a file that is appended to.
fn place(pid: pid_t, descriptor: u64, count: u64) -> Option<u64> {
    let told = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", descriptor as i32)).ok()?;
    let field = |name: &str| told.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = i32::from_str_radix(field("flags:")?, 8).ok()?;
    if flags & libc::O_APPEND != 0 {
        return None;
    }
    Some(field("pos:")?.parse::<u64>().ok()? - count)
}

fn gathered(pid: pid_t, pieces: u64, number: u64, count: usize) -> Vec<u8> {
    let list = memory(pid, pieces, number as usize * size_of::<libc::iovec>());
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
    let mut bytes = Vec::with_capacity(count);
    for piece in list.chunks_exact(size_of::<libc::iovec>()) {
        let length = (word(&piece[8..]) as usize).min(count - bytes.len());
        bytes.extend(memory(pid, word(&piece[..8]), length));
    }
    bytes
}

/// Bytes of another process.
fn memory(pid: pid_t, address: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    let read = read_memory(pid, address, &mut bytes);
    assert_eq!(read, count, "process {pid} was ended while it was looked at");
    bytes
}

fn read_memory(pid: pid_t, address: u64, into: &mut [u8]) -> usize {
    if into.is_empty() {
        return 0;
    }
    let ours = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let theirs = libc::iovec { iov_base: address as *mut _, iov_len: into.len() };
    // SAFETY: ours is as long as it says; theirs is looked at by the kernel.
    let read = unsafe { libc::process_vm_readv(pid, &ours, 1, &theirs, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}

fn raw_path(pid: pid_t, address: u64) -> Option<PathBuf> {
    let mut bytes = vec![0; PATH_BYTES];
    // It may lie right before memory that is not there.
    let to_end_of_page = PATH_BYTES - address as usize % PATH_BYTES;
    let mut read = read_memory(pid, address, &mut bytes[..to_end_of_page]);
    if !bytes[..read].contains(&0) {
        read += read_memory(pid, address + to_end_of_page as u64, &mut bytes[to_end_of_page..]);
    }
    let end = bytes[..read].iter().position(|byte| *byte == 0)?;
    Some(PathBuf::from(OsStr::from_bytes(&bytes[..end])))
}

/// A path as the process means it.
fn resolve(pid: pid_t, folder: i32, address: u64) -> Option<PathBuf> {
    let path = raw_path(pid, address)?;
    let from = match folder {
        _ if path.is_absolute() => PathBuf::new(),
        libc::AT_FDCWD => std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?,
        folder => std::fs::read_link(format!("/proc/{pid}/fd/{folder}")).ok()?,
    };
    let mut plain = PathBuf::new();
    for part in from.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(Path::new(&part)),
        }
    }
    Some(plain)
}
