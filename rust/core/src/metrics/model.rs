//! Metrics of one model version.

use super::{
    histogram::Histogram,
    labels::{ModelLabels, PROTOCOLS, RequestLabels, RestartLabels, Seconds},
    statistics::Statistics,
    stream::StreamMetrics,
    tokens::{TokenFamilies, TokenMetrics},
    user::Recorder,
};
use crate::{InterpreterTimes, Kind, Protocol, batch::policy::Reason};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use std::{sync::OnceLock, time::Duration};

/// Metrics of one model version.
#[derive(Debug)]
pub struct ModelMetrics {
    pub(super) labels: ModelLabels,
    pub(super) requests: Family<RequestLabels, Counter>,
    pub(super) recorder: Recorder,
    pub(super) restarts: Family<RestartLabels, Counter>,
    pub(super) processes: Family<ModelLabels, Gauge>,
    pub(super) served: [Counter; 3],
    /// Failures by protocol and kind. Those that are not the service's fault are created when they occur.
    pub(super) failures: [[OnceLock<Counter>; Kind::ALL.len()]; 3],
    pub(super) request: [Histogram; 3],
    pub(super) reasons: [Counter; Reason::ALL.len()],
    /// Requests abandoned before they were computed.
    pub abandoned: Counter,
    /// Waiting requests refused in favour of a higher priority.
    pub displaced: Counter,
    /// Seconds from arrival to the cut of the batch.
    pub queue: Histogram,
    /// Seconds from the cut of a batch to its handler's start.
    pub batch_wait: Histogram,
    /// Handler's seconds for a batch.
    pub compute: Histogram,
    /// Seconds to encode a response.
    pub encode: Histogram,
    /// Seconds from a request's arrival to its response, of successful requests while the live page is open.
    pub latency: Histogram,
    /// Metrics of streams' responses; `None` for a model that does not stream.
    pub stream: Option<StreamMetrics>,
    pub(super) token_families: TokenFamilies,
    /// Metrics of tokens, from the first request on whose tokens are recorded.
    pub(super) tokens: OnceLock<TokenMetrics>,
    /// Rows in a batch.
    pub batch_size: Histogram,
    pub(super) handler: Seconds,
    pub(super) wasted: Seconds,
    pub(super) gil_held: Seconds,
    pub(super) boundary: Seconds,
    /// Requests in the queue.
    pub queue_depth: Gauge,
    /// Requests accepted and not answered yet.
    pub in_flight: Gauge,
    /// Protocol's statistics, from zero at each load.
    pub statistics: Statistics,
    /// Metrics of the cache; detached from the registry if the model has no cache.
    pub cache: CacheMetrics,
    /// Active sequences.
    pub sequences: Gauge,
    /// Sequences ended by their idle timeout.
    pub sequences_lapsed: Counter,
}

/// Metrics of one model's cache.
#[derive(Clone, Debug, Default)]
pub struct CacheMetrics {
    /// Requests answered from the cache.
    pub hits: Counter,
    /// Requests not found in the cache.
    pub misses: Counter,
    /// Hits in the shared cache.
    pub shared_hits: Counter,
    /// Entries removed for room or age.
    pub evictions: Counter,
    /// Bytes of the entries.
    pub bytes: Gauge,
}

impl ModelMetrics {
    /// Counts a successful request.
    pub fn served(&self, protocol: Protocol) {
        self.served[protocol as usize].inc();
    }

    /// Observes the time of a successful request, from its arrival to its response.
    pub fn request_time(&self, protocol: Protocol, time: Duration, trace_id: Option<&[u8; 16]>) {
        self.request[protocol as usize].observe_traced(time.as_secs_f64(), trace_id);
    }

    /// Counts a failed request.
    pub fn failed(&self, protocol: Protocol, kind: Kind) {
        let created = || self.requests.get_or_create(&self.request_labels(protocol, kind)).clone();
        self.failures[protocol as usize][kind as usize].get_or_init(created).inc();
    }

    /// Creates the counters of failures that are the service's fault: an increase from nothing would be no increase.
    pub(super) fn create_failures(&self) {
        for kind in Kind::ALL.into_iter().filter(|kind| kind.is_fault_of_service()) {
            for protocol in PROTOCOLS {
                let counter = self.requests.get_or_create(&self.request_labels(protocol, kind)).clone();
                let _ = self.failures[protocol as usize][kind as usize].set(counter);
            }
        }
    }

    fn request_labels(&self, protocol: Protocol, kind: Kind) -> RequestLabels {
        let ModelLabels { model, version } = self.labels.clone();
        RequestLabels { model, version, protocol: protocol.name(), outcome: kind.name() }
    }

    /// Number of requests that failed with a kind.
    pub fn failures(&self, kind: Kind) -> u64 {
        let of = |protocol: Protocol| {
            self.requests.get(&self.request_labels(protocol, kind)).map_or(0, |requests| requests.get())
        };
        PROTOCOLS.into_iter().map(of).sum()
    }

    /// Counts a batch by the reason for its cut.
    pub fn cut(&self, reason: Reason, rows: usize) {
        self.reasons[reason as usize].inc();
        self.batch_size.observe(rows as f64);
    }

    /// Counts the time of a batch around the GIL.
    pub fn interpreter(&self, times: InterpreterTimes) {
        self.handler.inc_by(times.handler.as_secs_f64());
        self.boundary.inc_by(times.boundary.as_secs_f64());
        self.gil_held.inc_by((times.boundary + times.handler_cpu).as_secs_f64());
    }

    /// Counts handler time for abandoned requests.
    pub(crate) fn wasted(&self, time: Duration) {
        self.wasted.inc_by(time.as_secs_f64());
    }

    /// Adds to the number of processes that take batches.
    pub fn processes(&self, change: i64) {
        self.processes.get_or_create(&self.labels).inc_by(change);
    }

    /// Counts a replaced process.
    pub fn restarted(&self, reason: &'static str) {
        let ModelLabels { model, version } = self.labels.clone();
        self.restarts.get_or_create(&RestartLabels { model, version, reason }).inc();
    }
}
