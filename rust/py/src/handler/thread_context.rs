//! Context of a handler's thread: the batch for log records, and the span for OpenTelemetry.

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

/// A batch and the ids of its requests.
#[derive(Debug)]
pub(crate) struct Current {
    spec: Arc<ModelSpec>,
    ids: Vec<String>,
}

impl Current {
    /// `None` if request contexts were off when the requests came. Call it before the context takes the metadata.
    pub(crate) fn of(job: &Job) -> Option<Arc<Self>> {
        Self::of_all([job])
    }

    /// As [`Current::of`], for the requests of several batches of one model.
    fn of_all<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Option<Arc<Self>> {
        let mut spec = None;
        let parts = jobs.into_iter().flat_map(|job| {
            spec.get_or_insert_with(|| Arc::clone(job.spec()));
            job.parts()
        });
        let ids: Vec<_> = parts.filter_map(|part| Some(part.request.context.as_ref()?.id.clone())).collect();
        spec.filter(|_| !ids.is_empty()).map(|spec| Arc::new(Self { spec, ids }))
    }

    /// Model, version and ids.
    pub(crate) fn tell<'py>(&self, py: Python<'py>) -> PyResult<(String, String, Bound<'py, PyTuple>)> {
        Ok((self.spec.name.to_string(), self.spec.version.to_string(), PyTuple::new(py, &self.ids)?))
    }
}

/// Sets the thread's log context until it is dropped.
pub(crate) struct LogScope(bool);

impl LogScope {
    pub(crate) fn begin(job: &Job) -> Self {
        Self::of([job])
    }

    /// The context of several batches of one model.
    pub(super) fn of<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Self {
        let current = Current::of_all(jobs);
        let known = current.is_some();
        if known {
            CURRENT.set(current);
        }
        Self(known)
    }
}

impl Drop for LogScope {
    fn drop(&mut self) {
        if self.0 {
            CURRENT.set(None);
        }
    }
}

/// Lets requests carry their ids from now on.
#[pyfunction]
pub(crate) fn enable_request_contexts() {
    penstock_core::enable_request_contexts();
}

/// Returns the batch that this thread computes: model, version and request ids.
#[pyfunction]
pub(crate) fn log_context(py: Python<'_>) -> PyResult<Option<(String, String, Bound<'_, PyTuple>)>> {
    CURRENT.with_borrow(Clone::clone).map(|current| current.tell(py)).transpose()
}

/// Escapes unprintable characters as the server's log does; with `cut`, also shortens the text.
#[pyfunction]
#[pyo3(signature = (text, *, cut))]
pub(crate) fn escape_text(text: &Bound<'_, PyString>, cut: bool) -> String {
    plain(&text.to_string_lossy(), if cut { MAX_NAME_BYTES } else { usize::MAX }).into_owned()
}

/// Sets the thread's OpenTelemetry context to the batch's span until it is dropped. Free without tracing.
pub(crate) struct TraceScope<'py>(Option<(Bound<'py, PyModule>, Bound<'py, PyAny>)>);

impl<'py> TraceScope<'py> {
    pub(crate) fn enter(py: Python<'py>, job: &Job) -> Self {
        Self::of(py, [job])
    }

    /// The span of the first traced batch.
    pub(super) fn of<'a>(py: Python<'py>, jobs: impl IntoIterator<Item = &'a Job>) -> Self {
        let attach = |(parent, state): (&str, &str)| -> PyResult<_> {
            let module = py.import("penstock._runtime.tracing")?;
            let token = module.call_method1("attach", (parent, state))?;
            Ok((!token.is_none()).then_some((module, token)))
        };
        let trace = jobs.into_iter().find_map(Job::trace).map(|trace| (&*trace.parent, &*trace.state));
        // A handler must not fail because of its trace.
        Self(trace.and_then(|trace| attach(trace).inspect_err(|error| error.print(py)).ok().flatten()))
    }
}

impl Drop for TraceScope<'_> {
    fn drop(&mut self) {
        if let Some((module, token)) = self.0.take()
            && let Err(error) = module.call_method1("detach", (&token,))
        {
            error.print(token.py());
        }
    }
}
