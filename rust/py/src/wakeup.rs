//! Wakes an event loop from any thread, without the interpreter.

use std::{
    io::{Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    sync::atomic::{AtomicBool, Ordering},
};

/// A pair of sockets: the loop watches one end, whoever has news writes a byte to the other. Between two
/// looks of the loop it is written to once.
#[derive(Debug)]
pub(crate) struct Bell {
    outside: UnixStream,
    inside: UnixStream,
    rung: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (outside, inside) = UnixStream::pair()?;
        outside.set_nonblocking(true)?;
        inside.set_nonblocking(true)?;
        Ok(Self { outside, inside, rung: AtomicBool::new(false) })
    }

    /// What the loop watches for reading.
    pub(crate) fn fileno(&self) -> i32 {
        self.inside.as_raw_fd()
    }

    /// Wakes the loop, unless it is about to look anyway.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            // It cannot be full: the loop takes each byte before the next one is written.
            let _ = (&self.outside).write(&[1]);
        }
    }

    /// The loop has come. To be called before it looks at what there is.
    pub(crate) fn heard(&self) {
        let _ = (&self.inside).read(&mut [0; 8]);
        self.rung.store(false, Ordering::Release);
    }
}
