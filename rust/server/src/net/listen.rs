//! Binding of listeners, before models are loaded, so that a port in use is reported at once.

use super::inherited;
use crate::{
    settings::{Address, Inherited, Listener, Serves},
    state::AppError,
};
use penstock_tls::TlsError;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::{
    fs::Permissions,
    io,
    net::{SocketAddr, TcpListener},
    os::fd::AsRawFd as _,
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// Connections that the kernel queues before they are accepted.
const BACKLOG: i32 = 4096;

/// Permissions of a private socket.
const OWNER_ONLY: u32 = 0o600;

/// Silence on a connection after which the kernel asks whether its client is still there, the interval of further
/// questions, and their number: a client that vanished is found after 50 seconds.
pub(super) const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10)).with_retries(2);

/// Error of a server's start, in one line.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address that cannot be bound.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// The address as configured.
        address: String,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// A certificate that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Keys that cannot be read.
    #[error("keys_file: {0}")]
    Keys(String),
    /// An audit log that cannot be opened or continued.
    #[error("audit_log: {0}")]
    Audit(String),
    /// A thread that could not be started.
    #[error("cannot start an I/O thread: {0}")]
    Thread(io::Error),
}

impl From<AppError> for StartError {
    fn from(error: AppError) -> Self {
        match error {
            AppError::Keys(problem) => Self::Keys(problem),
            AppError::Audit(problem) => Self::Audit(problem),
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) socket: BoundSocket,
    pub(crate) address: Address,
    pub(crate) serves: Serves,
    pub(crate) tls: bool,
    /// Connections begin with a header of the PROXY protocol.
    pub(crate) proxied: bool,
    /// Another process has opened it.
    pub(crate) is_inherited: bool,
}

#[derive(Debug)]
pub(crate) enum BoundSocket {
    Tcp(TcpListener),
    /// The path is of this server, unless the socket is of another program.
    Unix(UnixListener, Option<SocketFile>),
}

impl BoundSocket {
    pub(crate) fn descriptor(&self) -> i32 {
        match self {
            Self::Tcp(listener) => listener.as_raw_fd(),
            Self::Unix(listener, _) => listener.as_raw_fd(),
        }
    }
}

/// Guard that removes a Unix socket's path, while it is this server's.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    is_own: bool,
}

impl SocketFile {
    /// Guards the path of a socket that this server has bound.
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), is_own: true }
    }

    /// Guards the path of a socket of another server, once that has handed it over.
    pub(super) fn of_other(path: &Path) -> Self {
        Self { path: path.to_owned(), is_own: false }
    }

    /// Sets whether the path is this server's, and not that of another one.
    pub(super) fn set_own(&mut self, is_own: bool) {
        self.is_own = is_own;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_own {
            // It may have been removed already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Binds all addresses and listens, or takes the sockets of another process.
pub(crate) fn bind_all(listeners: &[Listener], inherited: &Inherited) -> Result<Vec<Bound>, StartError> {
    let mut handed_over = inherited.handed_over.clone();
    listeners
        .iter()
        .map(|listener| {
            // Each socket is taken once: several listeners may have port 0.
            let found = handed_over.iter().position(|(address, _)| *address == listener.address);
            bind(listener, found.map(|index| handed_over.remove(index).1), inherited)
        })
        .collect()
}

/// Binds one address and listens, or takes the socket of another process.
fn bind(listener: &Listener, handed_over: Option<i32>, inherited: &Inherited) -> Result<Bound, StartError> {
    let bound = match (&listener.address, handed_over) {
        (Address::Unix(path), Some(number)) => inherited::take(number, Some(path), inherited.duplicate),
        (_, Some(number)) => inherited::take(number, None, inherited.duplicate),
        (Address::Descriptor(number), None) => inherited::take(*number, None, inherited.duplicate),
        (Address::Tcp(address), None) => tcp(*address),
        (Address::Unix(path), None) => unix(path, listener.serves.admin),
    };
    let (socket, address) =
        bound.map_err(|reason| StartError::Bind { address: listener.address.to_string(), reason })?;
    let serves = listener.serves;
    let tls = listener.tls && matches!(address, Address::Tcp(_));
    let is_inherited = handed_over.is_some() || matches!(listener.address, Address::Descriptor(_));
    Ok(Bound { socket, address, serves, tls, proxied: listener.proxied, is_inherited })
}

fn tcp(address: SocketAddr) -> io::Result<(BoundSocket, Address)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted server must not wait for connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted connections inherit it.
    socket.set_tcp_keepalive(&KEEPALIVE)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener: TcpListener = socket.into();
    let address = listener.local_addr()?;
    Ok((BoundSocket::Tcp(listener), Address::Tcp(address)))
}

/// Binds a Unix socket; a private one is for the user of this process only.
fn unix(path: &Path, is_private: bool) -> io::Result<(BoundSocket, Address)> {
    // A socket that refuses connections is left over from a killed server.
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    if is_private {
        // Before it listens, nobody can connect.
        std::fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY))?;
    }
    socket.listen(BACKLOG)?;
    let listener: UnixListener = socket.into();
    Ok((BoundSocket::Unix(listener, Some(SocketFile::new(path))), Address::Unix(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;
    use std::net::TcpStream;

    #[test]
    fn accepted_connections_inherit_the_keep_alive() {
        let (BoundSocket::Tcp(listener), Address::Tcp(address)) = tcp("127.0.0.1:0".parse().unwrap()).unwrap() else {
            panic!("a TCP listener")
        };
        listener.set_nonblocking(false).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let accepted = SockRef::from(&accepted);
        assert!(accepted.keepalive().unwrap());
        let times = (accepted.tcp_keepalive_time().unwrap(), accepted.tcp_keepalive_interval().unwrap());
        assert_eq!(times, (Duration::from_secs(30), Duration::from_secs(10)));
        assert_eq!(accepted.tcp_keepalive_retries().unwrap(), 2);
    }
}
