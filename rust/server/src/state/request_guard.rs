//! Accounting of running requests: their number, their memory, and the memory of responses until they are
//! sent.

use super::app::{App, SHUTTING_DOWN};
use crate::{keys::ClientSlot, observe::RequestLog};
use penstock_core::{Error, Kind, Model, Protocol, Result, metrics::ModelMetrics};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A running request and its memory.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    held: RequestMemory,
    /// Set for a request that came while the server was draining.
    late: bool,
    /// Place of a client with limits.
    slot: Option<ClientSlot>,
}

impl RequestGuard {
    /// Wraps a request that [`App`] has counted.
    pub(crate) fn new(app: &Arc<App>, late: bool) -> Self {
        Self { held: RequestMemory::none(app), late, slot: None }
    }

    /// Holds the place of a client with limits until the request ends.
    pub(crate) fn with_slot(mut self, slot: Option<ClientSlot>) -> Self {
        self.slot = slot;
        self
    }

    /// Refuses a request that came while the server was draining, unless `model` has sequences.
    ///
    /// # Errors
    /// `Unavailable`.
    pub(crate) fn check(&self, model: &Model) -> Result<()> {
        if self.late && model.spec().sequences.is_none() {
            return Err(Error::new(Kind::Unavailable, SHUTTING_DOWN).retry_after(Duration::from_secs(1)));
        }
        Ok(())
    }

    /// Raises the request's memory to `bytes`: its decoded size may exceed that of its body.
    ///
    /// # Errors
    /// `TooLarge` beyond the limit itself; `Overloaded` beyond what is left.
    pub(crate) fn reserve_at_least(&mut self, bytes: usize) -> Result<()> {
        let more = bytes.saturating_sub(self.held.bytes);
        if more == 0 {
            return Ok(());
        }
        let limit = self.held.app.config.limits.max_inflight_bytes.get();
        if bytes > limit {
            let text = format!("the request takes {bytes} bytes of memory, at most {limit} are accepted");
            return Err(Error::new(Kind::TooLarge, text));
        }
        self.held.reserve(more)
    }

    /// Returns the memory of the request.
    pub(crate) fn memory(&mut self) -> &mut RequestMemory {
        &mut self.held
    }

    /// Takes over memory that was reserved before the request was counted.
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

/// Memory of a request, of the server's limit on all requests.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    app: Arc<App>,
    bytes: usize,
}

impl RequestMemory {
    /// Reserves nothing.
    pub(crate) fn none(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), bytes: 0 }
    }

    /// Reserves the bytes of a request's shared memory at once.
    ///
    /// # Errors
    /// `TooLarge` beyond the limit itself; `Overloaded` beyond what is left.
    pub(crate) fn of_shared_memory(app: &Arc<App>, bytes: usize) -> Result<Self> {
        let limit = app.config.limits.max_inflight_bytes.get();
        if bytes > limit {
            let text = format!("the request's shared memory has {bytes} bytes, at most {limit} are accepted");
            return Err(Error::new(Kind::TooLarge, text));
        }
        let mut held = Self::none(app);
        held.reserve(bytes)?;
        Ok(held)
    }

    /// Returns the reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reserves `bytes` more.
    ///
    /// # Errors
    /// `Overloaded` when the server's limit is reached.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<()> {
        let limit = self.app.config.limits.max_inflight_bytes.get();
        let before = self.app.metrics.body_bytes.inc_by(bytes as i64);
        self.bytes += bytes;
        if usize::try_from(before).unwrap_or(0).saturating_add(bytes) > limit {
            return Err(Error::new(Kind::Overloaded, "the server is at max_inflight_bytes, retry later")
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

/// Size from which a response is accounted. Smaller ones are bounded by the number of concurrent requests.
const LARGE_RESPONSE_BYTES: usize = 16 << 10;

/// Memory of a large response until it is sent. It is accounted separately from requests: slow readers delay
/// only large responses of others.
#[derive(Debug)]
pub(crate) struct ResponseMemory {
    app: Arc<App>,
    bytes: usize,
    /// Set for a successful response.
    clock: Option<ResponseClock>,
    /// Log lines of the request, written once the response is sent; `None` where they do not wait for that.
    log: Option<Arc<RequestLog>>,
}

/// Clock of a successful request, which ends with its response.
#[derive(Debug)]
pub(crate) struct ResponseClock {
    pub(crate) metrics: Arc<ModelMetrics>,
    pub(crate) protocol: Protocol,
    pub(crate) started: Instant,
    /// Trace of a sampled request.
    pub(crate) trace_id: Option<[u8; 16]>,
}

impl ResponseMemory {
    /// Reserves memory for a response, if it is large. One above the limit itself is let through: it exists
    /// already, and a retry would not be smaller.
    ///
    /// # Errors
    /// `Overloaded` when the limit on all responses is reached.
    pub(crate) fn of(app: &Arc<App>, bytes: usize) -> Result<Option<Self>> {
        if bytes < LARGE_RESPONSE_BYTES {
            return Ok(None);
        }
        let limit = app.config.limits.max_inflight_bytes.get();
        let before = app.metrics.answer_bytes.inc_by(bytes as i64);
        let held = Self { app: Arc::clone(app), bytes, clock: None, log: None };
        if bytes <= limit && usize::try_from(before).unwrap_or(0).saturating_add(bytes) > limit {
            return Err(Error::new(
                Kind::Overloaded,
                "the server is at max_inflight_bytes of unsent responses, retry later",
            )
            .retry_after(Duration::from_secs(1)));
        }
        Ok(Some(held))
    }

    /// Writes the log lines of the request once the response is sent.
    pub(crate) fn log_when_sent(&mut self, log: Arc<RequestLog>) {
        self.log = Some(log);
    }

    /// Ends the clock of the request once the response is sent.
    pub(crate) fn time(&mut self, clock: ResponseClock) {
        self.clock = Some(clock);
    }
}

impl Drop for ResponseMemory {
    fn drop(&mut self) {
        if let Some(ResponseClock { metrics, protocol, started, trace_id }) = &self.clock {
            metrics.request_time(*protocol, started.elapsed(), trace_id.as_ref());
        }
        self.app.metrics.answer_bytes.dec_by(self.bytes as i64);
    }
}
