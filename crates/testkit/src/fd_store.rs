//! A stand-in for systemd's file descriptor store: keeps the socket that a service sends, and starts the next one with it.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// As systemd does it: descriptors from 3 on, and their names, for this process alone.
const START: &str =
    r#"exec 3<&0 </dev/null; (LISTEN_PID=$BASHPID LISTEN_FDS=1 LISTEN_FDNAMES=nexus-web exec "$0" __service) &"#;

pub struct FdStore {
    socket: UnixDatagram,
    path: PathBuf,
    /// The socket that is stored now.
    pub stored: Option<OwnedFd>,
}

impl FdStore {
    /// Its socket lies in this folder: `NOTIFY_SOCKET` of the service.
    #[expect(clippy::disallowed_methods, reason = "plays the service manager")]
    pub fn new(folder: &Path) -> FdStore {
        let path = folder.join("notify.sock");
        let socket = UnixDatagram::bind(&path).expect("a socket can be made");
        socket.set_nonblocking(true).expect("a socket can be set up");
        FdStore { socket, path, stored: None }
    }

    pub fn path(&self) -> &str {
        self.path.to_str().expect("a plain path")
    }

    /// Takes in what was sent until now.
    pub fn update(&mut self) {
        let mut text = [0; 256];
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = RecvAncillaryBuffer::new(&mut room);
        let parts = &mut [IoSliceMut::new(&mut text)];
        while let Ok(received) = recvmsg(&self.socket, parts, &mut beside, RecvFlags::empty()) {
            let said = String::from_utf8_lossy(&parts[0][..received.bytes]).into_owned();
            assert!(said.lines().any(|line| line == "FDNAME=nexus-web"), "{said}");
            if said.lines().any(|line| line == "FDSTOREREMOVE=1") {
                self.stored = None;
            }
            for message in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    self.stored = fds.last();
                }
            }
        }
    }

    /// Has the program become a service that is passed the stored socket. `like` has its environment.
    pub fn start(&self, program: &Path, like: &Command) {
        let stored = self.stored.as_ref().expect("a stored socket");
        let stored = stored.as_fd().try_clone_to_owned().expect("a descriptor");
        let mut command = Command::new("bash");
        command.args(["-c", START]).arg(program).env_clear();
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::from(stored)).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(command.status().expect("bash can be started").success());
    }
}
