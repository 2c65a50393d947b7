//! `_core.BatchCall`: one batch that a task of the loop computes.

use super::shared::Shared;
use crate::{
    attach::detached,
    definition::Handling,
    forks,
    handler::{
        batch_output::{self, Parted},
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
    handling: Arc<Handling>,
    shared: Arc<Shared>,
    under_way: Mutex<UnderWay>,
    began: Instant,
    /// The time that it took to create the arguments.
    handed_in: Duration,
}

/// The responses that a call still has to send.
enum UnderWay {
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
    pub(super) handling: Arc<Handling>,
    pub(super) shared: Arc<Shared>,
    pub(super) handed_in: Duration,
}

impl BatchCall {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { job, arguments, context, current, handling, shared, handed_in } = parts;
        let trace = job.trace().cloned();
        let under_way = if job.spec().streams { UnderWay::Many(job.stream()) } else { UnderWay::Once(job) };
        let under_way = Mutex::new(under_way);
        Self { arguments, context, current, trace, handling, shared, under_way, began: Instant::now(), handed_in }
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        let under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.end_copy();
        under_way
    }

    fn take(&self) -> UnderWay {
        std::mem::replace(&mut *self.lock(), UnderWay::Ended)
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
    fn answered_with(&self, py: Python<'_>, returned: PyResult<Bound<'_, PyAny>>) {
        let ended = Instant::now();
        let UnderWay::Once(job) = self.take() else { return };
        let parted = batch_output::tensors(py, job.spec(), &self.handling, returned);
        let result = parted.map(|Parted { outputs, failed, per_request }| BatchOutput {
            outputs,
            failed,
            per_request,
            parameters: self.context.as_ref().map(|context| context.get().take_answer()).unwrap_or_default(),
            times: self.times(ended),
        });
        detached(py, move || job.finish(result));
    }

    fn ended_with(&self, py: Python<'_>, error: Error) {
        match self.take() {
            UnderWay::Once(job) => detached(py, move || job.finish(Err(error))),
            UnderWay::Many(streaming) => detached(py, move || streaming.finish(Err(error))),
            UnderWay::Ended => {}
        }
    }
}

impl UnderWay {
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
            UnderWay::Once(job) => job.is_wanted(),
            UnderWay::Many(streaming) => streaming.is_wanted(),
            UnderWay::Ended => false,
        }
    }

    /// Returns whether a client has to read before the handler may continue.
    #[getter]
    fn is_full(&self) -> bool {
        matches!(&*self.lock(), UnderWay::Many(streaming) if streaming.is_wanted() && streaming.is_full())
    }

    /// Responds to every request with the handler's return value.
    fn respond(&self, returned: Bound<'_, PyAny>) {
        self.answered_with(returned.py(), Ok(returned));
    }

    /// Sends one more chunk. Returns whether the next one may follow at once. If not, a client has to read first, or
    /// all clients have disconnected.
    fn send(&self, chunk: Bound<'_, PyAny>) -> bool {
        let py = chunk.py();
        let sent = match &mut *self.lock() {
            UnderWay::Many(streaming) => stream::send(streaming, &self.handling, self.context.as_ref(), chunk)
                .map(|()| streaming.is_wanted() && !streaming.is_full()),
            UnderWay::Once(_) | UnderWay::Ended => return false,
        };
        sent.unwrap_or_else(|error| {
            self.ended_with(py, error);
            false
        })
    }

    /// Ends the stream.
    fn end_stream(&self, py: Python<'_>) {
        let UnderWay::Many(streaming) = self.take() else { return };
        let times = self.times(Instant::now());
        detached(py, move || streaming.finish(Ok(times)));
    }

    /// Drops the clients that have not read for too long.
    fn drop_slow_clients(&self) {
        if let UnderWay::Many(streaming) = &mut *self.lock() {
            streaming.drop_slow_clients();
        }
    }

    /// Responds to every request with the handler's exception.
    fn fail(&self, raised: Bound<'_, PyAny>) {
        let (py, raised) = (raised.py(), PyErr::from_value(raised));
        let ended = match &mut *self.lock() {
            UnderWay::Once(_) => None,
            UnderWay::Many(streaming) => {
                Some(stream::raised(streaming, &self.handling, self.context.as_ref(), py, raised.clone_ref(py)))
            }
            UnderWay::Ended => return,
        };
        match ended {
            None => self.answered_with(py, Err(raised)),
            Some(Ok(())) => self.end_stream(py),
            Some(Err(error)) => self.ended_with(py, error),
        }
    }

    /// Ends a call whose clients have all disconnected.
    fn cancel(&self, py: Python<'_>) {
        let Some(spec) = self.lock().spec() else { return };
        self.ended_with(py, Error::new(Kind::Cancelled, format!("model '{}': the call was cancelled", spec.name)));
    }
}

impl Drop for BatchCall {
    fn drop(&mut self) {
        self.shared.ended();
    }
}
