//! A served model: its declaration, queue, metrics and readiness.

use super::{Changes, ErrorTexts, handover::Replaced};
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

/// Whether a model takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Its instances are being built.
    Loading,
    /// It takes requests.
    Ready,
    /// It does not now: none of its instances lives, or it was taken away.
    Unavailable,
}

const LOADING: u8 = Readiness::Loading as u8;

const READY: u8 = Readiness::Ready as u8;

/// Beside a readiness: that it was made to refuse requests.
const REFUSES: u8 = 1 << 2;

const REFUSES_LOADING: u8 = REFUSES | LOADING;

/// One version of a model. Its instances hold its queue, not the model itself: when the last of its
/// callers lets go of a model that is in no table any more, the queue closes and the instances end.
#[derive(Debug)]
pub struct Model {
    pub(super) spec: Arc<ModelSpec>,
    pub(super) queue: Arc<Queue>,
    pub(super) readiness: AtomicU8,
    /// Why it refuses requests, while it does although its instances live.
    pub(super) refusal: Mutex<Arc<str>>,
    pub(super) cache: Option<Arc<Cache>>,
    /// Who is told of changes, and what is said of it, in the table that it is in.
    pub(super) table: OnceLock<(Arc<Changes>, Arc<ErrorTexts>)>,
    /// Those that it took the place of.
    pub(crate) replaced: Replaced,
}

impl Model {
    /// A model that is not ready yet.
    pub fn new(spec: ModelSpec, metrics: &Metrics) -> Self {
        let spec = Arc::new(spec);
        let metrics = Arc::new(metrics.model(&spec));
        // What answers in parts, or by what came before, is not kept.
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

    /// Its declaration.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }

    /// Where its instances pull their batches from.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Its metrics.
    pub fn metrics(&self) -> &Arc<ModelMetrics> {
        self.queue.metrics()
    }

    /// Its answers since its load that are kept, if it is so declared.
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Whether it takes requests.
    pub fn readiness(&self) -> Readiness {
        match self.readiness.load(Ordering::Acquire) {
            LOADING | REFUSES_LOADING => Readiness::Loading,
            READY => Readiness::Ready,
            _ => Readiness::Unavailable,
        }
    }

    /// Tells `changes` from now on of each change. A model is in one table only; were it in two, the first is told.
    pub(crate) fn set_table(&self, changes: Arc<Changes>, error_texts: Arc<ErrorTexts>) {
        let _ = self.table.set((changes, error_texts));
    }

    /// Changes whether it takes requests.
    pub fn set_readiness(&self, readiness: Readiness) {
        self.change_readiness(|known| (known & REFUSES) | readiness as u8);
    }

    /// Has it refuse requests from now on, whatever its instances do, and say why; `None`: no more.
    pub fn set_refusal(&self, reason: Option<&str>) {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = reason.unwrap_or_default().into();
        self.change_readiness(|known| if reason.is_some() { known | REFUSES } else { known & !REFUSES });
    }

    /// Why it refuses requests, if it was made to: empty if nothing is said.
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

    /// Refuses early what cannot be served: called before a body is read.
    ///
    /// # Errors
    /// `Unavailable` if the model is not ready, `Overloaded` if its queue is full.
    pub fn admit(&self) -> Result<()> {
        self.check_ready()?;
        self.queue.check_capacity()
    }

    /// Refuses if it takes no requests.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn check_ready(&self) -> Result<()> {
        if self.readiness() == Readiness::Ready { Ok(()) } else { Err(self.not_ready()) }
    }

    /// Refuses a call that can carry one answer only, if the model gives any number of them.
    ///
    /// # Errors
    /// `Unsupported`, with what to call instead.
    pub fn check_single_response(&self) -> Result<()> {
        // Whether an open model has one answer is for its handler to say, request by request.
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
        match self.table.get() {
            Some((_, error_texts)) => error_texts.not_ready(&self.spec.name, why),
            None => ErrorTexts::default().not_ready(&self.spec.name, why),
        }
    }
}

impl Drop for Model {
    /// Nobody can reach it any more: its instances finish what waits, and end.
    fn drop(&mut self) {
        self.queue.close();
    }
}
