//! `ModelStatistics`.

use crate::state::App;
use penstock_core::{Error, Result};
use penstock_wire::{
    generated::inference::{ModelStatisticsRequest, ModelStatisticsResponse},
    grpc::statistics,
};

/// Returns the statistics of a version, of all versions of a model, or without a name of all models.
pub(super) fn select(app: &App, request: &ModelStatisticsRequest) -> Result<ModelStatisticsResponse> {
    let version = Some(&*request.version).filter(|version| !version.is_empty());
    let models = match (&*request.name, version) {
        ("", None) => Ok(app.registry.all()),
        ("", Some(version)) => {
            Err(Error::invalid(format!("version '{version}' has no model name, expected a name and a version")))
        }
        (name, version) => app.registry.select(name, version),
    };
    Ok(statistics(&models?))
}
