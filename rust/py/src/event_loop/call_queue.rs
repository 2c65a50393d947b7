//! `_core.CallQueue`: the queue from which an event loop takes its calls.

use super::{
    batch_call::{BatchCall, Parts},
    shared::{Events, Item, Shared},
};
use crate::{
    attach::detached,
    definition::HandlerSpec,
    errors, forks,
    handler::{arguments, load_result::LoadResult, sequences::Sequences, thread_context::Current},
    peers::{Audience, CallerContext, PeerClient},
};
use penstock_core::{Inputs, Job, RequestMetadata, SLOW_READER_TIMEOUT, queue::Queue};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::Instant,
};

/// The loop's side of an async instance.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct CallQueue {
    queue: Arc<Queue>,
    handler_spec: Arc<HandlerSpec>,
    shared: Arc<Shared>,
    sequences: Mutex<Option<Sequences>>,
    built: Mutex<Option<mpsc::Sender<LoadResult>>>,
}

/// `_core.CallEvents`: the events since the last call of `take`.
#[pyclass(frozen, get_all, module = "penstock._core")]
pub(crate) struct CallEvents {
    /// The new calls.
    calls: Vec<Py<BatchCall>>,
    /// Set if a client disconnected, or read from a full stream.
    clients_changed: bool,
    /// Set if no further calls will come.
    closed: bool,
}

impl CallQueue {
    pub(super) fn new(
        queue: Arc<Queue>,
        handler_spec: Arc<HandlerSpec>,
        shared: Arc<Shared>,
        built: mpsc::Sender<LoadResult>,
    ) -> Self {
        Self { queue, handler_spec, shared, sequences: Mutex::new(None), built: Mutex::new(Some(built)) }
    }

    /// Reports the result of loading, once.
    fn report(&self, result: LoadResult) {
        forks::end_copy(&self.queue.spec().name);
        if let Some(built) = lock(&self.built).take() {
            let _ = built.send(result);
        }
    }

    /// Creates the call of a batch; `None` if it failed before its handler.
    fn call(&self, py: Python<'_>, mut job: Job, inputs: Inputs) -> PyResult<Option<Py<BatchCall>>> {
        let start = Instant::now();
        let inputs = if job.has_room() { detached(py, || job.admit_late_joiners(inputs)) } else { inputs };
        job.watch(&self.shared.waker());
        let current = Current::of(&job);
        let arguments = match &mut *lock(&self.sequences) {
            Some(sequences) => arguments::arguments(py, &self.handler_spec, sequences, &mut job, inputs),
            None => Err(PyRuntimeError::new_err("the handler is not built")),
        };
        let (arguments, context) = match arguments {
            Ok(arguments) => arguments,
            Err(raised) => {
                let error = errors::from_handler(py, job.spec(), &raised);
                detached(py, move || job.finish(Err(error)));
                self.shared.ended();
                return Ok(None);
            }
        };
        Py::new(
            py,
            BatchCall::new(Parts {
                job,
                arguments: arguments.unbind(),
                context: context.map(Bound::unbind),
                current,
                handler_spec: Arc::clone(&self.handler_spec),
                shared: Arc::clone(&self.shared),
                handed_in: start.elapsed(),
            }),
        )
        .map(Some)
    }
}

#[pymethods]
impl CallQueue {
    /// The descriptor that the loop watches: readable when [`CallQueue::take`] has events.
    fn fileno(&self) -> i32 {
        self.shared.wakeup.fileno()
    }

    /// Returns whether the handler responds in chunks.
    #[getter]
    fn streams(&self) -> bool {
        self.queue.spec().streams
    }

    /// The time in seconds that a client may take to read before its stream is dropped.
    #[getter]
    fn read_timeout(&self) -> f64 {
        SLOW_READER_TIMEOUT.as_secs_f64()
    }

    /// Returns whether the model is draining: it should begin nothing.
    #[getter]
    fn is_draining(&self) -> bool {
        self.queue.is_draining()
    }

    /// Returns a client for calls without a request of the model: with a priority, and without a deadline.
    fn peers(&self, priority: u64) -> PeerClient {
        let context = CallerContext {
            audience: Audience::default(),
            priority,
            caller: RequestMetadata::default(),
            began: Instant::now(),
            trace: None,
        };
        PeerClient::new(Arc::clone(&self.handler_spec.caller), Arc::clone(self.queue.spec()), context)
    }

    /// Sets the loop's thread, by its `threading.get_ident()`.
    fn set_thread(&self, thread: u64) {
        self.shared.set_thread(thread);
    }

    /// Reports that the handler is built. `close_sequence` is called with each sequence that ends.
    fn loaded(&self, close_sequence: Py<PyAny>) {
        *lock(&self.sequences) = Some(Sequences::new(close_sequence));
        self.report(Ok(()));
    }

    /// Reports that the handler could not be built.
    fn load_failed(&self, raised: Bound<'_, PyAny>) {
        self.report(Err(PyErr::from_value(raised).into()));
    }

    /// Takes the events since the last call.
    fn take(&self, py: Python<'_>) -> PyResult<CallEvents> {
        // A forked copy must end before it takes a wake-up of the original process.
        forks::end_copy(&self.queue.spec().name);
        let Events { items, clients_changed, closed } = self.shared.take();
        let mut calls = Vec::with_capacity(items.len());
        for one in items {
            match one {
                Item::Batch(job, inputs) => calls.extend(self.call(py, job, inputs)?),
                Item::Over(ids) => {
                    let mut sequences = lock(&self.sequences);
                    let spec = self.queue.spec();
                    ids.iter().for_each(|id| {
                        sequences.iter_mut().for_each(|sequences| sequences.close(py, spec, id));
                    });
                }
            }
        }
        Ok(CallEvents { calls, clients_changed, closed })
    }

    /// Logs an exception of the handler's `close`, or of a closed generator.
    fn log_exception(&self, raised: Bound<'_, PyAny>) {
        let _ = errors::from_handler(raised.py(), self.queue.spec(), &PyErr::from_value(raised));
    }

    /// Closes all sequences.
    fn close_sequences(&self, py: Python<'_>) {
        if let Some(sequences) = &mut *lock(&self.sequences) {
            sequences.close_all(py, self.queue.spec());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
