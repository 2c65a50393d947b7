//! `_core.Worker`: the lifetime of a process that was started for an instance.

use super::respond;
use crate::{
    attach::detached,
    control_channel::InstanceChannel,
    definition::{self, processes::fingerprint},
    forks,
    handler::sequences::Sequences,
};
use penstock_core::{Job, metrics::ModelMetrics, queue::Queue};
use penstock_process::{Batch, Command};
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyBytes};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// A process that computes batches for the server that started it.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Worker {
    worker: Mutex<penstock_process::Worker>,
    ready: AtomicBool,
}

#[pymethods]
impl Worker {
    #[new]
    fn new() -> PyResult<Self> {
        forks::begin();
        let worker = penstock_process::Worker::new();
        worker
            .map(|worker| Self { worker: Mutex::new(worker), ready: AtomicBool::new(false) })
            .map_err(|error| PyRuntimeError::new_err(format!("only a server starts this: {error}")))
    }

    /// Takes over one end of a channel and serves the other end. Its payload is loaded already.
    #[staticmethod]
    fn attach(channel: &Bound<'_, InstanceChannel>) -> PyResult<Self> {
        forks::begin();
        let channel = channel.get().take().ok_or_else(|| PyRuntimeError::new_err("the channel was given away"))?;
        let worker = Mutex::new(penstock_process::Worker::attached(channel));
        Ok(Self { worker, ready: AtomicBool::new(false) })
    }

    /// Waits for the payload to load; `None` if the server is gone.
    fn receive_payload<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let asked = detached(py, || self.lock().next_command());
        match asked {
            Command::Load(payload) => Some(PyBytes::new(py, &payload)),
            _ => None,
        }
    }

    fn load_failed(&self, summary: &str, traceback: &str) -> PyResult<()> {
        self.lock().failed(summary, traceback)?;
        Ok(())
    }

    /// Returns whether it has loaded.
    #[getter]
    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    /// Builds a handler, and computes batches until the end. Returns whether the server sent the stop.
    fn serve(&self, definition: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = definition.py();
        let (spec, mut handler_spec) = definition::read(definition)?;
        if let Some(handler_spec) = Arc::get_mut(&mut handler_spec) {
            handler_spec.outputs.iter_mut().for_each(|form| form.copied_at_once = true);
            handler_spec.copied_at_once = true;
        }
        let handler = handler_spec.factory.bind(py).call0();
        forks::end_copy(&spec.name);
        let handler = handler?;
        let (call, close) = (handler.getattr("call")?, handler.getattr("close")?);
        let mut sequences = Sequences::new(handler.getattr("close_sequence")?.unbind());
        drop(handler);
        let mut guard = self.lock();
        // The guard itself must stay on this thread.
        let worker: &mut penstock_process::Worker = &mut guard;
        worker.ready(fingerprint(&spec))?;
        self.ready.store(true, Ordering::Relaxed);
        let spec = Arc::new(spec);
        let queue = Arc::new(Queue::new(Arc::clone(&spec), Arc::new(ModelMetrics::buffered(&spec))));
        let was_told = loop {
            match detached(py, || worker.next_command()) {
                Command::Batch(Batch { requests, inputs, trace }) => {
                    let job = Job::from_remote(Arc::clone(&queue), 0, requests).with_trace(trace.map(|trace| *trace));
                    respond::answer(worker, &call, &handler_spec, &mut sequences, job, inputs)?;
                }
                Command::EndSequences(ids) => {
                    ids.iter().for_each(|id| sequences.close(py, &spec, id));
                    worker.sequences_ended()?;
                }
                Command::Load(_) | Command::Stop => break true,
                Command::Disconnected => break false,
            }
        };
        sequences.close_all(py, &spec);
        close.call0()?;
        Ok(was_told)
    }
}

impl Worker {
    fn lock(&self) -> MutexGuard<'_, penstock_process::Worker> {
        self.worker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
