//! Opens connections.

use crate::{
    Address, Mode, Options, Target, blocking,
    failure::{Failure, Result, from_io},
    socket::{AsyncSocket, Socket, Stream},
};
use socket2::{Domain, SockAddr, Socket as RawSocket, Type};
use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    path::Path,
    time::Duration,
};
use tokio::net::{TcpStream, UnixStream};

/// Opens the connections of a client.
pub(crate) struct Connector {
    mode: Mode,
    target: Target,
    timeout: Duration,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
}

impl Connector {
    /// Reads the certificates, if any. Does not connect.
    ///
    /// # Errors
    /// `InvalidInput` for certificates that cannot be read, `Unsupported` for a build without TLS.
    pub(crate) fn new(mode: Mode, target: &Target, options: &Options) -> penstock_core::Result<Self> {
        #[cfg(not(feature = "tls"))]
        if target.tls {
            let error = "this build has no TLS, expected http:// or grpc://";
            return Err(penstock_core::Error::new(penstock_core::Kind::Unsupported, error));
        }
        Ok(Self {
            mode,
            target: target.clone(),
            timeout: options.connect_timeout,
            #[cfg(feature = "tls")]
            tls: target.tls.then(|| crate::tls::Tls::new(target, &options.tls)).transpose()?,
        })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Result<Stream> {
        let connected = match self.mode {
            Mode::Blocking => self.stream().await,
            Mode::Async => match tokio::time::timeout(self.timeout, self.stream()).await {
                Ok(connected) => connected,
                Err(_) => Err(too_slow()),
            },
        };
        connected.map_err(|error| {
            let what = format!("cannot connect to {}", self.target);
            Failure::not_sent(from_io(&what, &error))
        })
    }

    async fn stream(&self) -> io::Result<Stream> {
        let socket = match (&self.target.address, self.mode) {
            (Address::Tcp(host, port), Mode::Blocking) => self.blocking_tcp(host, *port)?,
            (Address::Unix(path), Mode::Blocking) => self.blocking_unix(path)?,
            (Address::Tcp(host, port), Mode::Async) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Socket::Async(AsyncSocket::Tcp(stream))
            }
            (Address::Unix(path), Mode::Async) => {
                let stream = UnixStream::connect(path).await?;
                Socket::Async(AsyncSocket::Unix(stream))
            }
        };
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return tls.connect(socket).await;
        }
        Ok(Stream::Plain(socket))
    }

    fn blocking_tcp(&self, host: &str, port: u16) -> io::Result<Socket> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match self.blocking_address(address) {
                Ok(socket) => return Ok(socket),
                Err(error) if error.kind() == io::ErrorKind::TimedOut && blocking::time_left().is_err() => {
                    return Err(error);
                }
                Err(error) if error.kind() == io::ErrorKind::TimedOut => last = too_slow(),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn blocking_address(&self, address: SocketAddr) -> io::Result<Socket> {
        let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.connect_timeout(&address.into(), self.connect_timeout()?)?;
        socket.set_tcp_nodelay(true)?;
        Ok(Socket::blocking(socket))
    }

    fn blocking_unix(&self, path: &Path) -> io::Result<Socket> {
        let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.connect_timeout(&SockAddr::unix(path)?, self.connect_timeout()?)?;
        Ok(Socket::blocking(socket))
    }

    fn connect_timeout(&self) -> io::Result<Duration> {
        Ok(blocking::time_left()?.map_or(self.timeout, |left| left.min(self.timeout)))
    }
}

fn too_slow() -> io::Error {
    io::Error::other("it does not answer")
}
