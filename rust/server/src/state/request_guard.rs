//! A request under way, which is counted with its memory until it is answered; and the memory of its answer until that is
//! sent.

use super::app::{App, SHUTTING_DOWN};
use penstock_core::{Error, Kind, Model, Result};
use std::{sync::Arc, time::Duration};

/// A request under way, with the bytes that its body holds.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    held: RequestMemory,
    /// Whether it came while the server was draining.
    late: bool,
}

impl RequestGuard {
    /// A request that [`App`] has counted.
    pub(crate) fn new(app: &Arc<App>, late: bool) -> Self {
        Self { held: RequestMemory::none(app), late }
    }

    /// Refuses a request that came while the server was draining, unless `model` may have a sequence of it.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) fn check(&self, model: &Model) -> Result<()> {
        if self.late && model.spec().sequences.is_none() {
            return Err(Error::new(Kind::Unavailable, SHUTTING_DOWN).retry_after(Duration::from_secs(1)));
        }
        Ok(())
    }

    /// Counts the request as `bytes`, if it is counted as fewer: by what it takes once it is decoded.
    ///
    /// # Errors
    /// `TooLarge` for more than there ever are; `Overloaded` for more than are left.
    pub(crate) fn reserve_at_least(&mut self, bytes: usize) -> Result<()> {
        let more = bytes.saturating_sub(self.held.bytes);
        if more == 0 {
            return Ok(());
        }
        let limit = self.held.app.config.limits.inflight_bytes;
        if bytes > limit {
            let text = format!("the request takes {bytes} bytes of memory, at most {limit} are accepted");
            return Err(Error::new(Kind::TooLarge, text));
        }
        self.held.reserve(more)
    }

    /// The bytes that its body holds.
    pub(crate) fn memory(&mut self) -> &mut RequestMemory {
        &mut self.held
    }

    /// The same request, with the bytes that were counted before it was known.
    pub(crate) fn with_memory(mut self, held: RequestMemory) -> Self {
        self.held = held;
        self
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.held.app.leave();
    }
}

/// Bytes that a request holds, of all that may be held at once.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    app: Arc<App>,
    bytes: usize,
}

impl RequestMemory {
    /// No bytes so far.
    pub(crate) fn none(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), bytes: 0 }
    }

    /// Holds the bytes of a request's shared memory, which are taken all at once.
    ///
    /// # Errors
    /// `TooLarge` for more than there ever are; `Overloaded` for more than are left.
    pub(crate) fn of_shared_memory(app: &Arc<App>, bytes: usize) -> Result<Self> {
        let limit = app.config.limits.inflight_bytes;
        if bytes > limit {
            let text = format!("the request's shared memory has {bytes} bytes, at most {limit} are accepted");
            return Err(Error::new(Kind::TooLarge, text));
        }
        let mut held = Self::none(app);
        held.reserve(bytes)?;
        Ok(held)
    }

    /// How many are counted.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts `bytes` more.
    ///
    /// # Errors
    /// `Overloaded` when the server's bodies hold as much as they may.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<()> {
        let limit = self.app.config.limits.inflight_bytes;
        let before = self.app.metrics.body_bytes.inc_by(bytes as i64);
        self.bytes += bytes;
        if usize::try_from(before).unwrap_or(0).saturating_add(bytes) > limit {
            return Err(Error::new(Kind::Overloaded, "the server holds as many request bytes as it may")
                .retry_after(Duration::from_secs(1)));
        }
        Ok(())
    }
}

impl Drop for RequestMemory {
    fn drop(&mut self) {
        self.app.metrics.body_bytes.dec_by(self.bytes as i64);
    }
}

/// Bytes of an answer from which on it is counted. As many small ones as a connection may ask for are bounded by their
/// number.
const LARGE_RESPONSE_BYTES: usize = 16 << 10;

/// The memory of a large answer until it is sent. It is counted apart from requests: clients that read slowly keep
/// others from large answers only.
#[derive(Debug)]
pub(crate) struct ResponseMemory {
    app: Arc<App>,
    bytes: usize,
}

impl ResponseMemory {
    /// Counts an answer of so many bytes, if it is large. One that is larger than all may be is let through: it is made
    /// already, and no later one would be smaller.
    ///
    /// # Errors
    /// `Overloaded` when the server's answers hold as much as they may.
    pub(crate) fn of(app: &Arc<App>, bytes: usize) -> Result<Option<Self>> {
        if bytes < LARGE_RESPONSE_BYTES {
            return Ok(None);
        }
        let limit = app.config.limits.inflight_bytes;
        let before = app.metrics.answer_bytes.inc_by(bytes as i64);
        let held = Self { app: Arc::clone(app), bytes };
        if bytes <= limit && usize::try_from(before).unwrap_or(0).saturating_add(bytes) > limit {
            return Err(Error::new(Kind::Overloaded, "the server holds as many bytes of unread answers as it may")
                .retry_after(Duration::from_secs(1)));
        }
        Ok(Some(held))
    }
}

impl Drop for ResponseMemory {
    fn drop(&mut self) {
        self.app.metrics.answer_bytes.dec_by(self.bytes as i64);
    }
}
