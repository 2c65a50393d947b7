//! What all threads and protocols share.

use crate::{
    body::Body,
    config::{Config, LogLevel},
    log::Log,
    shared_memory::Regions,
    spans::Tracer,
    trace::Traces,
};
use http_body::Body as _;
use penstock_core::{Error, Kind, Model, Registry, Result, metrics::Metrics};
use penstock_wire::rest::triton_metrics;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

const SHUTTING_DOWN: &str = "the server is shutting down";

/// Where a server is in its life. It only ever goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Bound, models are loading.
    Starting,
    /// All models that it started with are ready.
    Ready,
    /// New requests are refused, those under way finish.
    Draining,
}

impl Phase {
    /// What the log says when it begins.
    const fn news(self) -> &'static str {
        match self {
            Self::Starting => "the server is starting",
            Self::Ready => "the server is ready",
            Self::Draining => "the server drains: new requests are refused, those under way finish",
        }
    }
}

/// The state of one server.
#[derive(Debug)]
pub(crate) struct App {
    /// Its configuration.
    pub(crate) config: Config,
    /// Its models.
    pub(crate) registry: Arc<Registry>,
    /// Its metrics.
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Arc<Log>,
    pub(crate) trace: Traces,
    /// `None` where no request is traced.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The shared memory that clients have registered.
    pub(crate) regions: Regions,
    /// Connections that have more to send than their sockets take.
    pub(crate) writing: Arc<AtomicUsize>,
    /// Sends at each change of a model's or of the server's readiness.
    pub(crate) changes: watch::Sender<()>,
    /// When it was last said that the shared cache fails.
    pub(crate) cache_failure_said: Mutex<Option<Instant>>,
    phase: AtomicU8,
    requests: AtomicUsize,
    next_id: AtomicU64,
}

impl App {
    /// All metrics, as Prometheus scrapes them.
    pub(crate) fn exposition(&self) -> String {
        let under_tritons_names = self.config.triton_metrics.then(|| triton_metrics(&self.registry.all()));
        self.metrics.exposition_with(&under_tritons_names.unwrap_or_default())
    }

    /// A server that is starting.
    pub(crate) fn new(config: Config, registry: Arc<Registry>, metrics: Arc<Metrics>) -> Self {
        let changes = watch::Sender::new(());
        let told = changes.clone();
        registry.changes().listen(move || told.send_replace(()));
        let log = Arc::new(Log::new(config.access_log, config.log_level, metrics.log_dropped.clone()));
        let tracer = config.tracing.as_ref().map(|settings| Tracer::new(settings, &metrics, &log));
        Self {
            log,
            tracer,
            trace: Traces::default(),
            config,
            registry,
            metrics,
            writing: Arc::default(),
            regions: Regions::default(),
            changes,
            cache_failure_said: Mutex::new(None),
            phase: AtomicU8::new(Phase::Starting as u8),
            requests: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
        }
    }

    /// Where it is in its life.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// Goes on to a later phase; never back.
    pub(crate) fn advance(&self, phase: Phase) {
        if self.phase.fetch_max(phase as u8, Ordering::AcqRel) < phase as u8 {
            self.log.say(LogLevel::Info, phase.news());
        }
        self.changes.send_replace(());
    }

