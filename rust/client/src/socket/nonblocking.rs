//! A socket that never blocks. It belongs to the runtime or to an [inline call](inline_call), and can change over.

use super::idle::{Idle, NO_SIGNAL, idle};
use crate::inline_call;
use socket2::{SockRef, Socket as RawSocket};
use std::{
    io::{self, IoSlice, Read as _},
    mem,
    net::Shutdown,
    os::fd::AsRawFd as _,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead as _, AsyncWrite as _, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A socket, and whose it is.
#[derive(Debug)]
pub(crate) enum AsyncSocket {
    /// The runtime's, which watches it.
    Tcp(TcpStream),
    /// As `Tcp`.
    Unix(UnixStream),
    /// Of an [inline call](inline_call): the runtime does not watch it.
    Free(RawSocket, Family),
    /// Lost while it changed over.
    Gone,
}

/// Type that the runtime needs for a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    Tcp,
    Unix,
}

impl AsyncSocket {
    pub(super) fn idle(&self) -> Idle {
        match self {
            Self::Tcp(stream) => idle(&SockRef::from(stream)),
            Self::Unix(stream) => idle(&SockRef::from(stream)),
            Self::Free(socket, _) => idle(socket),
            Self::Gone => Idle::Closed,
        }
    }

    pub(super) fn read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !inline_call::is_active() {
            return match self.watched()? {
                Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
                Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
                Self::Free(..) | Self::Gone => Poll::Ready(Err(gone())),
            };
        }
        let mut socket = self.free()?;
        match socket.read(buffer.initialize_unfilled()) {
            Ok(count) => {
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                inline_call::await_readable(socket.as_raw_fd());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(super) fn write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if !inline_call::is_active() {
            return match self.watched()? {
                Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
                Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
                Self::Free(..) | Self::Gone => Poll::Ready(Err(gone())),
            };
        }
        match self.free()?.send_vectored_with_flags(slices, NO_SIGNAL) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                inline_call::await_writable();
                Poll::Pending
            }
            written => Poll::Ready(written),
        }
    }

    pub(super) fn shutdown(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
            Self::Unix(stream) => SockRef::from(stream).shutdown(Shutdown::Write),
            Self::Free(socket, _) => socket.shutdown(Shutdown::Write),
            Self::Gone => Err(gone()),
        }
    }

    /// Registers the socket with the runtime.
    fn watched(&mut self) -> io::Result<&mut Self> {
        if let Self::Free(..) = self {
            *self = match mem::replace(self, Self::Gone) {
                Self::Free(socket, Family::Tcp) => Self::Tcp(TcpStream::from_std(socket.into())?),
                Self::Free(socket, Family::Unix) => Self::Unix(UnixStream::from_std(socket.into())?),
                other => other,
            };
        }
        Ok(self)
    }

    /// Removes the socket from the runtime.
    fn free(&mut self) -> io::Result<&RawSocket> {
        if let Self::Tcp(_) | Self::Unix(_) = self {
            *self = match mem::replace(self, Self::Gone) {
                Self::Tcp(stream) => Self::Free(stream.into_std()?.into(), Family::Tcp),
                Self::Unix(stream) => Self::Free(stream.into_std()?.into(), Family::Unix),
                other => other,
            };
        }
        match self {
            Self::Free(socket, _) => Ok(socket),
            _ => Err(gone()),
        }
    }
}

fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}
