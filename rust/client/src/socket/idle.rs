//! Idle connections: whether one can be used again.

use socket2::Socket as RawSocket;
use std::{io, mem::MaybeUninit};

/// Linux: no signal when the peer has closed.
pub(super) const NO_SIGNAL: i32 = 0x4000;
/// Linux: fail instead of waiting.
const DO_NOT_WAIT: i32 = 0x40;
/// Linux: do not consume the bytes.
const PEEK: i32 = 2;

/// State of an idle connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Nothing to read.
    Quiet,
    /// Unexpected bytes to read.
    Readable,
    /// Closed.
    Closed,
}

/// Checks an idle connection without waiting.
pub(crate) fn idle(socket: &RawSocket) -> Idle {
    let mut byte = [MaybeUninit::uninit()];
    match socket.recv_with_flags(&mut byte, PEEK | DO_NOT_WAIT) {
        Ok(0) => Idle::Closed,
        Ok(_) => Idle::Readable,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Idle::Quiet,
        Err(_) => Idle::Closed,
    }
}
