//! A socket that either blocks the calling thread or never does.

mod blocking;
pub(crate) mod idle;
mod nonblocking;

pub(crate) use nonblocking::AsyncSocket;

use self::{
    blocking::BlockingSocket,
    idle::{Idle, idle},
};
#[cfg(feature = "tls")]
use crate::blocking::with_one_read;
use socket2::Socket as RawSocket;
use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Blocking.
    Blocking(BlockingSocket),
    /// Nonblocking.
    Async(AsyncSocket),
}

impl Socket {
    /// Creates a blocking socket.
    pub(crate) fn blocking(socket: RawSocket) -> Self {
        Self::Blocking(BlockingSocket::new(socket))
    }

    /// Checks an idle connection without waiting.
    pub(crate) fn idle(&self) -> Idle {
        match self {
            Self::Blocking(blocking) => idle(blocking.raw()),
            Self::Async(shared) => shared.idle(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Blocking(blocking) => blocking.read(buffer),
            Self::Async(shared) => shared.read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Blocking(blocking) => blocking.write(slices),
            Self::Async(shared) => shared.write(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.get_mut() {
            Self::Blocking(blocking) => blocking.shutdown(),
            Self::Async(shared) => shared.shutdown(),
        })
    }
}

/// A connection: a socket, perhaps encrypted.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Unencrypted.
    Plain(Socket),
    /// Encrypted.
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<Socket>>),
}

impl Stream {
    /// Returns the socket itself, if it is blocking.
    pub(crate) fn raw(&self) -> Option<Arc<RawSocket>> {
        let socket = match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().0,
        };
        match socket {
            Socket::Blocking(blocking) => Some(Arc::clone(blocking.raw())),
            Socket::Async(_) => None,
        }
    }

    /// As [`Socket::idle`]; an encrypted connection may have bytes to read at any time.
    pub(crate) fn idle(&self) -> Idle {
        match self {
            Self::Plain(socket) => socket.idle(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match stream.get_ref().0.idle() {
                Idle::Readable => Idle::Quiet,
                idle => idle,
            },
        }
    }
}

macro_rules! forward {
    ($self:ident, $method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).$method($($argument),*),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => with_one_read(|| Pin::new(stream.as_mut()).poll_read(cx, buffer)),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        forward!(self, poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self, poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, poll_shutdown(cx))
    }
}
