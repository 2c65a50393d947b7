//! Metrics of the settings.

use super::labels::ReloadLabels;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Metrics of the settings.
#[derive(Debug, Default)]
pub struct ConfigMetrics {
    config_reloads: Family<ReloadLabels, Counter>,
}

impl ConfigMetrics {
    /// Counts a reading of the settings while the server runs.
    pub fn reloaded(&self, succeeded: bool) {
        self.config_reloads.get_or_create(&Self::labels(succeeded)).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        // Both series exist from the start, so that the first failure is an increase.
        for succeeded in [true, false] {
            drop(self.config_reloads.get_or_create(&Self::labels(succeeded)));
        }
        registry.register("config_reloads", "Readings of the settings again by outcome", self.config_reloads.clone());
    }

    const fn labels(succeeded: bool) -> ReloadLabels {
        ReloadLabels { outcome: if succeeded { "ok" } else { "error" } }
    }
}
