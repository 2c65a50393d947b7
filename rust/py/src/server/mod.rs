//! Servers: their configuration, models and signals.

mod addresses;
mod changeable;
mod config;
mod description;
mod in_process;
mod lifecycle;
mod listeners;
mod model_host;
mod models;
mod probe;
mod signals;
mod tracing;
mod warmup;

use pyo3::prelude::*;

/// Adds the classes to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<lifecycle::Server>()?;
    module.add_class::<signals::Signals>()?;
    module.add_class::<in_process::InProcessServer>()?;
    module.add_class::<models::ModelRegistry>()?;
    module.add_class::<models::PreparedModel>()?;
    module.add_class::<models::RepositoryCommand>()
}
