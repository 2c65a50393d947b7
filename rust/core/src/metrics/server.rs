//! All metrics. Handles are created once per model; requests only update them.

use super::{
    CacheMetrics, ModelMetrics, RefusedMetrics,
    config::ConfigMetrics,
    histogram::Histogram,
    keys::KeyMetrics,
    labels::{BatchLabels, CustomLabels, ModelLabels, PROTOCOLS, RequestLabels, RestartLabels, Seconds},
    stalls::StallMetrics,
    statistics::Statistics,
    stream::StreamFamilies,
    tls::TlsMetrics,
    tokens::TokenFamilies,
    traced_family::TracedFamily,
    user::{Recorder, UserRegistry},
};
use crate::{ModelSpec, batch::policy::Reason};
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::exponential_buckets},
    registry::Registry,
};
use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// 20 us to about 84 s, doubling.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(20e-6, 2.0, 23))
}

/// 1 to 1024 rows, doubling.
fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 11))
}

/// The server's metrics, and their text form.
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Metrics that handlers define, without the prefix.
    handlers: Registry,
    user: Arc<UserRegistry>,
    pub(super) requests: Family<RequestLabels, Counter>,
    pub(super) request: TracedFamily,
    pub(super) streams: StreamFamilies,
    pub(super) tokens: TokenFamilies,
    pub(super) batches: Family<BatchLabels, Counter>,
    pub(super) abandoned: Family<ModelLabels, Counter>,
    pub(super) displaced: Family<ModelLabels, Counter>,
    pub(super) custom: Family<CustomLabels, Seconds>,
    pub(super) queue: Family<ModelLabels, Histogram>,
    pub(super) batch_wait: Family<ModelLabels, Histogram>,
    pub(super) compute: TracedFamily,
    pub(super) encode: Family<ModelLabels, Histogram>,
    pub(super) batch_size: Family<ModelLabels, Histogram>,
    pub(super) handler: Family<ModelLabels, Seconds>,
    pub(super) wasted: Family<ModelLabels, Seconds>,
    pub(super) gil_held: Family<ModelLabels, Seconds>,
    pub(super) boundary: Family<ModelLabels, Seconds>,
    pub(super) queue_depth: Family<ModelLabels, Gauge>,
    pub(super) in_flight: Family<ModelLabels, Gauge>,
    pub(super) sequences: Family<ModelLabels, Gauge>,
    pub(super) sequences_lapsed: Family<ModelLabels, Counter>,
    pub(super) processes: Family<ModelLabels, Gauge>,
    pub(super) restarts: Family<RestartLabels, Counter>,
    pub(super) cache_hits: Family<ModelLabels, Counter>,
    pub(super) cache_misses: Family<ModelLabels, Counter>,
    pub(super) cache_evictions: Family<ModelLabels, Counter>,
    pub(super) cache_bytes: Family<ModelLabels, Gauge>,
    pub(super) cache_shared_hits: Family<ModelLabels, Counter>,
    /// Failures of the shared cache.
    pub cache_failures: Counter,
    /// Open connections.
    pub connections: Gauge,
    /// Bytes of request bodies in memory.
    pub body_bytes: Gauge,
    /// Limit on `body_bytes`.
    pub body_limit_bytes: Gauge,
    /// Bytes of large responses that are not sent yet.
    pub answer_bytes: Gauge,
    /// Memory limit of the process's control group; 0 without one.
    pub memory_limit_bytes: Gauge,
    /// Memory that the control group uses and cannot drop; 0 without a limit.
    pub memory_used_bytes: Gauge,
    /// Handshakes, reloads and certificates of TLS.
    pub tls: TlsMetrics,
    /// Refused clients and reloads of keys.
    pub keys: KeyMetrics,
    /// Readings of the settings.
    pub config: ConfigMetrics,
    /// Metrics of progress.
    pub stalls: StallMetrics,
    /// Requests refused before their model was known.
    pub refused: RefusedMetrics,
    /// Access log lines dropped because the log was too slow.
    pub log_dropped: Counter,
    /// Spans dropped because the collector rejected them or was too slow.
    pub spans_dropped: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let user = Arc::new(UserRegistry::default());
        let mut handlers = Registry::default();
        handlers.register_collector(Box::new(Arc::clone(&user)));
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("penstock")),
            handlers,
            user,
            requests: Family::default(),
            request: TracedFamily::new(Histogram::of_requests),
            streams: StreamFamilies::default(),
            tokens: TokenFamilies::default(),
            batches: Family::default(),
            abandoned: Family::default(),
            displaced: Family::default(),
            custom: Family::default(),
            queue: Family::new_with_constructor(durations),
            batch_wait: Family::new_with_constructor(durations),
            compute: TracedFamily::new(durations),
            encode: Family::new_with_constructor(durations),
            batch_size: Family::new_with_constructor(sizes),
            handler: Family::default(),
            wasted: Family::default(),
            gil_held: Family::default(),
            boundary: Family::default(),
            queue_depth: Family::default(),
            in_flight: Family::default(),
            sequences: Family::default(),
            sequences_lapsed: Family::default(),
            processes: Family::default(),
            restarts: Family::default(),
            cache_hits: Family::default(),
            cache_misses: Family::default(),
            cache_evictions: Family::default(),
            cache_bytes: Family::default(),
            cache_shared_hits: Family::default(),
            cache_failures: Counter::default(),
            connections: Gauge::default(),
            body_bytes: Gauge::default(),
            body_limit_bytes: Gauge::default(),
            answer_bytes: Gauge::default(),
            memory_limit_bytes: Gauge::default(),
            memory_used_bytes: Gauge::default(),
            tls: TlsMetrics::default(),
            keys: KeyMetrics::default(),
            config: ConfigMetrics::default(),
            stalls: StallMetrics::default(),
            refused: RefusedMetrics::default(),
            log_dropped: Counter::default(),
            spans_dropped: Counter::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    /// Registers all names and help texts. A test compares them with `docs/metrics.md`.
    fn register(&self) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        self.register_requests(&mut registry);
        self.register_instances(&mut registry);
        self.register_server(&mut registry);
    }

    /// Handles of one model.
    pub fn model(&self, spec: &ModelSpec) -> ModelMetrics {
        let labels = ModelLabels { model: spec.name.to_string(), version: spec.version.to_string() };
        let metrics = ModelMetrics {
            failures: Default::default(),
            served: PROTOCOLS.map(|protocol| {
                self.requests
                    .get_or_create(&RequestLabels {
                        model: labels.model.clone(),
                        version: labels.version.clone(),
                        protocol: protocol.name(),
                        outcome: "ok",
                    })
                    .clone()
            }),
            request: PROTOCOLS.map(|protocol| {
                self.request.get_or_create(format!("{},protocol=\"{}\"", labels.text(), protocol.name()))
            }),
            stream: spec.streams.then(|| self.streams.of(&labels)),
            token_families: self.tokens.clone(),
            tokens: OnceLock::new(),
            reasons: Reason::ALL.map(|reason| {
                self.batches
                    .get_or_create(&BatchLabels {
                        model: labels.model.clone(),
                        version: labels.version.clone(),
                        reason: reason.name(),
                    })
                    .clone()
            }),
            requests: self.requests.clone(),
            recorder: Recorder::new(self.custom.clone(), Arc::clone(&self.user), Arc::clone(&spec.buckets)),
            restarts: self.restarts.clone(),
            processes: self.processes.clone(),
            abandoned: self.abandoned.get_or_create(&labels).clone(),
            displaced: self.displaced.get_or_create(&labels).clone(),
            queue: self.queue.get_or_create(&labels).clone(),
            batch_wait: self.batch_wait.get_or_create(&labels).clone(),
            compute: self.compute.get_or_create(labels.text()),
            encode: self.encode.get_or_create(&labels).clone(),
            latency: Histogram::of_latencies(),
            batch_size: self.batch_size.get_or_create(&labels).clone(),
            handler: self.handler.get_or_create(&labels).clone(),
            wasted: self.wasted.get_or_create(&labels).clone(),
            gil_held: self.gil_held.get_or_create(&labels).clone(),
            boundary: self.boundary.get_or_create(&labels).clone(),
            queue_depth: self.queue_depth.get_or_create(&labels).clone(),
            in_flight: self.in_flight.get_or_create(&labels).clone(),
            statistics: Statistics::default(),
            cache: spec.cache.as_ref().map_or_else(CacheMetrics::default, |_| CacheMetrics {
                hits: self.cache_hits.get_or_create(&labels).clone(),
                misses: self.cache_misses.get_or_create(&labels).clone(),
                shared_hits: self.cache_shared_hits.get_or_create(&labels).clone(),
                evictions: self.cache_evictions.get_or_create(&labels).clone(),
                bytes: self.cache_bytes.get_or_create(&labels).clone(),
            }),
            sequences: spec
                .sequences
                .as_ref()
                .map_or_else(Gauge::default, |_| self.sequences.get_or_create(&labels).clone()),
            sequences_lapsed: spec
                .sequences
                .as_ref()
                .map_or_else(Counter::default, |_| self.sequences_lapsed.get_or_create(&labels).clone()),
            labels,
        };
        metrics.create_failures();
        metrics
    }

    /// Text form for Prometheus (OpenMetrics 1.0).
    pub fn exposition(&self) -> String {
        self.exposition_with("")
    }

    /// Text form with additional metric families.
    pub fn exposition_with(&self, more: &str) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing to a `String` cannot fail.
        self.write_traced(&mut text);
        let _ = encode_registry(&mut text, &registry)
            .and_then(|()| encode_registry(&mut text, &self.handlers))
            .and_then(|()| text.write_str(more))
            .and_then(|()| encode_eof(&mut text));
        text
    }
}
