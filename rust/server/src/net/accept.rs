//! Acceptance of connections, on the first I/O thread for all.

use super::listen::{Bound, BoundSocket, SocketFile};
use std::{
    io,
    net::{SocketAddr, TcpStream as StdTcpStream},
    os::unix::net::UnixStream as StdUnixStream,
    time::Duration,
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::{mpsc, watch},
};

/// An accepted socket, the index of its listener, and the address of its client; `None` for Unix sockets.
pub(super) type Accepted = (Socket, usize, Option<SocketAddr>);

pub(super) enum Socket {
    Tcp(StdTcpStream),
    Unix(StdUnixStream),
}

/// Sockets on which connections are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intake {
    /// Those that this process has bound: models load.
    Loading,
    /// All.
    Open,
    /// None: another process accepts on them.
    HandedOver,
}

/// Inboxes of the I/O threads.
type Inboxes = [mpsc::UnboundedSender<Accepted>];

/// Accepts on all sockets, each with a task of its thread.
pub(super) fn accept_all(bound: Vec<Bound>, inboxes: &Inboxes, intake: &watch::Receiver<Intake>) {
    for (index, bound) in bound.into_iter().enumerate() {
        let acceptor = match bound.socket {
            BoundSocket::Tcp(listener) => TcpListener::from_std(listener).map(Acceptor::Tcp),
            BoundSocket::Unix(listener, file) => {
                UnixListener::from_std(listener).map(|listener| Acceptor::Unix(listener, file))
            }
        };
        if let Ok(acceptor) = acceptor {
            tokio::spawn(accept(acceptor, index, inboxes.to_vec(), intake.clone(), bound.is_inherited));
        }
    }
}

enum Acceptor {
    Tcp(TcpListener),
    // The file is removed when accepting ends.
    Unix(UnixListener, Option<SocketFile>),
}

impl Acceptor {
    /// Returns the next socket, and the address of its client; `None` for Unix sockets.
    async fn next(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (socket, peer) = listener.accept().await?;
                socket.set_nodelay(true)?;
                (Socket::Tcp(socket.into_std()?), Some(peer))
            }
            Self::Unix(listener, _) => (Socket::Unix(listener.accept().await?.0.into_std()?), None),
        })
    }

    /// Sets whether the path of a Unix socket is this server's, and not that of another one.
    fn set_own(&mut self, is_own: bool) {
        if let Self::Unix(_, Some(file)) = self {
            file.set_own(is_own);
        }
    }
}

/// Accepts connections, and distributes them round-robin.
async fn accept(
    mut acceptor: Acceptor,
    listener: usize,
    inboxes: Vec<mpsc::UnboundedSender<Accepted>>,
    mut intake: watch::Receiver<Intake>,
    is_inherited: bool,
) {
    if is_inherited {
        if intake.wait_for(|intake| *intake != Intake::Loading).await.is_err() {
            return;
        }
        acceptor.set_own(true);
    }
    let mut turn = 0;
    loop {
        // While the server drains, probes still connect to read its readiness. The end of the thread's runtime ends
        // this task.
        let accepted = tokio::select! {
            accepted = acceptor.next() => accepted,
            handed_over = intake.wait_for(|intake| *intake == Intake::HandedOver) => {
                acceptor.set_own(handed_over.is_err());
                return;
            }
        };
        match accepted {
            Ok((socket, peer)) => {
                // A thread that ended has closed its inbox; the server is closing.
                let _ = inboxes[turn % inboxes.len()].send((socket, listener, peer));
                turn += 1;
            }
            // Out of descriptors, for example: a retry may succeed.
            Err(error) if error.kind() != io::ErrorKind::ConnectionAborted => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(_) => {}
        }
    }
}
