//! Wakes an event loop from any thread, without the interpreter.

use std::{
    io::{Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering},
};

/// A pair of sockets: the loop watches one end, other threads write a byte to the other end. Between two iterations of
/// the loop they write one byte only.
#[derive(Debug)]
pub(crate) struct LoopWakeup {
    outside: UnixStream,
    inside: UnixStream,
    pending: AtomicBool,
}

impl LoopWakeup {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (outside, inside) = UnixStream::pair()?;
        outside.set_nonblocking(true)?;
        inside.set_nonblocking(true)?;
        Ok(Self { outside, inside, pending: AtomicBool::new(false) })
    }

    /// The descriptor that the loop watches for reading.
    pub(crate) fn fileno(&self) -> i32 {
        self.inside.as_raw_fd()
    }

    /// Wakes the loop, unless a wake-up is pending.
    pub(crate) fn notify(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            // It cannot be full: the loop takes each byte before the next one is written.
            let _ = (&self.outside).write(&[1]);
        }
    }

    /// Clears the wake-up. The loop calls it before it takes its events, so that no event is missed.
    pub(crate) fn clear(&self) {
        let _ = (&self.inside).read(&mut [0; 8]);
        self.pending.store(false, Ordering::Release);
    }
}
