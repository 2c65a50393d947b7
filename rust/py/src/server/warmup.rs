//! Warmup: every instance of a model computes samples before the model is ready.
//!
//! Samples take the path of requests: decoded, sent to an instance by its queue, answered. So the warmup covers the
//! same code as requests, for every kind of instance.

use crate::{attach::detached, errors::startup, handler::load_result::SIGNALS_EVERY};
use penstock_core::{Error, Model, ResponseStream, Result};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::sync::Mutex;

/// Runs the samples of `definition`, each on all instances at once.
///
/// # Errors
/// `LoadError` that names the sample and the problem; the exception of a sample's creation.
pub(crate) fn warm_up(definition: &Bound<'_, PyAny>, model: &Model, stopping: impl Fn() -> bool) -> PyResult<()> {
    let py = definition.py();
    for request in definition.getattr("warmup")?.call_method1("requests", (definition,))?.try_iter()? {
        let (what, body, json_length): (String, Vec<u8>, usize) = request?.extract()?;
        let failed = |error: &Error| startup(py, "LoadError", &format!("{what}: {}", error.message()));
        let answers = start(model, &body, json_length).map_err(|error| failed(&error))?;
        read_to_end(py, answers, &stopping)?.map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn start(model: &Model, body: &[u8], json_length: usize) -> Result<Vec<ResponseStream>> {
    (0..model.spec().instances)
        .map(|instance| model.queue().warm_up(instance, penstock_server::sample(model.spec(), body, json_length)?))
        .collect()
}

/// Waits until every instance has responded. Returns the first error.
fn read_to_end(py: Python<'_>, answers: Vec<ResponseStream>, stopping: impl Fn() -> bool) -> PyResult<Result<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    // The state is not shared. The mutex only lets the waiting closure use it.
    let state = Mutex::new((answers.into_iter(), None));
    loop {
        let waited = detached(py, || {
            let mut state = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (waiting, current) = &mut *state;
            let reading = async {
                loop {
                    if current.is_none() {
                        *current = waiting.next();
                    }
                    let Some(pieces) = current else { return Ok::<(), Error>(()) };
                    match pieces.next().await {
                        Some(piece) => drop(piece?),
                        None => *current = None,
                    }
                }
            };
            // The timer needs the runtime's context.
            runtime.block_on(async { tokio::time::timeout(SIGNALS_EVERY, reading).await })
        });
        match waited {
            Ok(result) => return Ok(result),
            Err(_) => py.check_signals()?,
        }
        if stopping() {
            return Err(PyRuntimeError::new_err("the server stops"));
        }
    }
}
