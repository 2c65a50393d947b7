//! All metrics. Handles are created once per model; requests only update them.

use super::{
    CacheMetrics, ModelMetrics,
    histogram::Histogram,
    keys::KeyMetrics,
    labels::{BatchLabels, CustomLabels, ModelLabels, PROTOCOLS, RequestLabels, RestartLabels, Seconds},
    statistics::Statistics,
    tls::TlsMetrics,
    user::{Recorder, UserRegistry},
};
use crate::{ModelSpec, batch::policy::Reason};
use prometheus_client::{
    encoding::text::{encode_eof, encode_registry},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::exponential_buckets},
    registry::{Registry, Unit},
};
use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex, PoisonError},
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
    requests: Family<RequestLabels, Counter>,
    batches: Family<BatchLabels, Counter>,
    abandoned: Family<ModelLabels, Counter>,
    custom: Family<CustomLabels, Seconds>,
    queue: Family<ModelLabels, Histogram>,
    batch_wait: Family<ModelLabels, Histogram>,
    compute: Family<ModelLabels, Histogram>,
    encode: Family<ModelLabels, Histogram>,
    batch_size: Family<ModelLabels, Histogram>,
    handler: Family<ModelLabels, Seconds>,
    wasted: Family<ModelLabels, Seconds>,
    gil_held: Family<ModelLabels, Seconds>,
    boundary: Family<ModelLabels, Seconds>,
    queue_depth: Family<ModelLabels, Gauge>,
    in_flight: Family<ModelLabels, Gauge>,
    sequences: Family<ModelLabels, Gauge>,
    sequences_lapsed: Family<ModelLabels, Counter>,
    processes: Family<ModelLabels, Gauge>,
    restarts: Family<RestartLabels, Counter>,
    cache_hits: Family<ModelLabels, Counter>,
    cache_misses: Family<ModelLabels, Counter>,
    cache_evictions: Family<ModelLabels, Counter>,
    cache_bytes: Family<ModelLabels, Gauge>,
    cache_shared_hits: Family<ModelLabels, Counter>,
    /// Failures of the shared cache.
    pub cache_failures: Counter,
    /// Open connections.
    pub connections: Gauge,
    /// Bytes of request bodies in memory.
    pub body_bytes: Gauge,
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
    /// Requests refused before their model was known.
    pub refused: Counter,
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
            batches: Family::default(),
            abandoned: Family::default(),
            custom: Family::default(),
            queue: Family::new_with_constructor(durations),
            batch_wait: Family::new_with_constructor(durations),
            compute: Family::new_with_constructor(durations),
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
            answer_bytes: Gauge::default(),
            memory_limit_bytes: Gauge::default(),
            memory_used_bytes: Gauge::default(),
            tls: TlsMetrics::default(),
            keys: KeyMetrics::default(),
            refused: Counter::default(),
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

    fn register_requests(&self, registry: &mut Registry) {
        let seconds = || Unit::Seconds;
        registry.register("requests", "Requests by model, protocol and outcome", self.requests.clone());
        registry.register("batches", "Batches by the reason for their cut", self.batches.clone());
        registry.register("abandoned", "Requests abandoned before they were computed", self.abandoned.clone());
        registry.register("custom", "Counters that handlers define", self.custom.clone());
        registry.register_with_unit(
            "queue",
            "Time from arrival to the cut of the batch",
            seconds(),
            self.queue.clone(),
        );
        registry.register_with_unit(
            "batch_wait",
            "Time from the cut of a batch to its handler's start",
            seconds(),
            self.batch_wait.clone(),
        );
        registry.register_with_unit("compute", "The handler's time for a batch", seconds(), self.compute.clone());
        registry.register_with_unit("encode", "Time to encode a response", seconds(), self.encode.clone());
        registry.register("batch_size", "Rows in a batch", self.batch_size.clone());
        registry.register_with_unit("handler", "Time spent in handlers", seconds(), self.handler.clone());
        registry.register_with_unit(
            "wasted",
            "Time spent in handlers for abandoned requests",
            seconds(),
            self.wasted.clone(),
        );
        registry.register_with_unit(
            "gil_held",
            "Time with the GIL: the boundary's, and the handler thread's CPU time",
            seconds(),
            self.gil_held.clone(),
        );
        registry.register_with_unit("boundary", "Time with the GIL outside handlers", seconds(), self.boundary.clone());
    }

    fn register_instances(&self, registry: &mut Registry) {
        registry.register("queue_depth", "Requests in the queue", self.queue_depth.clone());
        registry.register("in_flight", "Requests accepted and not answered yet", self.in_flight.clone());
        registry.register("sequences", "Sequences that are active", self.sequences.clone());
        registry.register("sequences_lapsed", "Sequences ended by their idle timeout", self.sequences_lapsed.clone());
        registry.register("processes", "Instances whose process takes batches", self.processes.clone());
        registry.register("restarts", "Replaced processes by reason", self.restarts.clone());
        registry.register("cache_hits", "Requests answered from the cache", self.cache_hits.clone());
        registry.register("cache_misses", "Requests not found in the cache", self.cache_misses.clone());
        registry.register("cache_evictions", "Cache entries removed for room or age", self.cache_evictions.clone());
        registry.register("cache_shared_hits", "Hits in the shared cache", self.cache_shared_hits.clone());
        registry.register("cache_failures", "Failures of the shared cache", self.cache_failures.clone());
        registry.register("cache_bytes", "Bytes of the cache entries", self.cache_bytes.clone());
    }

    /// Handles of one model.
    pub fn model(&self, spec: &ModelSpec) -> ModelMetrics {
        let labels = ModelLabels { model: spec.name.to_string(), version: spec.version.to_string() };
        ModelMetrics {
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
            queue: self.queue.get_or_create(&labels).clone(),
            batch_wait: self.batch_wait.get_or_create(&labels).clone(),
            compute: self.compute.get_or_create(&labels).clone(),
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
        }
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
        let _ = encode_registry(&mut text, &registry)
            .and_then(|()| encode_registry(&mut text, &self.handlers))
            .and_then(|()| text.write_str(more))
            .and_then(|()| encode_eof(&mut text));
        text
    }
}
