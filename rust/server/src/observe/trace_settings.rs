//! Trace settings of the server and of its models.

use penstock_wire::settings::TraceSettings;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Settings of the server, and by name those of models.
#[derive(Debug, Default)]
pub(crate) struct TraceSettingsTable(Mutex<HashMap<Option<Arc<str>>, TraceSettings>>);

impl TraceSettingsTable {
    /// Changes the settings of a model (`None`: the server). Returns them, and those of the server.
    ///
    /// # Errors
    /// The error of `change`; the settings stay.
    pub(crate) fn update<E>(
        &self,
        model: Option<Arc<str>>,
        change: impl FnOnce(TraceSettings) -> Result<TraceSettings, E>,
    ) -> Result<(TraceSettings, TraceSettings), E> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(all.get(&model).cloned().unwrap_or_default())?;
        all.insert(model, changed.clone());
        Ok((changed, all.get(&None).cloned().unwrap_or_default()))
    }
}
