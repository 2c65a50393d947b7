//! Listening sockets: addresses and protocols.

use std::{fmt, net::SocketAddr, path::PathBuf};

/// A socket and its protocols. With both, one port serves REST and gRPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Address of the socket.
    pub address: Address,
    /// Its protocols.
    pub serves: Serves,
    /// Speaks TLS. Needs [`Config::tls`](super::Config::tls); a Unix socket never does.
    pub tls: bool,
    /// Its connections begin with a header of the PROXY protocol.
    pub proxied: bool,
}

/// Protocols of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serves {
    /// REST.
    pub rest: bool,
    /// gRPC.
    pub grpc: bool,
    /// `/metrics` and health without REST, to every client that connects.
    pub metrics: bool,
    /// The routes of [`Config::admin_only`](super::Config::admin_only) too, which other listeners do not have.
    pub admin: bool,
}

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP address; port 0 picks a free one.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
    /// A descriptor of this process, which another one has opened. Its socket has one of the other addresses.
    Descriptor(i32),
}

impl Address {
    /// Reports whether only programs of this machine reach it.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
            Self::Descriptor(_) => false,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Descriptor(number) => write!(f, "fd:{number}"),
        }
    }
}
