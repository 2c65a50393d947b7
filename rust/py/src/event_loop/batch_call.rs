//! `_core.BatchCall`: one batch that a task of the loop computes.

use super::shared::Shared;
use crate::{
    attach::detached,
    definition::HandlerSpec,
    forks,
    handler::{
        batch_output::{self, HandlerResult},
        context::Context,
        stream,
        thread_context::Current,
    },
};
use penstock_core::{BatchOutput, Error, InterpreterTimes, Job, Kind, ModelSpec, Streaming, TraceText};
use pyo3::{prelude::*, types::PyTuple};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A batch, from its arguments to its response. Dropped without a response, it fails its requests.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct BatchCall {
    /// The arguments of the handler.
    #[pyo3(get)]
    arguments: Py<PyTuple>,
    context: Option<Py<Context>>,
    current: Option<Arc<Current>>,
    trace: Option<TraceText>,
    handler_spec: Arc<HandlerSpec>,
    shared: Arc<Shared>,
    pending: Mutex<PendingResponse>,
    began: Instant,
    /// The time that it took to create the arguments.
    handed_in: Duration,
}

/// The responses that a call still has to send.
enum PendingResponse {
    /// One response.
    Once(Job),
    /// A stream.
    Many(Streaming),
    Ended,
}

/// The parts of a call.
pub(super) struct Parts {
    pub(super) job: Job,
    pub(super) arguments: Py<PyTuple>,
    pub(super) context: Option<Py<Context>>,
    pub(super) current: Option<Arc<Current>>,
    pub(super) handler_spec: Arc<HandlerSpec>,
    pub(super) shared: Arc<Shared>,
    pub(super) handed_in: Duration,
}

impl BatchCall {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { job, arguments, context, current, handler_spec, shared, handed_in } = parts;
        let trace = job.trace().cloned();
        let pending = if job.spec().streams { PendingResponse::Many(job.stream()) } else { PendingResponse::Once(job) };
        let pending = Mutex::new(pending);
        Self { arguments, context, current, trace, handler_spec, shared, pending, began: Instant::now(), handed_in }
    }

    fn lock(&self) -> MutexGuard<'_, PendingResponse> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.end_copy();
        pending
    }

    fn take(&self) -> PendingResponse {
        std::mem::replace(&mut *self.lock(), PendingResponse::Ended)
    }

    /// The handler's time is the elapsed time: the part of it that was spent waiting is unknown.
    fn times(&self, ended: Instant) -> InterpreterTimes {
        let hand_out = ended.elapsed();
        InterpreterTimes {
            handler: ended - self.began,
            handler_cpu: Duration::ZERO,
            boundary: self.handed_in + hand_out,
            output: hand_out,
        }
    }

    /// Responds to every request with the handler's return value or exception.
    fn respond_with(&self, py: Python<'_>, returned: PyResult<Bound<'_, PyAny>>) {
        let ended = Instant::now();
        let PendingResponse::Once(job) = self.take() else { return };
        self.count_tokens();
        let parted = batch_output::tensors(py, job.spec(), &self.handler_spec, returned);
        let result = parted.map(|HandlerResult { outputs, failed, per_request }| BatchOutput {
            outputs,
            failed,
            per_request,
            parameters: self.context.as_ref().map(|context| context.get().take_answer()).unwrap_or_default(),
            times: self.times(ended),
        });
        detached(py, move || job.finish(result));
    }

    /// Counts the tokens that the handler recorded.
    fn count_tokens(&self) {
        if let Some(context) = &self.context {
            context.get().count_tokens();
        }
    }

    fn end_with(&self, py: Python<'_>, error: Error) {
        self.count_tokens();
        match self.take() {
            PendingResponse::Once(job) => detached(py, move || job.finish(Err(error))),
            PendingResponse::Many(streaming) => detached(py, move || streaming.finish(Err(error))),
            PendingResponse::Ended => {}
        }
    }
}

