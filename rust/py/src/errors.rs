//! Errors between Rust and Python. Each exception class of `penstock.errors` has a `kind` that names a core `Kind`.

use crate::seconds::duration;
use penstock_core::{Error, Kind, ModelSpec};
use pyo3::{
    exceptions::{PyBaseException, PyRuntimeError},
    prelude::*,
    sync::PyOnceLock,
    types::PyDict,
};

/// Creates a start-up error: `penstock.errors.<class>` with a one-line message.
pub(crate) fn startup(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import("penstock.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    made().unwrap_or_else(|_| PyRuntimeError::new_err(message.to_owned()))
}

/// Converts an exception of a handler into the error for its clients.
///
/// The kind and text of Penstock's own exceptions reach the client. Any other exception is an error of the model: its
/// traceback goes to the log, and the client gets only its class.
pub(crate) fn from_handler(py: Python<'_>, spec: &ModelSpec, raised: &PyErr) -> Error {
    match own_kind(py, raised) {
        Ok(Some(kind)) => {
            let error = Error::new(kind, raised.value(py).to_string());
            // Set, for example, by another model's response.
            let hint = raised.value(py).getattr("retry_after").and_then(|seconds| seconds.extract::<f64>());
            let error = match hint.ok().and_then(duration) {
                Some(hint) => error.retry_after(hint),
                None => error,
            };
            if is_too_large_batch(raised.value(py)) { error.batch_too_large() } else { error }
        }
        _ => {
            let traceback = log_traceback(py, spec, raised);
            let class = raised.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
            let error = match traceback_for_clients(py, spec, raised) {
                Some(text) => Error::traced(text),
                None => Error::handler(format!("model '{}' failed: {class}", spec.name)),
            };
            let error = match traceback {
                Some(traceback) => error.with_traceback(&traceback),
                None => error,
            };
            if class == OUT_OF_MEMORY && spec.retries_on_oom() { error.batch_too_large() } else { error }
        }
    }
}

/// The message with a traceback that clients get from a server in development; `None` from all others.
fn traceback_for_clients(py: Python<'_>, spec: &ModelSpec, raised: &PyErr) -> Option<String> {
    let tracebacks = py.import("penstock._runtime.tracebacks").ok()?;
    tracebacks
        .call_method1("for_clients", (&*spec.name, raised.value(py), raised.traceback(py)))
        .ok()?
        .extract()
        .ok()?
}

/// Marks an exception as one of a wrong call in a handler: it is that handler's error, not one of its client.
pub(crate) fn of_wrong_call(py: Python<'_>, error: PyErr) -> PyErr {
    // An exception that takes no attributes keeps its kind.
    let _ = error.value(py).setattr(WRONG_CALL, true);
    error
}

const WRONG_CALL: &str = "_penstock_wrong_call";

/// The class name that frameworks use for a failed allocation on a device.
const OUT_OF_MEMORY: &str = "OutOfMemoryError";

fn is_too_large_batch(raised: &Bound<'_, PyBaseException>) -> bool {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = raised.py();
    let class =
        CLASS.get_or_try_init(py, || py.import("penstock._spec.batching")?.getattr("BatchTooLarge").map(Bound::unbind));
    class.is_ok_and(|class| raised.is_instance(class.bind(py)).unwrap_or(false))
}

fn own_kind(py: Python<'_>, raised: &PyErr) -> PyResult<Option<Kind>> {
    static BASE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let base =
        BASE.get_or_try_init(py, || py.import("penstock.errors")?.getattr("PenstockError").map(Bound::unbind))?;
    if !raised.value(py).is_instance(base.bind(py))? {
        return Ok(None);
    }
    if raised.value(py).hasattr(WRONG_CALL)? {
        return Ok(None);
    }
    let kind: String = raised.value(py).getattr("kind")?.extract()?;
    Ok(Kind::from_name(&kind))
}

/// Logs the traceback of an exception, and returns it without Penstock's own frames; `None` if it cannot be formatted.
fn log_traceback(py: Python<'_>, spec: &ModelSpec, raised: &PyErr) -> Option<String> {
    let log = || -> PyResult<()> {
        let logger = py.import("logging")?.call_method1("getLogger", (format!("penstock.{}", spec.name),))?;
        let options = PyDict::new(py);
        // Before Python 3.12 the exception itself does not hold its traceback yet.
        options.set_item("exc_info", (raised.get_type(py), raised.value(py), raised.traceback(py)))?;
        logger.call_method("error", ("model '%s' version '%s' raised", &*spec.name, &*spec.version), Some(&options))?;
        Ok(())
    };
    // The response must not fail because the logger does.
    if log().is_err() {
        raised.clone_ref(py).print(py);
    }
    let tracebacks = py.import("penstock._runtime.tracebacks").ok()?;
    tracebacks.call_method1("for_operators", (raised.value(py), raised.traceback(py))).ok()?.extract().ok()
}

/// Creates the exception of an error of another model.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let raised = of_kind(py, error.kind(), error.message())?;
        if let Some(after) = error.retry_hint() {
            raised.setattr("retry_after", after.as_secs_f64())?;
        }
        Ok(PyErr::from_value(raised))
    };
    made().unwrap_or_else(|_| PyRuntimeError::new_err(error.message().to_owned()))
}

/// Creates the exception of invalid arguments.
pub(crate) fn invalid(py: Python<'_>, message: &str) -> PyErr {
    of_kind(py, Kind::InvalidInput, message)
        .map_or_else(|_| PyRuntimeError::new_err(message.to_owned()), PyErr::from_value)
}

pub(crate) fn of_kind<'py>(py: Python<'py>, kind: Kind, message: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("penstock.errors")?.call_method1("by_kind", (kind.name(),))?.call1((message,))
}

/// Returns the class name of an object, with its article, for error messages.
pub(crate) fn class_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "an object".to_owned(), |name| format!("a {name}"))
}
