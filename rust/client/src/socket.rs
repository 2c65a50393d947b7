//! A socket that either blocks the calling thread or never does.

mod shared;

pub(crate) use shared::Shared;

use crate::blocking;
use socket2::Socket as RawSocket;
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Linux: no signal when the peer has gone.
const NO_SIGNAL: i32 = 0x4000;
/// Linux: fail instead of waiting.
const DO_NOT_WAIT: i32 = 0x40;
/// Linux: leave what is read.
const PEEK: i32 = 2;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    /// Its reads and writes block.
    Blocking(Blocking),
    /// They do not.
    Shared(Shared),
}

/// A blocking socket, and the timeouts that it has now.
#[derive(Debug)]
pub(crate) struct Blocking {
    socket: Arc<RawSocket>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

/// What an idle connection has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Nothing.
    Quiet,
    /// Bytes that nobody has asked for.
    Speaks,
    /// It is closed.
    Closed,
}

impl Socket {
    /// A blocking socket of `socket`.
    pub(crate) fn blocking(socket: RawSocket) -> Self {
        Self::Blocking(Blocking { socket: Arc::new(socket), read_timeout: None, write_timeout: None })
    }

    /// Looks at an idle connection without waiting.
    pub(crate) fn idle(&self) -> Idle {
        match self {
            Self::Blocking(blocking) => idle(&blocking.socket),
            Self::Shared(shared) => shared.idle(),
        }
    }
}

/// Looks at an idle connection without waiting.
pub(crate) fn idle(socket: &RawSocket) -> Idle {
    let mut byte = [MaybeUninit::uninit()];
    match socket.recv_with_flags(&mut byte, PEEK | DO_NOT_WAIT) {
        Ok(0) => Idle::Closed,
        Ok(_) => Idle::Speaks,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Idle::Quiet,
        Err(_) => Idle::Closed,
    }
}

impl Blocking {
    fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !blocking::may_read() {
            return Poll::Pending;
        }
        loop {
            let left = blocking::time_left()?;
            if needs(&mut self.read_timeout, left) {
                self.socket.set_read_timeout(self.read_timeout)?;
            }
            // The safe way to read: into bytes that are there.
            match io::Read::read(&mut &*self.socket, buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return blocking::interrupt(),
                // The timeout: whether the deadline has passed is seen above.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let left = blocking::time_left()?;
            if needs(&mut self.write_timeout, left) {
                self.socket.set_write_timeout(self.write_timeout)?;
            }
            match self.socket.send_vectored_with_flags(slices, NO_SIGNAL) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return blocking::interrupt(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

/// Whether a socket's timeout must change, because it is not there or would end after the deadline.
/// One that ends too early only makes the socket look at the deadline, and is left as it is.
fn needs(timeout: &mut Option<Duration>, left: Option<Duration>) -> bool {
    const NEAR: Duration = Duration::from_millis(1);
    let keep = match (&timeout, left) {
        (None, None) => true,
        (Some(set), Some(left)) => *set <= left + NEAR && *set * 2 >= left,
        _ => false,
    };
    if !keep {
        *timeout = left;
    }
    !keep
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Blocking(blocking) => blocking.read(buffer),
            Self::Shared(shared) => shared.read(cx, buffer),
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
            Self::Shared(shared) => shared.write(cx, slices),
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
            Self::Blocking(blocking) => blocking.socket.shutdown(std::net::Shutdown::Write),
            Self::Shared(shared) => shared.shutdown(),
        })
    }
}

/// A connection: a socket, perhaps encrypted.
#[derive(Debug)]
pub(crate) enum Stream {
    /// As it is.
    Plain(Socket),
    /// Encrypted.
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<Socket>>),
}

impl Stream {
    /// The socket itself, if it is a blocking one.
    pub(crate) fn raw(&self) -> Option<Arc<RawSocket>> {
        let socket = match self {
            Self::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.get_ref().0,
        };
        match socket {
            Socket::Blocking(blocking) => Some(Arc::clone(&blocking.socket)),
            Socket::Shared(_) => None,
        }
    }

    /// As [`Socket::idle`]; an encrypted connection may have something to say at any time.
    pub(crate) fn idle(&self) -> Idle {
        match self {
            Self::Plain(socket) => socket.idle(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match stream.get_ref().0.idle() {
                Idle::Speaks => Idle::Quiet,
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
            Self::Tls(stream) => blocking::with_one_read(|| Pin::new(stream.as_mut()).poll_read(cx, buffer)),
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
