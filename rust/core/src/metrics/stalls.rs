//! Metrics of progress: what has stalled, and the wait for the interpreter.

use super::{histogram::Histogram, labels::StalledLabels};
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge, histogram::exponential_buckets},
    registry::{Registry, Unit},
};

/// Metrics of progress.
#[derive(Debug)]
pub struct StallMetrics {
    stalled: Family<StalledLabels, Gauge>,
    /// Seconds that a thread waited for the interpreter.
    pub interpreter_wait: Histogram,
}

impl Default for StallMetrics {
    fn default() -> Self {
        // 20 us to about 84 s, doubling.
        Self { stalled: Family::default(), interpreter_wait: Histogram::new(exponential_buckets(20e-6, 2.0, 23)) }
    }
}

impl StallMetrics {
    /// Sets whether something has stalled: model, version and instance.
    pub fn set_stalled(&self, [model, version, instance]: [String; 3], stalled: bool) {
        self.stalled.get_or_create(&StalledLabels { model, version, instance }).set(stalled.into());
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("stalled", "Instances and threads that make no progress", self.stalled.clone());
        registry.register_with_unit(
            "interpreter_wait",
            "Time that a thread waited for the interpreter",
            Unit::Seconds,
            self.interpreter_wait.clone(),
        );
    }
}
