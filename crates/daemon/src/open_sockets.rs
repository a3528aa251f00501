//! The sockets of the running service: watched, and made again when they vanish. Their folder may be another then, since logind removes
//! `XDG_RUNTIME_DIR` at the last logout: `service.lock` says where they are.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc;

use nexus_api::paths::Home;
use nexus_node::socket_folder::{self, CurrentFolder};
use nexus_node::socket_watch::{self, BoundFile};
use nexus_node::{ReportsPlace, sockets};
use tokio::sync::mpsc::UnboundedSender;

use crate::engine::Message;
use crate::home::Signer;
use crate::service_log::Line;

pub struct OpenSockets {
    pub home: Home,
    pub folder: CurrentFolder,
    pub reports: ReportsPlace,
    /// To whoever answers clients.
    pub moved: UnboundedSender<UnixListener>,
    pub signer: Signer,
    pub engine: mpsc::Sender<Message>,
}

impl OpenSockets {
    /// On a thread of its own, for as long as this process lives.
    pub fn keep(self) -> io::Result<()> {
        let made = bound(&self.home)?;
        let mut told = None;
        socket_watch::keep(made, move || {
            let remade = self.remake();
            let line = match &remade {
                Ok(home) => Line::warn(format!("Sockets vanished; new ones are in {}", home.socket_dir().display())),
                Err(error) => Line::error(format!("Sockets vanished and cannot be made again: {error}")),
            };
            if told.as_ref() != Some(&line.text) || remade.is_ok() {
                told = Some(line.text.clone());
                // The engine is gone: the service is going down.
                let _ = self.engine.send(Message::Log(vec![line]));
            }
            remade.and_then(|home| bound(&home))
        })
    }

    /// First what shims report on: a service that goes down has closed that, and makes no other socket.
    fn remake(&self) -> io::Result<Home> {
        let home = socket_folder::make(&self.home)?;
        self.reports.listen_at(&home.reports())?;
        let listener = sockets::listen_at(&home.socket())?;
        self.folder.set(home.socket_dir());
        self.signer.sign(&home.socket());
        // Nobody answers clients any more: the service is going down.
        let _ = self.moved.send(listener);
        Ok(home)
    }
}

fn bound(home: &Home) -> io::Result<Vec<BoundFile>> {
    [home.socket(), home.reports()].iter().map(|path: &PathBuf| BoundFile::at(path)).collect()
}
