//! A command on a terminal of its own, of a given size.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use crate::{Nexus, Output};

impl Nexus {
    /// Runs on a terminal of this size, with `typed` as what the user types; stdout holds all that it showed.
    pub fn on_terminal<S: AsRef<std::ffi::OsStr>>(&self, size: (u16, u16), typed: &str, args: &[S]) -> Output {
        let (mut ours, theirs) = open(size);
        let mut command = self.command(args);
        let end = || theirs.try_clone().expect("a descriptor is left");
        command.env("TERM", "xterm-256color").stdin(end()).stdout(end()).stderr(end());
        let mut child = command.spawn().expect("the binary runs");
        // Its end is seen only when nobody else has the terminal open.
        drop((command, theirs));
        ours.write_all(typed.as_bytes()).expect("a terminal takes what is typed");
        let (mut shown, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = ours.read(&mut part) {
            shown.extend_from_slice(&part[..count]);
        }
        let status = child.wait().expect("a child can be waited for");
        let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
        let done = std::process::Output { status, stdout: shown, stderr: Vec::new() };
        Output::new(format!("nexus {} ({}x{})", words.join(" "), size.0, size.1), done)
    }
}

pub(crate) fn open((columns, rows): (u16, u16)) -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let none = std::ptr::null_mut();
    // SAFETY: the pointers are to memory of ours or null, and the descriptors are nobody else's.
    unsafe {
        assert_eq!(libc::openpty(&mut ours, &mut theirs, none, none.cast(), &size), 0, "no terminal to be had");
        for descriptor in [ours, theirs] {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
        (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs))
    }
}
