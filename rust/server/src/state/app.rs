//! What all threads and protocols share.

use super::request_guard::RequestGuard;
use crate::{
    observe::{Log, TraceSettingsTable, spans::Tracer},
    settings::{Action, Config, LogLevel},
    shared_memory::Regions,
};
use penstock_core::{Error, Kind, Registry, Result, metrics::Metrics};
use penstock_wire::rest::triton_metrics;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

pub(crate) const SHUTTING_DOWN: &str = "the server is shutting down";

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
    const fn log_message(self) -> &'static str {
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
    pub(crate) trace: TraceSettingsTable,
    /// `None` where no request is traced.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The shared memory that clients have registered.
    pub(crate) regions: Regions,
    /// Connections that have more to send than their sockets take.
    pub(crate) writing: Arc<AtomicUsize>,
    /// Sends at each change of a model's or of the server's readiness.
    pub(crate) changes: watch::Sender<()>,
    /// When it was last said that the shared cache fails.
    pub(crate) cache_failure_logged: Mutex<Option<Instant>>,
    phase: AtomicU8,
    requests: AtomicUsize,
    next_id: AtomicU64,
}

impl App {
    /// All metrics, as Prometheus scrapes them.
    pub(crate) fn exposition(&self) -> String {
        let triton = self.config.triton_metrics.then(|| triton_metrics(&self.registry.all()));
        self.metrics.exposition_with(&triton.unwrap_or_default())
    }

    /// A server that is starting.
    pub(crate) fn new(config: Config, registry: Arc<Registry>, metrics: Arc<Metrics>) -> Self {
        let changes = watch::Sender::new(());
        let sender = changes.clone();
        registry.changes().listen(move || sender.send_replace(()));
        let log = Arc::new(Log::new(config.access_log, config.log_level, metrics.log_dropped.clone()));
        let tracer = config.tracing.as_ref().map(|settings| Tracer::new(settings, &metrics, &log));
        Self {
            log,
            tracer,
            trace: TraceSettingsTable::default(),
            config,
            registry,
            metrics,
            writing: Arc::default(),
            regions: Regions::default(),
            changes,
            cache_failure_logged: Mutex::new(None),
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
            self.log.event(LogLevel::Info, phase.log_message());
        }
        self.changes.send_replace(());
    }

    /// Why the server as a whole is not ready, if it is not.
    pub(crate) fn not_ready_reason(&self) -> Option<&'static str> {
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
        if let Some(reason) = self.not_ready_reason() {
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

    /// Sends a client's request to load or unload a model, and waits for its outcome.
    ///
    /// # Errors
    /// `NotFound` for an unknown model, `Unavailable` where clients may not load models; and as [`crate::settings::Control::ask`].
    pub(crate) async fn control(self: &Arc<Self>, model: &str, action: Action) -> Result<()> {
        // Counted as a request, so that a drain waits for it.
        let _guard = self.enter()?;
        let Some(control) = &self.config.control else {
            return Err(Error::new(
                Kind::Unavailable,
                "loading and unloading models is off, the server was not started with model_control = explicit",
            ));
        };
        control.ask(model.to_owned(), action).await
    }

    /// Whether sequences are active on any model.
    pub(crate) fn has_sequences(&self) -> bool {
        self.registry.all().iter().any(|model| model.active_sequences() > 0)
    }

    fn guard(self: &Arc<Self>, late: bool) -> RequestGuard {
        self.requests.fetch_add(1, Ordering::AcqRel);
        RequestGuard::new(self, late)
    }

    /// Counts a request out again.
    pub(crate) fn leave(&self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
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