    /// Why the server as a whole is not ready, if it is not.
    pub(crate) fn not_ready(&self) -> Option<&'static str> {
        match self.phase() {
            Phase::Starting => Some("the server is starting"),
            Phase::Ready => None,
            Phase::Draining => Some(SHUTTING_DOWN),
        }
    }

    /// Counts a request until the guard is dropped.
    ///
    /// # Errors
    /// `Unavailable` while the server is starting or draining.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<RequestGuard> {
        if let Some(reason) = self.not_ready() {
            return Err(Error::new(Kind::Unavailable, reason).retry_after(Duration::from_secs(1)));
        }
        Ok(self.guard(false))
    }

    /// As [`App::enter`], but lets requests of sequences in while the server drains: what began before may
    /// end. Ask [`RequestGuard::check`] when the model is known.
    pub(crate) fn enter_sequence(self: &Arc<Self>) -> Result<RequestGuard> {
        if self.phase() == Phase::Draining && self.has_sequences() {
            return Ok(self.guard(true));
        }
        self.enter()
    }

    /// Whether sequences are active on any model.
    pub(crate) fn has_sequences(&self) -> bool {
        self.registry.all().iter().any(|model| model.active_sequences() > 0)
    }

    fn guard(self: &Arc<Self>, late: bool) -> RequestGuard {
        self.requests.fetch_add(1, Ordering::AcqRel);
        RequestGuard { held: HeldBytes::none(self), late }
    }

    /// Requests under way.
    pub(crate) fn requests_under_way(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// Whether answers still go out to clients that read slowly.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Acquire) > 0
    }

    /// An id for a request that has none, for logs.
    pub(crate) fn next_request_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

/// A request under way, with the bytes that its body holds.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    held: HeldBytes,
    /// Whether it came while the server was draining.
    late: bool,
}

impl RequestGuard {
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

    /// Takes `bytes` more of what all bodies together may hold.
    ///
    /// # Errors
    /// `Overloaded` when the server's bodies hold as much as they may.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.held.take(bytes)
    }

    /// Counts the request as `bytes`, if it is counted as fewer: by what it takes once it is decoded.
    ///
    /// # Errors
    /// `TooLarge` for more than there ever are; `Overloaded` for more than are left.
    pub(crate) fn hold_at_least(&mut self, bytes: usize) -> Result<()> {
        let more = bytes.saturating_sub(self.held.bytes);
        if more == 0 {
            return Ok(());
        }
        let limit = self.held.app.config.limits.inflight_bytes;
        if bytes > limit {
            let text = format!("the request takes {bytes} bytes of memory, at most {limit} are accepted");
            return Err(Error::new(Kind::TooLarge, text));
        }
        self.held.take(more)
    }

    /// Counts an answer, if it is large and more than the request. One that is larger than all may be is let through: it
    /// is made already, and no later one would be smaller.
    ///
    /// # Errors
    /// `Overloaded` when the server's requests and answers hold as much as they may.
    pub(crate) fn hold_answer(&mut self, body: &Body) -> Result<()> {
        let bytes = large_answer(body);
        let more = bytes.saturating_sub(self.held.bytes);
        if more == 0 {
            return Ok(());
        }
        let taken = self.held.take(more);
        if bytes > self.held.app.config.limits.inflight_bytes { Ok(()) } else { taken }
    }

    /// Ends the request. What it holds goes with its answer, if that is large: the answer may be its own inputs.
    pub(crate) fn answered(mut self, body: Body) -> Body {
        if large_answer(&body) == 0 {
            return body;
        }
        let none = HeldBytes::none(&self.held.app);
        body.holding(std::mem::replace(&mut self.held, none))
    }

    /// The bytes that its body holds.
    pub(crate) fn held(&mut self) -> &mut HeldBytes {
        &mut self.held
    }

    /// The same request, with the bytes that were counted before it was known.
    pub(crate) fn holding(mut self, held: HeldBytes) -> Self {
        self.held = held;
        self
    }
}

/// Bytes of an answer from which on it is counted. As many small ones as a connection may ask for are bounded by their
/// number.
const LARGE_ANSWER: u64 = 16 << 10;

/// The bytes of a large answer that is known in full; 0 for others.
fn large_answer(body: &Body) -> usize {
    let bytes = body.size_hint().exact().filter(|&bytes| bytes >= LARGE_ANSWER);
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0)
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.held.app.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Bytes that a request holds, of all that may be held at once.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    app: Arc<App>,
    bytes: usize,
}

impl HeldBytes {
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
        held.take(bytes)?;
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
    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
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

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.app.metrics.body_bytes.dec_by(self.bytes as i64);
    }
}
