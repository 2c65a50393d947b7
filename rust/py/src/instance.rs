//! An instance: one OS thread that builds a handler, pulls batches, and calls it.
//!
//! This is the one loop in which user code runs. The thread is attached to the interpreter from the
//! start and lets go of it while it waits for a batch and joins its rows.

use crate::{
    attach::{attached, detached, detached_timed},
    call,
    definition::Handling,
    errors, stream,
};
use penstock_core::{Inputs, Job, Model};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

/// A wait for the interpreter from which on it pays to let late requests join the batch.
const LATE_FROM: Duration = Duration::from_micros(100);

/// How often a waiting main thread looks for signals.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// What an instance says once its handler is built, or could not be.
pub(crate) type Built = std::result::Result<(), PyErr>;

/// Starts one instance's thread, which reports on `built`.
pub(crate) fn spawn(
    model: Arc<Model>,
    handling: Arc<Handling>,
    built: mpsc::Sender<Built>,
) -> std::io::Result<thread::JoinHandle<()>> {
    let name = format!("penstock-{}", model.spec().name);
    thread::Builder::new().name(name).spawn(move || attached(|py| run(py, &model, &handling, &built)))
}

fn run(py: Python<'_>, model: &Arc<Model>, handling: &Handling, built: &mpsc::Sender<Built>) {
    let handler = match handling.factory.bind(py).call0() {
        Ok(handler) => handler,
        Err(error) => {
            let _ = built.send(Err(error));
            return;
        }
    };
    let parts = handler.getattr("call").and_then(|call| Ok((call, handler.getattr("close")?)));
    let (call, close) = match parts {
        Ok(parts) => parts,
        Err(error) => {
            let _ = built.send(Err(error));
            return;
        }
    };
    // A server that does not wait any more has closed the queue, so this instance closes its handler at once.
    let _ = built.send(Ok(()));
    drop(handler);
    while let Some((job, inputs)) = next(py, model) {
        answer(py, &call, handling, job, inputs);
    }
    if let Err(error) = close.call0() {
        let _ = errors::from_handler(py, model.spec(), &error);
    }
}

/// Waits for a batch and joins its rows, without the interpreter.
fn next(py: Python<'_>, model: &Arc<Model>) -> Option<(Job, Inputs)> {
    let (pulled, waited) = detached_timed(py, || {
        let mut job = model.queue().pull()?;
        let inputs = job.gather();
        Some((job, inputs))
    });
    let (mut job, inputs) = pulled?;
    if waited < LATE_FROM || !job.has_room() {
        return Some((job, inputs));
    }
    Some(detached(py, move || {
        let inputs = job.admit_late_joiners(inputs);
        (job, inputs)
    }))
}

fn answer(py: Python<'_>, handler: &Bound<'_, PyAny>, handling: &Handling, mut job: Job, inputs: Inputs) {
    if job.spec().streams {
        return stream::answer(handler, handling, job, inputs);
    }
    let attached_at = Instant::now();
    let caught = catch_unwind(AssertUnwindSafe(|| call::call(handler, handling, &mut job, inputs, attached_at)));
    let result = caught.unwrap_or_else(|_| Err(call::panicked(&job)));
    detached(py, move || job.finish(result));
}

/// Waits until every instance is built.
///
/// # Errors
/// What the first one that failed raised.
pub(crate) fn wait_built(py: Python<'_>, built: mpsc::Receiver<Built>, count: usize) -> Built {
    // The receiver is not shared; it only has to be handed to the closure that waits.
    let built = std::sync::Mutex::new(built);
    let mut waiting = count;
    while waiting > 0 {
        let received = detached(py, || {
            built.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv_timeout(SIGNALS_EVERY)
        });
        match received {
            Ok(result) => result?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("an instance ended before it was built"));
            }
        }
        waiting -= 1;
    }
    Ok(())
}
