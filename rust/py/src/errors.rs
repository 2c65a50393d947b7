//! Errors between Rust and Python. The exception classes live in `penstock.errors`; each has a
//! `kind` that names a core `Kind`.

use crate::config::duration;
use penstock_core::{Error, Kind, ModelSpec};
use pyo3::{
    exceptions::{PyBaseException, PyRuntimeError},
    prelude::*,
    sync::PyOnceLock,
    types::PyDict,
};

/// A start-up error: `penstock.errors.<class>` with one clear line.
pub(crate) fn startup(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import("penstock.errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    made().unwrap_or_else(|_| PyRuntimeError::new_err(message.to_owned()))
}

/// What a caller is told of an exception that a handler raised.
///
/// One of Penstock's own exceptions is the handler's answer: its kind and text go out. Any other is
/// the model's fault: the log gets the traceback, the caller a text that gives nothing away.
pub(crate) fn from_handler(py: Python<'_>, spec: &ModelSpec, raised: &PyErr) -> Error {
    match own_kind(py, raised) {
        Ok(Some(kind)) => {
            let error = Error::new(kind, raised.value(py).to_string());
            // Of another model's answer, say.
            let hint = raised.value(py).getattr("retry_after").and_then(|seconds| seconds.extract::<f64>());
            let error = match hint.ok().and_then(duration) {
                Some(hint) => error.retry_after(hint),
                None => error,
            };
            if is_too_large_batch(raised.value(py)) { error.of_a_too_large_batch() } else { error }
        }
        _ => {
            log_traceback(py, spec, raised);
            let class = raised.get_type(py).name().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
            let error = Error::handler(format!("model '{}' failed: {class}", spec.name));
            if class == OUT_OF_MEMORY && spec.retries_on_oom() { error.of_a_too_large_batch() } else { error }
        }
    }
}

/// What frameworks call the exception of an allocation on a device that failed.
const OUT_OF_MEMORY: &str = "OutOfMemoryError";

fn is_too_large_batch(raised: &Bound<'_, PyBaseException>) -> bool {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = raised.py();
    let class =
        CLASS.get_or_try_init(py, || py.import("penstock.batching")?.getattr("BatchTooLarge").map(Bound::unbind));
    class.is_ok_and(|class| raised.is_instance(class.bind(py)).unwrap_or(false))
}

fn own_kind(py: Python<'_>, raised: &PyErr) -> PyResult<Option<Kind>> {
    static BASE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let base =
        BASE.get_or_try_init(py, || py.import("penstock.errors")?.getattr("PenstockError").map(Bound::unbind))?;
    if !raised.value(py).is_instance(base.bind(py))? {
        return Ok(None);
    }
    let kind: String = raised.value(py).getattr("kind")?.extract()?;
    Ok(Kind::from_name(&kind))
}

fn log_traceback(py: Python<'_>, spec: &ModelSpec, raised: &PyErr) {
    let log = || -> PyResult<()> {
        let logger = py.import("logging")?.call_method1("getLogger", (format!("penstock.{}", spec.name),))?;
        let options = PyDict::new(py);
        // Before Python 3.12 the exception itself does not hold its traceback yet.
        options.set_item("exc_info", (raised.get_type(py), raised.value(py), raised.traceback(py)))?;
        logger.call_method("error", ("model '%s' version '%s' raised", &*spec.name, &*spec.version), Some(&options))?;
        Ok(())
    };
    // A logger that fails must not take the answer with it.
    if log().is_err() {
        raised.clone_ref(py).print(py);
    }
}
