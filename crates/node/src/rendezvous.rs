//! Where viewers of a terminal meet its shim: a socket with a name but no file, so that it costs next to nothing and
//! is gone with its shim. Anybody on the machine may knock; only the same user is let in, and looks who opened.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

/// Listens under a new name, which nobody can guess and so nobody can have taken.
pub fn listen(run: &str) -> io::Result<(UnixListener, String)> {
    let mut chance = [0; 8];
    // Asked of the kernel itself: older C libraries have no function for it.
    let got = getrandom(&mut chance, GetRandomFlags::empty())?;
    if got != chance.len() {
        return Err(io::Error::other("the kernel gave too little randomness"));
    }
    let name = format!("nexus-{run}-{:016x}", u64::from_ne_bytes(chance));
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok((listener, name))
}

/// Connects to a shim; refuses whoever else has its name.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
    match is_own(&stream) {
        true => Ok(stream),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there")),
    }
}

/// Whether the other end is a process of this user.
pub fn is_own(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}