impl PendingResponse {
    fn end_copy(&self) {
        match self {
            Self::Once(job) => forks::end_copy(&job.spec().name),
            Self::Many(streaming) => forks::end_copy(&streaming.job().spec().name),
            Self::Ended => {}
        }
    }

    fn spec(&self) -> Option<Arc<ModelSpec>> {
        match self {
            Self::Once(job) => Some(Arc::clone(job.spec())),
            Self::Many(streaming) => Some(Arc::clone(streaming.job().spec())),
            Self::Ended => None,
        }
    }
}

#[pymethods]
impl BatchCall {
    /// Model, version and request ids.
    #[getter]
    fn log_context<'py>(&self, py: Python<'py>) -> PyResult<Option<(String, String, Bound<'py, PyTuple>)>> {
        self.current.as_ref().map(|current| current.tell(py)).transpose()
    }

    /// `traceparent` and `tracestate` of the batch's span.
    #[getter]
    fn trace_context(&self) -> Option<(&str, &str)> {
        self.trace.as_ref().map(|trace| (&*trace.parent, &*trace.state))
    }

    /// Returns whether any client still waits.
    #[getter]
    fn has_clients(&self) -> bool {
        match &*self.lock() {
            PendingResponse::Once(job) => job.is_wanted(),
            PendingResponse::Many(streaming) => streaming.is_wanted(),
            PendingResponse::Ended => false,
        }
    }

    /// Returns whether a client has to read before the handler may continue.
    #[getter]
    fn is_full(&self) -> bool {
        matches!(&*self.lock(), PendingResponse::Many(streaming) if streaming.is_wanted() && streaming.is_full())
    }

    /// Responds to every request with the handler's return value.
    fn respond(&self, returned: Bound<'_, PyAny>) {
        self.respond_with(returned.py(), Ok(returned));
    }

    /// Sends one more chunk. Returns whether the next one may follow at once. If not, a client has to read first, or
    /// all clients have disconnected.
    fn send(&self, chunk: Bound<'_, PyAny>) -> bool {
        let py = chunk.py();
        let sent = match &mut *self.lock() {
            PendingResponse::Many(streaming) => {
                stream::send(streaming, &self.handler_spec, self.context.as_ref(), chunk)
                    .map(|()| streaming.is_wanted() && !streaming.is_full())
            }
            PendingResponse::Once(_) | PendingResponse::Ended => return false,
        };
        sent.unwrap_or_else(|error| {
            self.end_with(py, error);
            false
        })
    }

    /// Ends the stream.
    fn end_stream(&self, py: Python<'_>) {
        let PendingResponse::Many(streaming) = self.take() else { return };
        self.count_tokens();
        let times = self.times(Instant::now());
        detached(py, move || streaming.finish(Ok(times)));
    }

    /// Drops the clients that have not read for too long.
    fn drop_slow_clients(&self) {
        if let PendingResponse::Many(streaming) = &mut *self.lock() {
            streaming.drop_slow_clients();
        }
    }

    /// Responds to every request with the handler's exception.
    fn fail(&self, raised: Bound<'_, PyAny>) {
        let (py, raised) = (raised.py(), PyErr::from_value(raised));
        let ended = match &mut *self.lock() {
            PendingResponse::Once(_) => None,
            PendingResponse::Many(streaming) => {
                Some(stream::raised(streaming, &self.handler_spec, self.context.as_ref(), py, raised.clone_ref(py)))
            }
            PendingResponse::Ended => return,
        };
        match ended {
            None => self.respond_with(py, Err(raised)),
            Some(Ok(())) => self.end_stream(py),
            Some(Err(error)) => self.end_with(py, error),
        }
    }

    /// Ends a call whose clients have all disconnected.
    fn cancel(&self, py: Python<'_>) {
        let Some(spec) = self.lock().spec() else { return };
        self.end_with(py, Error::new(Kind::Cancelled, format!("model '{}': the call was cancelled", spec.name)));
    }
}

impl Drop for BatchCall {
    fn drop(&mut self) {
        self.shared.ended();
    }
}
