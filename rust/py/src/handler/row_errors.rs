//! Rows that a handler fails separately: a `RowErrors`, or exceptions in the lists that it returns.

use crate::errors;
use penstock_core::{Error, ModelSpec, Result, RowFailures};
use pyo3::{
    exceptions::PyBaseException,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyList, PyTuple},
};

/// The exception of each row that failed.
type RaisedRows<'py> = Vec<(usize, Bound<'py, PyAny>)>;

/// Splits a return value into the rows that failed, and the outputs, with placeholders for the failed rows.
///
/// # Errors
/// `Handler` if it cannot be split.
pub(crate) fn part<'py>(
    spec: &ModelSpec,
    returned: &Bound<'py, PyAny>,
) -> Result<(RowFailures, Option<Bound<'py, PyAny>>)> {
    static PARTED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = returned.py();
    let take = || -> PyResult<(RaisedRows<'py>, Option<Bound<'py, PyAny>>)> {
        let parted = PARTED
            .get_or_try_init(py, || py.import("penstock._handler.row_errors")?.getattr("parted").map(Bound::unbind))?;
        parted.bind(py).call1((returned, spec.outputs.len()))?.extract()
    };
    let (failed, outputs) = take().map_err(|error| errors::from_handler(py, spec, &error))?;
    let failed = failed.into_iter().map(|(row, raised)| (row, failure(spec, &raised))).collect();
    Ok((RowFailures::new(failed), outputs))
}

/// The error for the client of a row.
pub(crate) fn failure(spec: &ModelSpec, raised: &Bound<'_, PyAny>) -> Error {
    errors::from_handler(raised.py(), spec, &PyErr::from_value(raised.clone()))
}

/// Returns whether a batched handler raised `RowErrors`.
pub(crate) fn is_raised(py: Python<'_>, spec: &ModelSpec, raised: &PyErr) -> bool {
    spec.batching.is_some() && is_row_errors(raised.value(py))
}

/// Returns whether a row of a batched return value failed. Checks lists; arrays hold no exceptions.
pub(crate) fn has_failures(spec: &ModelSpec, returned: &Bound<'_, PyAny>) -> bool {
    if spec.batching.is_none() {
        return false;
    }
    if let Ok(list) = returned.cast::<PyList>() {
        return list.iter().any(|item| is_exception(&item) || holds_exception(&item));
    }
    if let Ok(tuple) = returned.cast::<PyTuple>() {
        return tuple.iter().any(|item| holds_exception(&item));
    }
    if let Ok(named) = returned.cast::<PyDict>() {
        return named.values().iter().any(|item| holds_exception(&item));
    }
    is_exception(returned) && is_row_errors(returned)
}

pub(crate) fn is_exception(item: &Bound<'_, PyAny>) -> bool {
    item.is_instance_of::<PyBaseException>()
}

fn holds_exception(item: &Bound<'_, PyAny>) -> bool {
    item.cast::<PyList>().is_ok_and(|list| list.iter().any(|row| is_exception(&row)))
}

pub(crate) fn is_row_errors(raised: &Bound<'_, PyAny>) -> bool {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = raised.py();
    let class =
        CLASS.get_or_try_init(py, || py.import("penstock._spec.results")?.getattr("RowErrors").map(Bound::unbind));
    class.is_ok_and(|class| raised.is_instance(class.bind(py)).unwrap_or(false))
}
