//! Conversion of responses and failures to Python.

use crate::{
    convert::{array_form::form, parameters::to_python, to_numpy},
    errors::of_kind,
};
use penstock_client::{ClientResponse, Failure, RawResponse};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyString, PyTuple},
};

/// Converts a response: model, version, id, parameters by name, arrays by name, names of outputs of JSON documents.
pub(super) fn object(py: Python<'_>, answer: ClientResponse) -> PyResult<Bound<'_, PyTuple>> {
    let parameters = PyDict::new(py);
    for (name, value) in answer.parameters {
        parameters.set_item(name, to_python(py, &value)?)?;
    }
    let outputs = PyDict::new(py);
    for output in answer.outputs {
        let form = form(py, output.tensor.datatype());
        outputs.set_item(output.name, to_numpy::array(py, output.tensor, &form)?)?;
    }
    PyTuple::new(
        py,
        [
            PyString::new(py, &answer.model).into_any(),
            PyString::new(py, &answer.version).into_any(),
            PyString::new(py, &answer.id).into_any(),
            parameters.into_any(),
            outputs.into_any(),
            PyList::new(py, answer.documents)?.into_any(),
        ],
    )
}

/// Converts a JSON response.
pub(super) fn bytes<'py>(py: Python<'py>, answer: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, answer)
}

/// Converts an unchanged response: status, headers and body.
pub(super) fn raw(py: Python<'_>, answer: RawResponse) -> PyResult<Bound<'_, PyTuple>> {
    let body = PyBytes::new(py, &answer.body);
    (answer.status, answer.headers, body).into_pyobject(py)
}

/// Creates the exception of a failed call.
pub(super) fn exception(py: Python<'_>, failure: &Failure) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let raised = of_kind(py, failure.error.kind(), failure.error.message())?;
        if let Some(status) = failure.status {
            raised.setattr("status", status)?;
        }
        if let Some(after) = failure.error.retry_hint() {
            raised.setattr("retry_after", after.as_secs_f64())?;
        }
        Ok(PyErr::from_value(raised))
    };
    made().unwrap_or_else(|_| PyRuntimeError::new_err(failure.error.message().to_owned()))
}
