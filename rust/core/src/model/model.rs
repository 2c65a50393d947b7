//! A served model: declaration, queue, metrics, readiness.

use super::{Changes, Dialect, handover::Replaced};
use crate::{
    Error, Kind, ModelSpec, Result,
    cache::Cache,
    metrics::{Metrics, ModelMetrics},
    queue::Queue,
};
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU8, Ordering},
};

/// Readiness of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The instances are loading.
    Loading,
    /// Accepts requests.
    Ready,
    /// Does not accept requests: no instance is alive, or the model was unloaded.
    Unavailable,
}

const LOADING: u8 = Readiness::Loading as u8;

const READY: u8 = Readiness::Ready as u8;

/// Bit next to a readiness: requests are refused for a set reason.
const REFUSES: u8 = 1 << 2;

const REFUSES_LOADING: u8 = REFUSES | LOADING;

/// One version of a model.
///
/// Instances own the queue, not the model. After the model is removed from its table, the last request that holds it
/// drops it. That closes the queue and ends the instances.
#[derive(Debug)]
pub struct Model {
    pub(super) spec: Arc<ModelSpec>,
    pub(super) queue: Arc<Queue>,
    pub(super) readiness: AtomicU8,
    /// Reason to refuse requests.
    pub(super) refusal: Mutex<Arc<str>>,
    pub(super) cache: Option<Arc<Cache>>,
    /// Listeners and dialect of the model's table.
    pub(super) table: OnceLock<(Arc<Changes>, Dialect)>,
    /// Models that this one replaced.
    pub(crate) replaced: Replaced,
}

impl Model {
    /// Creates a model that is loading.
    pub fn new(spec: ModelSpec, metrics: &Metrics) -> Self {
        let spec = Arc::new(spec);
        let metrics = Arc::new(metrics.model(&spec));
        // Streams and sequences are not cached.
        let caching = spec.cache.as_ref().filter(|_| !spec.streams && spec.sequences.is_none());
        let cache = caching.map(|caching| Arc::new(Cache::new(caching, spec.max_queue, metrics.cache.clone())));
        let queue = Arc::new(Queue::new(Arc::clone(&spec), metrics));
        Self {
            spec,
            queue,
            readiness: AtomicU8::new(Readiness::Loading as u8),
            refusal: Mutex::default(),
            cache,
            table: OnceLock::new(),
            replaced: Replaced::default(),
        }
    }

    /// Declaration.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    /// Queue, from which instances pull.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Metrics.
    pub fn metrics(&self) -> &Arc<ModelMetrics> {
        self.queue.metrics()
    }

    /// Response cache, if declared. A reload starts with an empty one.
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Returns the readiness.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::Acquire) {
            LOADING | REFUSES_LOADING => Readiness::Loading,
            READY => Readiness::Ready,
            _ => Readiness::Unavailable,
        }
    }

    /// Sets the table to notify of changes. A model is in one table; a second one is ignored.
    pub(crate) fn set_table(&self, changes: Arc<Changes>, dialect: Dialect) {
        let _ = self.table.set((changes, dialect));
    }

    /// Sets the readiness.
    pub fn set_readiness(&self, readiness: Readiness) {
        self.change_readiness(|known| (known & REFUSES) | readiness as u8);
    }

    /// Sets (or, with `None`, clears) a reason for which all requests are refused.
    pub fn set_refusal(&self, reason: Option<&str>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = reason.unwrap_or_default().into();
        self.change_readiness(|known| if reason.is_some() { known | REFUSES } else { known & !REFUSES });
    }

    /// Reason for which requests are refused; empty if none was given.
    pub fn refusal(&self) -> Option<Arc<str>> {
        let refuses = self.readiness.load(Ordering::Acquire) & REFUSES != 0;
        refuses.then(|| Arc::clone(&self.refusal.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn change_readiness(&self, change: impl Fn(u8) -> u8) {
        let _ = self.readiness.fetch_update(Ordering::AcqRel, Ordering::Acquire, |known| Some(change(known)));
        if let Some((changes, _)) = self.table.get() {
            changes.notify();
        }
    }

    /// Refuses a request before its body is read.
    ///
    /// # Errors
    /// `Unavailable`: the model is not ready. `Overloaded`: its queue is full.
    pub fn admit(&self) -> Result<()> {
        self.check_ready()?;
        self.queue.check_capacity()
    }

    /// Checks that the model accepts requests.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn check_ready(&self) -> Result<()> {
        if self.readiness() == Readiness::Ready { Ok(()) } else { Err(self.not_ready()) }
    }

    /// Checks that the model sends exactly one response to a request.
    ///
    /// # Errors
    /// `Unsupported`: the message has the calls to use instead.
    pub fn check_single_response(&self) -> Result<()> {
        // A raw-request model decides per request.
        if self.spec.streams && !self.spec.raw_requests {
            return Err(Error::new(
                Kind::Unsupported,
                format!(
                    "model '{}' streams its answers: call generate_stream or infer_stream, or ModelStreamInfer over gRPC",
                    self.spec.name
                ),
            ));
        }
        Ok(())
    }

    #[cold]
    fn not_ready(&self) -> Error {
        let why = self.refusal();
        let why = why.as_deref().unwrap_or_default();
        let dialect = self.table.get().map_or_else(Dialect::default, |(_, dialect)| *dialect);
        dialect.not_ready(&self.spec.name, why)
    }
}

impl Drop for Model {
    /// Closes the queue: no request can reach the model. Instances finish the waiting requests, and end.
    fn drop(&mut self) {
        self.queue.close();
    }
}
