//! Models that a client may see: all, or those of its key.

use crate::keys::Key;
use penstock_core::{
    IndexEntry, Model, Registry, Result,
    metrics::{DeniedReason, Metrics},
};
use std::sync::Arc;

/// The models of a server, as one client sees them. Others are unknown to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VisibleModels<'a> {
    registry: &'a Registry,
    metrics: &'a Metrics,
    key: Option<&'a Key>,
}

impl<'a> VisibleModels<'a> {
    pub(super) fn new(registry: &'a Registry, metrics: &'a Metrics, key: Option<&'a Key>) -> Self {
        // Most keys are for all models, and need no look at their names.
        Self { registry, metrics, key: key.filter(|key| key.models.is_some()) }
    }

    /// Checks that a model may be used.
    ///
    /// # Errors
    /// `NotFound`, as for an unknown model.
    pub(crate) fn check(self, name: &str) -> Result<()> {
        if self.sees(name) {
            return Ok(());
        }
        self.metrics.keys.denied(DeniedReason::Model);
        Err(self.registry.unknown(name))
    }

    /// As [`Registry::find`].
    pub(crate) fn find(self, name: &str, version: Option<&str>) -> Result<Arc<Model>> {
        self.check(name)?;
        self.registry.find(name, version)
    }

    /// As [`Registry::find_permissively`].
    pub(crate) fn find_permissively(self, name: &str, version: Option<&str>) -> Result<Arc<Model>> {
        self.check(name)?;
        self.registry.find_permissively(name, version)
    }

    /// As [`Registry::not_ready_reason`].
    pub(crate) fn not_ready_reason(self, name: &str, version: Option<&str>) -> Result<Option<String>> {
        Registry::reason(self.find(name, version))
    }

    /// As [`Registry::select`].
    pub(crate) fn select(self, name: &str, version: Option<&str>) -> Result<Vec<Arc<Model>>> {
        self.check(name)?;
        self.registry.select(name, version)
    }

    /// All versions of the models.
    pub(crate) fn all(self) -> Vec<Arc<Model>> {
        let mut models = self.registry.all();
        models.retain(|model| self.sees(&model.spec().name));
        models
    }

    /// As [`Registry::index`].
    pub(crate) fn index(self) -> Vec<IndexEntry> {
        let mut index = self.registry.index();
        index.retain(|entry| self.sees(&entry.name));
        index
    }

    /// Reports whether a model is visible.
    pub(crate) fn sees(self, name: &str) -> bool {
        self.key.and_then(|key| key.models.as_ref()).is_none_or(|models| models.allow(name))
    }
}
