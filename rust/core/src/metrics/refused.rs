//! Requests refused before their model was known.

use super::labels::RefusedLabels;
use crate::Kind;
use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// Requests refused before their model was known, by the kind of their error.
#[derive(Debug)]
pub struct RefusedMetrics {
    refused: Family<RefusedLabels, Counter>,
    /// In the order of [`Kind::ALL`].
    by_kind: [Counter; Kind::ALL.len()],
}

impl Default for RefusedMetrics {
    fn default() -> Self {
        let refused = Family::<RefusedLabels, Counter>::default();
        let by_kind = Kind::ALL.map(|kind| refused.get_or_create(&RefusedLabels { reason: kind.name() }).clone());
        Self { refused, by_kind }
    }
}

impl RefusedMetrics {
    /// Counts a refused request.
    pub fn add(&self, kind: Kind) {
        self.by_kind[kind as usize].inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "refused",
            "Requests refused before their model was known, by the kind of their error",
            self.refused.clone(),
        );
    }

    /// Number of refused requests.
    pub fn total(&self) -> u64 {
        self.by_kind.iter().map(Counter::get).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_counter() {
        for kind in Kind::ALL {
            let refused = RefusedMetrics::default();
            refused.add(kind);
            let counter = refused.refused.get(&RefusedLabels { reason: kind.name() }).map(|counter| counter.get());
            assert_eq!((counter, refused.total()), (Some(1), 1), "{kind:?}");
        }
    }
}
