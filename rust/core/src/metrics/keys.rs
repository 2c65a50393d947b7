//! Metrics of keys. A server without keys has no series of them.

use super::labels::{DeniedLabels, ReloadLabels};
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Reason for which a client was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedReason {
    /// It sent no key.
    Missing,
    /// Its key is not known.
    Unknown,
    /// Its key has expired.
    Expired,
    /// Its key lacks the scope.
    Scope,
    /// Its key is not for the model.
    Model,
    /// It exceeds the rate or concurrency of its key.
    Rate,
}

impl DeniedReason {
    const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Scope => "scope",
            Self::Model => "model",
            Self::Rate => "rate",
        }
    }
}

/// Metrics of keys.
#[derive(Debug, Default)]
pub struct KeyMetrics {
    denied: Family<DeniedLabels, Counter>,
    reloads: Family<ReloadLabels, Counter>,
}

impl KeyMetrics {
    /// Counts a refused client.
    pub fn denied(&self, reason: DeniedReason) {
        self.denied.get_or_create(&DeniedLabels { reason: reason.name() }).inc();
    }

    /// Counts a reading of the changed file.
    pub fn reloaded(&self, succeeded: bool) {
        let outcome = if succeeded { "ok" } else { "error" };
        self.reloads.get_or_create(&ReloadLabels { outcome }).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("denied", "Requests refused by their key, by reason", self.denied.clone());
        registry.register("keys_reloads", "Readings of the changed keys by outcome", self.reloads.clone());
    }
}
