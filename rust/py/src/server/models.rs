//! `_core.Models`: the models of a running server, for whoever loads and unloads them.

use super::model_host::Loaded;
use crate::{
    attach::detached,
    convert::parameters::duration,
    errors::{raised, startup},
};
use penstock_core::{Error, Kind, Model, VersionStatus};
use penstock_server::{Action, Command as RawRequest};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyBytes, PyDict},
};
use std::sync::{Arc, Mutex, PoisonError};

/// What is served, and what clients want to be.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Models(pub(crate) Arc<Loaded>);

/// A model whose instances are built, and which nobody finds yet.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Prepared(Mutex<Option<Arc<Model>>>);

/// A client's wish to load or unload a model. Dropped without an answer, it is answered `Unavailable`.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Command(Mutex<Option<RawRequest>>);

#[pymethods]
impl Models {
    fn prepare(&self, definition: &Bound<'_, PyAny>) -> PyResult<Prepared> {
        let model = self.0.prepare(definition.py(), definition)?;
        Ok(Prepared(Mutex::new(Some(model))))
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned vectors")]
    fn check_routes(&self, py: Python<'_>, prepared: Vec<Py<Prepared>>, leaving: Vec<String>) -> PyResult<()> {
        let model = |one: &Py<Prepared>| one.get().0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let models: Vec<_> = prepared.iter().filter_map(model).collect();
        let checked = detached(py, || self.0.registry.check_routes(&models, &leaving));
        checked.map_err(|error| startup(py, "SignatureError", error.message()))
    }

    #[pyo3(signature = (model, version, refusal))]
    fn set_refusal(&self, py: Python<'_>, model: &str, version: Option<&str>, refusal: Option<&str>) -> PyResult<()> {
        let set = detached(py, || self.0.registry.set_refusal(model, version, refusal));
        set.map_err(|error| raised(py, &error))
    }

    #[expect(clippy::needless_pass_by_value, reason = "Python's lists are extracted into owned vectors")]
    fn swap(&self, py: Python<'_>, model: &str, prepared: Vec<Py<Prepared>>, keep: Vec<String>) {
        let taken = prepared.iter().filter_map(|one| one.get().0.lock().unwrap_or_else(PoisonError::into_inner).take());
        let models = taken.collect();
        detached(py, || self.0.swap(model, models, &keep));
    }

    fn describe(&self, model: &str, versions: Vec<(String, bool, String)>) {
        let note = |(version, loading, reason)| (version, VersionStatus { loading, reason });
        self.0.registry.set_statuses(model, versions.into_iter().map(note));
    }

    fn forget(&self, model: &str) {
        self.0.registry.forget(model);
    }

    fn serving(&self, model: &str) -> Vec<String> {
        self.0.registry.ready_versions(model).iter().map(ToString::to_string).collect()
    }

    fn leaving(&self, py: Python<'_>) -> usize {
        // The last reference to a model may go here.
        detached(py, || self.0.registry.drop_drained());
        self.0.registry.draining_queues().len()
    }

    fn next(&self, py: Python<'_>, timeout: f64) -> Option<Command> {
        let timeout = duration(timeout).unwrap_or_default();
        let asked = detached(py, || self.0.control.take(timeout));
        asked.map(|asked| Command(Mutex::new(Some(asked))))
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
impl Command {
    #[getter]
    fn model(&self) -> PyResult<String> {
        self.asked(|asked| asked.model.clone())
    }

    /// `None`: it asks to unload. Else the configuration and the files of a load.
    #[getter]
    fn load<'py>(&self, py: Python<'py>) -> PyResult<Option<(Option<String>, Bound<'py, PyDict>)>> {
        self.asked(|asked| match &asked.action {
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

    fn done(&self) {
        self.answer(Ok(()));
    }

    fn refuse(&self, kind: &str, message: String) {
        self.answer(Err(Error::new(Kind::from_name(kind).unwrap_or(Kind::Internal), message)));
    }
}

impl Command {
    fn asked<T>(&self, read: impl FnOnce(&RawRequest) -> T) -> PyResult<T> {
        let asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.as_ref().map(read).ok_or_else(|| PyRuntimeError::new_err("the command is answered"))
    }

    fn answer(&self, result: Result<(), Error>) {
        if let Some(asked) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            asked.answer(result);
        }
    }
}
