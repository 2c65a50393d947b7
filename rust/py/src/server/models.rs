//! `_core.ModelRegistry`: the models of a running server, to load and unload them.

use super::model_host::ModelHost;
use crate::{
    attach::detached,
    errors::{raised, startup},
    seconds::duration,
};
use penstock_core::{Error, Kind, Model, VersionStatus};
use penstock_server::{Action, Command};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::sync::{Arc, Mutex, PoisonError};

/// The served models, and the commands of clients.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct ModelRegistry(pub(crate) Arc<ModelHost>);

/// A model whose instances are built, before it is served.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct PreparedModel(Mutex<Option<Arc<Model>>>);

/// A command of a client to load or unload a model. Dropped without a result, it fails as `Unavailable`.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct RepositoryCommand(Mutex<Option<Command>>);

#[pymethods]
impl ModelRegistry {
    fn prepare(&self, definition: &Bound<'_, PyAny>) -> PyResult<PreparedModel> {
        let model = self.0.prepare(definition.py(), definition)?;
        Ok(PreparedModel(Mutex::new(Some(model))))
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned vectors")]
    fn check_routes(&self, py: Python<'_>, prepared: Vec<Py<PreparedModel>>, removed: Vec<String>) -> PyResult<()> {
        let model = |one: &Py<PreparedModel>| one.get().0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let models: Vec<_> = prepared.iter().filter_map(model).collect();
        let checked = detached(py, || self.0.registry.check_routes(&models, &removed));
        checked.map_err(|error| startup(py, "SignatureError", error.message()))
    }

    #[pyo3(signature = (model, version, refusal))]
    fn set_refusal(&self, py: Python<'_>, model: &str, version: Option<&str>, refusal: Option<&str>) -> PyResult<()> {
        let set = detached(py, || self.0.registry.set_refusal(model, version, refusal));
        set.map_err(|error| raised(py, &error))
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned vectors")]
    fn swap(&self, py: Python<'_>, model: &str, prepared: Vec<Py<PreparedModel>>, retain: Vec<String>) {
        let taken = prepared.iter().filter_map(|one| one.get().0.lock().unwrap_or_else(PoisonError::into_inner).take());
        let models = taken.collect();
        detached(py, || self.0.swap(model, models, &retain));
    }

    fn set_states(&self, model: &str, versions: Vec<(String, bool, String)>) {
        let note = |(version, loading, reason)| (version, VersionStatus { loading, reason });
        self.0.registry.set_statuses(model, versions.into_iter().map(note));
    }

    fn forget(&self, model: &str) {
        self.0.registry.forget(model);
    }

    fn serving(&self, model: &str) -> Vec<String> {
        self.0.registry.ready_versions(model).iter().map(ToString::to_string).collect()
    }

    fn draining_count(&self, py: Python<'_>) -> usize {
        // The last reference to a model may be dropped here.
        detached(py, || self.0.registry.drop_drained());
        self.0.registry.draining_queues().len()
    }

    fn next_command(&self, py: Python<'_>, timeout: f64) -> Option<RepositoryCommand> {
        let timeout = duration(timeout).unwrap_or_default();
        let command = detached(py, || self.0.control.take(timeout));
        command.map(|command| RepositoryCommand(Mutex::new(Some(command))))
    }

    fn close(&self) {
        self.0.control.close();
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0.control.is_closed()
    }
}

#[pymethods]
impl RepositoryCommand {
    #[getter]
    fn model(&self) -> PyResult<String> {
        self.read(|command| command.model.clone())
    }

    /// The configuration and the files of a load; `None` to unload.
    #[getter]
    fn load<'py>(&self, py: Python<'py>) -> PyResult<Option<(Option<String>, Bound<'py, PyDict>)>> {
        self.read(|command| match &command.action {
            Action::Unload => Ok(None),
            Action::Load(load) => {
                let files = PyDict::new(py);
                for (name, content) in &load.files {
                    files.set_item(name, PyBytes::new(py, content))?;
                }
                Ok(Some((load.config.clone(), files)))
            }
        })?
    }

    fn succeed(&self) {
        self.respond(Ok(()));
    }

    fn fail(&self, kind: &str, message: String) {
        self.respond(Err(Error::new(Kind::from_name(kind).unwrap_or(Kind::Internal), message)));
    }
}

impl RepositoryCommand {
    fn read<T>(&self, read: impl FnOnce(&Command) -> T) -> PyResult<T> {
        let command = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        command.as_ref().map(read).ok_or_else(|| PyRuntimeError::new_err("the command is answered"))
    }

    fn respond(&self, result: Result<(), Error>) {
        if let Some(command) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            command.complete(result);
        }
    }
}
