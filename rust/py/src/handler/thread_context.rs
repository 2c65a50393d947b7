//! What a thread computes now, for whoever logs from inside of a handler.

use penstock_core::{Job, ModelSpec};
use penstock_server::{MAX_NAME_BYTES, plain};
use pyo3::{
    prelude::*,
    types::{PyString, PyTuple},
};
use std::{cell::RefCell, sync::Arc};

thread_local! {
    static CURRENT: RefCell<Option<Arc<Current>>> = const { RefCell::new(None) };
}

/// A batch that is computed, and the ids of its requests.
#[derive(Debug)]
pub(crate) struct Current {
    spec: Arc<ModelSpec>,
    ids: Vec<String>,
}

impl Current {
    /// Nothing, if nobody asked for it when the requests came. To be called before the context takes what it needs.
    pub(crate) fn of(job: &Job) -> Option<Arc<Self>> {
        let ids: Vec<_> =
            job.parts().iter().filter_map(|part| Some(part.request.context.as_ref()?.id.clone())).collect();
        (!ids.is_empty()).then(|| Arc::new(Self { spec: Arc::clone(job.spec()), ids }))
    }

    /// Model, version and ids.
    pub(crate) fn tell<'py>(&self, py: Python<'py>) -> PyResult<(String, String, Bound<'py, PyTuple>)> {
        Ok((self.spec.name.to_string(), self.spec.version.to_string(), PyTuple::new(py, &self.ids)?))
    }
}

/// This thread computes a batch until this is dropped.
pub(crate) struct Computing(bool);

impl Computing {
    pub(crate) fn begin(job: &Job) -> Self {
        let current = Current::of(job);
        let known = current.is_some();
        if known {
            CURRENT.set(current);
        }
        Self(known)
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        if self.0 {
            CURRENT.set(None);
        }
    }
}

/// From now on requests say who they are.
#[pyfunction]
pub(crate) fn enable_request_contexts() {
    penstock_core::enable_request_contexts();
}

/// What this thread computes now: a model, its version, and the ids of the requests.
#[pyfunction]
pub(crate) fn log_context(py: Python<'_>) -> PyResult<Option<(String, String, Bound<'_, PyTuple>)>> {
    CURRENT.with_borrow(Clone::clone).map(|current| current.tell(py)).transpose()
}

/// Text as the server's log has it: what does not print is escaped, and names are cut.
#[pyfunction]
#[pyo3(signature = (text, *, cut))]
pub(crate) fn escape_text(text: &Bound<'_, PyString>, cut: bool) -> String {
    plain(&text.to_string_lossy(), if cut { MAX_NAME_BYTES } else { usize::MAX }).into_owned()
}

/// This thread is in a batch's span until this is dropped. Costs nothing for a batch that is not traced.
pub(crate) struct InTrace<'py>(Option<(Bound<'py, PyModule>, Bound<'py, PyAny>)>);

impl<'py> InTrace<'py> {
    pub(crate) fn enter(py: Python<'py>, job: &Job) -> Self {
        let attach = |(parent, state): (&str, &str)| -> PyResult<_> {
            let module = py.import("penstock._runtime.tracing")?;
            let token = module.call_method1("attach", (parent, state))?;
            Ok((!token.is_none()).then_some((module, token)))
        };
        let trace = job.trace().map(|trace| (&*trace.parent, &*trace.state));
        // A handler is not failed for its trace.
        Self(trace.and_then(|trace| attach(trace).inspect_err(|error| error.print(py)).ok().flatten()))
    }
}

impl Drop for InTrace<'_> {
    fn drop(&mut self) {
        if let Some((module, token)) = self.0.take()
            && let Err(error) = module.call_method1("detach", (&token,))
        {
            error.print(token.py());
        }
    }
}
