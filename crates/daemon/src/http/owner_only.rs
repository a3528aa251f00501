//! The service's Unix socket: answers only its own user, and goes on elsewhere when the socket had to be made again.

use std::io;
use std::os::unix::net::UnixListener as BlockingListener;
use std::time::Duration;

use axum::serve::Listener;
use nexus_node::sockets;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::UnboundedReceiver;

/// Out of file descriptors, say: some are let go before the next try.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Accepts only connections of the service's own user.
pub struct OwnerOnly {
    listener: UnixListener,
    /// Brings a listener in place of the one before, whose socket vanished.
    moved: UnboundedReceiver<BlockingListener>,
}

impl OwnerOnly {
    /// Neither blocks. Called in the runtime.
    pub fn new(listener: BlockingListener, moved: UnboundedReceiver<BlockingListener>) -> io::Result<OwnerOnly> {
        Ok(OwnerOnly { listener: UnixListener::from_std(listener)?, moved })
    }
}

impl Listener for OwnerOnly {
    type Io = UnixStream;
    type Addr = ();

    async fn accept(&mut self) -> (UnixStream, ()) {
        loop {
            tokio::select! {
                Some(listener) = self.moved.recv() => {
                    // One that the runtime cannot take changes nothing: connections that are open go on.
                    if let Ok(listener) = UnixListener::from_std(listener) {
                        self.listener = listener;
                    }
                }
                accepted = accept_own(&self.listener) => match accepted {
                    Ok(Some(stream)) => return (stream, ()),
                    Ok(None) => {}
                    Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
                },
            }
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

/// None for another user: the socket is 0600, so only root gets as far as this, and is turned away.
#[expect(clippy::disallowed_methods, reason = "waits in the runtime, and asks for the peer at once")]
async fn accept_own(listener: &UnixListener) -> io::Result<Option<UnixStream>> {
    let (stream, _) = listener.accept().await?;
    Ok(sockets::is_own(&stream).then_some(stream))
}
