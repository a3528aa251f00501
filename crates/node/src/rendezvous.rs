//! Where viewers of a terminal meet its shim: a socket with a name but no file, so that it costs next to nothing and
//! is gone with its shim. Anybody on the machine may knock; only the same user is let in, and looks who opened.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::rand::{GetRandomFlags, getrandom};

use crate::sockets;

/// Listens under a new name, which nobody can guess and so nobody can have taken.
pub fn listen(run: &str) -> io::Result<(UnixListener, String)> {
    let name = format!("nexus-{run}-{:016x}", random_number()?);
    Ok((sockets::listen_abstract(&name)?, name))
}

/// Connects to a shim; refuses whoever else has its name.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    sockets::connect_abstract(name)
}

/// A number that nobody can guess.
pub(crate) fn random_number() -> io::Result<u64> {
    let mut chance = [0; 8];
    // Asked of the kernel itself: older C libraries have no function for it.
    let got = getrandom(&mut chance, GetRandomFlags::empty())?;
    match got == chance.len() {
        true => Ok(u64::from_ne_bytes(chance)),
        false => Err(io::Error::other("the kernel gave too little randomness")),
    }
}
