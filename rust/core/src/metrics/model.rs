//! Metrics of one model version.

use super::{
    labels::{ModelLabels, PROTOCOLS, RequestLabels, RestartLabels, Seconds},
    statistics::Statistics,
    user::Recorder,
};
use crate::{InterpreterTimes, Kind, Protocol, batch::policy::Reason};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};
use std::time::Duration;

/// The metrics of one model version.
#[derive(Debug)]
pub struct ModelMetrics {
    pub(super) labels: ModelLabels,
    pub(super) requests: Family<RequestLabels, Counter>,
    pub(super) recorder: Recorder,
    pub(super) restarts: Family<RestartLabels, Counter>,
    pub(super) processes: Family<ModelLabels, Gauge>,
    pub(super) served: [Counter; 3],
    pub(super) reasons: [Counter; Reason::ALL.len()],
    /// Requests whose caller left before they were computed.
    pub abandoned: Counter,
    /// Seconds from arrival to the cut of the batch.
    pub queue: Histogram,
    /// Seconds from the cut of a batch to its handler's start.
    pub batch_wait: Histogram,
    /// The handler's seconds for a batch.
    pub compute: Histogram,
    /// Seconds to encode an answer.
    pub encode: Histogram,
    /// Rows in a batch.
    pub batch_size: Histogram,
    pub(super) handler: Seconds,
    pub(super) wasted: Seconds,
    pub(super) gil_held: Seconds,
    pub(super) boundary: Seconds,
    /// Requests that wait in the queue.
    pub queue_depth: Gauge,
    /// Requests that were accepted and not yet answered.
    pub in_flight: Gauge,
    /// The protocol's statistics, from zero at each load.
    pub statistics: Statistics,
    /// Those of its cache; of no model's where it has none.
    pub cache: CacheMetrics,
    /// Sequences that are active.
    pub sequences: Gauge,
    /// Sequences given up after their idle timeout.
    pub sequences_lapsed: Counter,
}

/// The metrics of one model's cache.
#[derive(Clone, Debug, Default)]
pub struct CacheMetrics {
    /// Requests answered without computing them.
    pub hits: Counter,
    /// Requests whose answer was not kept.
    pub misses: Counter,
    /// Those of the hits that another server computed, or this one before.
    pub shared_hits: Counter,
    /// Answers no longer kept, for room or age.
    pub evictions: Counter,
    /// Bytes of the answers that are kept.
    pub bytes: Gauge,
}

impl ModelMetrics {
    /// One request was answered well.
    pub fn served(&self, protocol: Protocol) {
        self.served[protocol as usize].inc();
    }

    /// One request was answered with an error.
    pub fn failed(&self, protocol: Protocol, kind: Kind) {
        self.requests
            .get_or_create(&RequestLabels {
                model: self.labels.model.clone(),
                version: self.labels.version.clone(),
                protocol: protocol.name(),
                outcome: kind.name(),
            })
            .inc();
    }

    /// How many requests were answered with an error of this kind.
    pub fn failures(&self, kind: Kind) -> u64 {
        let of = |protocol: Protocol| {
            let ModelLabels { model, version } = self.labels.clone();
            let labels = RequestLabels { model, version, protocol: protocol.name(), outcome: kind.name() };
            self.requests.get(&labels).map_or(0, |requests| requests.get())
        };
        PROTOCOLS.into_iter().map(of).sum()
    }

    /// One batch was cut for `reason`.
    pub fn cut(&self, reason: Reason, rows: usize) {
        self.reasons[reason as usize].inc();
        self.batch_size.observe(rows as f64);
    }

    /// One batch went through the interpreter.
    pub fn interpreter(&self, times: InterpreterTimes) {
        self.handler.inc_by(times.handler.as_secs_f64());
        self.boundary.inc_by(times.boundary.as_secs_f64());
        self.gil_held.inc_by((times.boundary + times.handler_cpu).as_secs_f64());
    }

    /// So much of the handler's time went to callers who had left.
    pub(crate) fn wasted(&self, time: Duration) {
        self.wasted.inc_by(time.as_secs_f64());
    }

    /// One process more or less takes this model's batches.
    pub fn processes(&self, change: i64) {
        self.processes.get_or_create(&self.labels).inc_by(change);
    }

    /// A process of this model was replaced.
    pub fn restarted(&self, reason: &'static str) {
        let ModelLabels { model, version } = self.labels.clone();
        self.restarts.get_or_create(&RestartLabels { model, version, reason }).inc();
    }
}
