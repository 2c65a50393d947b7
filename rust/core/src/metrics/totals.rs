//! Totals of a model's metrics at one moment, for reports of differences.

use super::{ModelMetrics, statistics::Statistics};
use crate::{
    Kind,
    batch::policy::Reason,
    statistics::{ComputeTotals, Total},
};

/// Totals of a model since its load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricTotals {
    /// Successful requests.
    pub successes: u64,
    /// Failed requests by kind, in the order of [`Kind::ALL`].
    pub failures: [u64; Kind::ALL.len()],
    /// Batches by the reason for their cut, in the order of [`Reason::ALL`].
    pub reasons: [u64; Reason::ALL.len()],
    /// Seconds in handlers.
    pub handler: f64,
    /// Of those, seconds for abandoned requests.
    pub wasted: f64,
    /// Seconds with the GIL.
    pub gil_held: f64,
    /// Recorded tokens that were generated; `None` before the first request whose tokens are recorded.
    pub completion_tokens: Option<u64>,
    /// Time of successful requests in the queue.
    pub queue: Total,
    /// Times of successful requests' batches.
    pub compute: ComputeTotals,
}

impl ModelMetrics {
    /// Reads the totals, one after the other.
    pub fn totals(&self) -> MetricTotals {
        let (queue, compute) = self.statistics.request_times();
        MetricTotals {
            successes: self.served.iter().map(|served| served.get()).sum(),
            failures: Kind::ALL.map(|kind| self.failures(kind)),
            reasons: std::array::from_fn(|reason| self.reasons[reason].get()),
            handler: self.handler.get(),
            wasted: self.wasted.get(),
            gil_held: self.gil_held.get(),
            completion_tokens: self.completion_tokens(),
            queue,
            compute,
        }
    }
}

impl Statistics {
    /// Totals of successful requests: time in the queue, and times of their batches.
    fn request_times(&self) -> (Total, ComputeTotals) {
        self.with(|now| (now.queue, now.compute))
    }
}
