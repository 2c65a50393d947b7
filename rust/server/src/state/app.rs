//! State of one server, which all threads and protocols share.

use super::{memory_use::MemoryUse, request_guard::RequestGuard};
use crate::{
    keys::KeyStore,
    observe::{Liveness, Log, TraceSettingsTable, live::Live, liveness::Watched, spans::Tracer},
    settings::{Action, Config, ConfigDescription, Limits, LogLevel},
    shared_memory::Regions,
    streams::StreamTable,
};
use penstock_core::{Error, Kind, Registry, Result, metrics::Metrics};
use std::{
    borrow::Cow,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

pub(crate) const SHUTTING_DOWN: &str = "the server is shutting down";
const MEMORY_IS_SHORT: &str = "the server is at memory_shed of its memory limit, retry later";

/// Phase of a server's life. It only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Bound, models are loading.
    Starting,
    /// All initial models are ready.
    Ready,
    /// As [`Ready`](Self::Ready), but reported as not ready: balancers shall send requests elsewhere.
    Leaving,
    /// New requests are refused, running ones finish.
    Draining,
}

impl Phase {
    /// Returns the log message of its start.
    const fn log_message(self) -> &'static str {
        match self {
            Self::Starting => "the server is starting",
            Self::Ready => "the server is ready",
            Self::Leaving => "the server will stop: it is not ready, and serves until drain_delay is over",
            Self::Draining => "the server drains: new requests are refused, running ones finish",
        }
    }
}

/// Problem of a file that a server needs to start.
#[derive(Debug)]
pub(crate) enum AppError {
    /// The file of keys.
    Keys(String),
    /// The audit log.
    Audit(String),
}

/// The state of one server.
#[derive(Debug)]
pub(crate) struct App {
    /// Its configuration.
    pub(crate) config: Config,
    /// Keys of clients; `None` where none is needed.
    pub(crate) keys: Option<Arc<KeyStore>>,
    /// Its models.
    pub(crate) registry: Arc<Registry>,
    /// Its metrics.
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Arc<Log>,
    /// Recent errors and requests, and who watches them.
    pub(crate) live: Arc<Live>,
    pub(crate) trace: TraceSettingsTable,
    /// `None` where no request is traced.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// Shared memory regions of clients.
    pub(crate) regions: Regions,
    /// Event streams that can be resumed.
    pub(crate) streams: StreamTable,
    /// Use of the control group's memory.
    pub(crate) memory: MemoryUse,
    /// Connections with unsent data that their sockets do not accept.
    pub(crate) writing: Arc<AtomicUsize>,
    /// Findings about the progress of work.
    pub(crate) liveness: Arc<Liveness>,
    /// Notifies of each change of readiness.
    pub(crate) changes: watch::Sender<()>,
    description: RwLock<ConfigDescription>,
    /// Copies of the limits, one for each I/O thread.
    limits: Mutex<Vec<Arc<Limits>>>,
    /// Set once a client has spoken TLS to an address without it.
    pub(crate) tls_client_logged: AtomicBool,
    /// Set once a connection has not begun with the PROXY protocol where it is expected.
    pub(crate) proxy_header_logged: AtomicBool,
    /// Time of the last log line about a failing shared cache.
    pub(crate) cache_failure_logged: Mutex<Option<Instant>>,
    phase: AtomicU8,
    requests: AtomicUsize,
    next_id: AtomicU64,
}

impl App {
    /// Creates a server that is starting.
    ///
    /// # Errors
    /// The first problem of the file of keys, or of the audit log.
    pub(crate) fn new(
        config: Config,
        registry: Arc<Registry>,
        metrics: Arc<Metrics>,
    ) -> std::result::Result<Self, AppError> {
        show_body_limit(&config, &metrics);
        let changes = watch::Sender::new(());
        let sender = changes.clone();
        registry.changes().listen(move || sender.send_replace(()));
        let log = Arc::new(Log::new(&config, metrics.log_dropped.clone()));
        let tracer = config.tracing.as_ref().map(|settings| Tracer::new(settings, &metrics, &log));
        if let Some(target) = &config.audit_log {
            log.open_audit(target).map_err(AppError::Audit)?;
        }
        let keys = config.keys.as_ref().map(|settings| KeyStore::load(settings, &log)).transpose();
        let keys = keys.map_err(AppError::Keys)?.map(Arc::new);
        Ok(Self {
            log,
            keys,
            tracer,
            memory: MemoryUse::default(),
            live: Arc::default(),
            liveness: Arc::default(),
            trace: TraceSettingsTable::default(),
            description: RwLock::new(config.description.clone()),
            limits: Mutex::default(),
            config,
            registry,
            metrics,
            writing: Arc::default(),
            regions: Regions::default(),
            streams: StreamTable::default(),
            changes,
            tls_client_logged: AtomicBool::new(false),
            proxy_header_logged: AtomicBool::new(false),
            cache_failure_logged: Mutex::new(None),
            phase: AtomicU8::new(Phase::Starting as u8),
            requests: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
        })
    }

