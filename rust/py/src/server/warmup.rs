//! Has every instance of a model answer samples, before the model is ready.
//!
//! Samples go the way of requests: decoded, handed to an instance by its queue, answered. So whatever kind
//! of instance it is, what is warm afterwards is what requests meet.

use crate::{attach::detached, errors::startup, handler::load_result::SIGNALS_EVERY};
use penstock_core::{Error, Model, ResponseStream, Result};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::sync::Mutex;

/// Runs the samples of `definition`, each on all instances at once.
///
/// # Errors
/// `LoadError` that names the sample and what failed; what making a sample raised.
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

/// Waits until every instance has answered, and says how it went.
fn read_to_end(py: Python<'_>, answers: Vec<ResponseStream>, stopping: impl Fn() -> bool) -> PyResult<Result<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    // Nobody shares them; they only have to be handed to the closure that waits.
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
            // Only inside of the runtime is there a clock.
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
