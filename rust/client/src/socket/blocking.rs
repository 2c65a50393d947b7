//! A socket whose reads and writes block the calling thread.

use super::idle::NO_SIGNAL;
use crate::blocking;
use socket2::Socket as RawSocket;
use std::{
    io::{self, IoSlice},
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::io::ReadBuf;

/// A blocking socket, and its current timeouts.
#[derive(Debug)]
pub(crate) struct BlockingSocket {
    socket: Arc<RawSocket>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl BlockingSocket {
    pub(super) fn new(socket: RawSocket) -> Self {
        Self { socket: Arc::new(socket), read_timeout: None, write_timeout: None }
    }

    pub(super) fn raw(&self) -> &Arc<RawSocket> {
        &self.socket
    }

    pub(super) fn shutdown(&self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Write)
    }

    pub(super) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !blocking::may_read() {
            return Poll::Pending;
        }
        loop {
            let left = blocking::time_left()?;
            if needs(&mut self.read_timeout, left) {
                self.socket.set_read_timeout(self.read_timeout)?;
            }
            // Reads into initialized bytes, which is safe.
            match io::Read::read(&mut &*self.socket, buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return blocking::interrupt(),
                // Timed out: the next iteration checks the deadline.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
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

/// Returns whether a socket's timeout must change: it is unset, or ends after the deadline. A shorter one only makes
/// the socket check the deadline, and stays.
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