    /// Returns the settings for operators.
    pub(crate) fn description(&self) -> ConfigDescription {
        self.description.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Describes the settings again.
    pub(crate) fn describe(&self, description: ConfigDescription) {
        *self.description.write().unwrap_or_else(PoisonError::into_inner) = description;
    }

    /// Returns the limits for an I/O thread. Each of its requests counts a reference, which other threads do not share.
    pub(crate) fn limits_of_thread(&self) -> Arc<Limits> {
        let mut threads = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let own = Arc::new(self.config.limits.clone());
        threads.push(Arc::clone(&own));
        own
    }

    /// Takes over the settings of `config` that may change, and its description.
    pub(crate) fn change(&self, config: &Config) {
        let threads = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        self.config.take_over(config);
        threads.iter().for_each(|limits| limits.take_over(&config.limits));
        drop(threads);
        self.log.reconfigure(config.access_log, config.log_level);
        show_body_limit(&self.config, &self.metrics);
        self.describe(config.description.clone());
    }

    /// Returns the current phase.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            2 => Phase::Leaving,
            _ => Phase::Draining,
        }
    }

    /// Advances to a later phase; never back.
    pub(crate) fn advance(&self, phase: Phase) {
        if self.phase.fetch_max(phase as u8, Ordering::AcqRel) < phase as u8 {
            self.log.event(LogLevel::Info, phase.log_message());
        }
        self.changes.send_replace(());
    }

    /// Returns the reason why the server as a whole is not ready.
    pub(crate) fn not_ready_reason(&self) -> Option<&'static str> {
        match self.phase() {
            Phase::Starting => Some("the server is starting"),
            Phase::Ready => None,
            Phase::Leaving => Some("the server is about to shut down"),
            Phase::Draining => Some(SHUTTING_DOWN),
        }
    }

    /// Returns the reason why health checks report that the server is not ready. A server whose work may have stalled
    /// still takes requests.
    pub(crate) fn unready_reason(&self) -> Option<Cow<'static, str>> {
        self.not_ready_reason().map(Cow::Borrowed).or_else(|| self.liveness.suspected().map(Cow::Owned))
    }

    /// Returns what the monitor of progress watches.
    pub(crate) fn watched(&self) -> Watched {
        Watched {
            liveness: Arc::clone(&self.liveness),
            settings: self.config.stalls.clone(),
            registry: Arc::downgrade(&self.registry),
            metrics: Arc::clone(&self.metrics),
            log: Arc::clone(&self.log),
            stacks: self.config.stacks,
            changes: self.changes.clone(),
        }
    }

    /// Counts a request until the guard is dropped.
    ///
    /// # Errors
    /// `Unavailable` while the server is starting or draining; `Overloaded` while its memory is almost used up.
    pub(crate) fn enter(self: &Arc<Self>) -> Result<RequestGuard> {
        if self.memory.is_short() {
            return Err(Error::new(Kind::Overloaded, MEMORY_IS_SHORT).retry_after(Duration::from_secs(1)));
        }
        if self.phase() != Phase::Leaving
            && let Some(reason) = self.not_ready_reason()
        {
            return Err(Error::new(Kind::Unavailable, reason).retry_after(Duration::from_secs(1)));
        }
        Ok(self.guard(false))
    }

    /// Counts a request as [`App::enter`] does, but admits sequences while the server drains, so that they can end.
    /// Call [`RequestGuard::check`] when the model is known.
    pub(crate) fn enter_sequence(self: &Arc<Self>) -> Result<RequestGuard> {
        if self.phase() == Phase::Draining && self.has_sequences() {
            return Ok(self.guard(true));
        }
        self.enter()
    }

    /// Sends a client's request to load or unload a model, and waits for its outcome.
    ///
    /// # Errors
    /// `NotFound` for an unknown model, `Unavailable` where clients may not load models; those of [`crate::settings::Control::request`].
    pub(crate) async fn control(self: &Arc<Self>, model: &str, action: Action) -> Result<()> {
        // Counted as a request, so that a drain waits for it.
        let _guard = self.enter()?;
        let Some(control) = &self.config.control else {
            return Err(Error::new(
                Kind::Unavailable,
                "loading and unloading models is off, the server was not started with model_control = explicit",
            ));
        };
        control.request(model.to_owned(), action).await
    }

    /// Reports whether sequences are active on any model.
    pub(crate) fn has_sequences(&self) -> bool {
        self.registry.all().iter().any(|model| model.active_sequences() > 0)
    }

    fn guard(self: &Arc<Self>, late: bool) -> RequestGuard {
        self.requests.fetch_add(1, Ordering::AcqRel);
        RequestGuard::new(self, late)
    }

    /// Counts a finished request.
    pub(crate) fn leave(&self) {
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the number of running requests.
    pub(crate) fn requests_under_way(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    /// Reports whether responses are still being sent to slow clients.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.load(Ordering::Acquire) > 0
    }

    /// Returns a log id for a request without one.
    pub(crate) fn next_request_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }
}

fn show_body_limit(config: &Config, metrics: &Metrics) {
    let limit = i64::try_from(config.limits.max_inflight_bytes.get()).unwrap_or(i64::MAX);
    metrics.body_limit_bytes.set(limit);
}
