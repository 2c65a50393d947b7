//! A socket that never blocks. It belongs to whoever carries its call on, and changes hands when that changes.

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
    /// Of a call whose asker takes its [steps](inline_call): nobody else watches it.
    Free(RawSocket, Family),
    /// It was lost when it changed hands.
    Gone,
}

/// What the runtime must take a socket for.
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
        if !inline_call::is_taken() {
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
                inline_call::awaits_bytes(socket.as_raw_fd());
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    pub(super) fn write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if !inline_call::is_taken() {
            return match self.watched()? {
                Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
                Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
                Self::Free(..) | Self::Gone => Poll::Ready(Err(gone())),
            };
        }
        match self.free()?.send_vectored_with_flags(slices, NO_SIGNAL) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                inline_call::awaits_room();
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

    /// Itself, the runtime's.
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

    /// Its socket, no longer the runtime's.
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
