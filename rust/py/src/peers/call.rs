//! `_core.PeerCall`: one call of a model by another, awaited on a thread or on an event loop.

use super::{
    audience::Audience,
    notifier::Notifier,
    request::arrays_of,
    wait::{Pending, block},
};
use crate::{attach::detached, errors::raised};
use penstock_core::{InferRequest, InferResponse, Model, ModelSpec, Result};
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyDict};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

/// A call. Dropped before its response, it is cancelled.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct PeerCall {
    spec: Arc<ModelSpec>,
    pending: Mutex<Option<Pending>>,
}

impl PeerCall {
    pub(super) fn new(model: Arc<Model>, request: InferRequest, audience: Audience) -> Self {
        let spec = Arc::clone(model.spec());
        Self { spec, pending: Mutex::new(Some(Pending::new(model, request, audience))) }
    }

    fn take(&self) -> PyResult<Pending> {
        self.lock().take().ok_or_else(|| PyRuntimeError::new_err("the call has ended"))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outputs<'py>(
        &self,
        py: Python<'py>,
        answer: Result<InferResponse>,
        as_handles: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let response = answer.map_err(|error| raised(py, &error))?;
        arrays_of(py, &self.spec, response, as_handles)
    }
}

#[pymethods]
impl PeerCall {
    /// Waits for the outputs by name, without the interpreter.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut pending = self.take()?;
        let answer = detached(py, move || block(&mut pending, Pending::poll, Pending::patience));
        self.outputs(py, answer, false)
    }

    /// Returns the outputs if they are there. Otherwise the notifier reports `ticket` when polling again can succeed.
    fn poll<'py>(
        &self,
        py: Python<'py>,
        notifier: &Notifier,
        ticket: u64,
        as_handles: bool,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let mut pending = self.take()?;
        let waker = notifier.waker(ticket);
        let (pending, polled) = detached(py, move || {
            let polled = pending.poll(&mut Context::from_waker(&waker));
            (pending, polled)
        });
        match polled {
            Poll::Ready(answer) => {
                detached(py, move || drop(pending));
                self.outputs(py, answer, as_handles).map(Some)
            }
            Poll::Pending => {
                *self.lock() = Some(pending);
                Ok(None)
            }
        }
    }

    /// Seconds after which to poll again even without a notification.
    #[getter]
    fn poll_after(&self) -> Option<f64> {
        self.lock().as_ref().and_then(Pending::patience).map(|patience| patience.as_secs_f64())
    }

    /// Cancels the call, unless it has ended.
    fn cancel(&self, py: Python<'_>) {
        let pending = self.lock().take();
        detached(py, move || drop(pending));
    }
}
