//! From answers and failures to Python's objects.

use crate::{definition::ArrayForm, hand_in};
use numpy::PyArrayDescr;
use penstock_client::{Answer, Failure, RawAnswer};
use penstock_core::{Datatype, Error, Kind, Parameter};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyBytes, PyDict, PyString, PyTuple},
};

/// Model, version, id, parameters by name, arrays by name.
pub(super) fn object(py: Python<'_>, answer: Answer) -> PyResult<Bound<'_, PyTuple>> {
    let parameters = PyDict::new(py);
    for (name, value) in answer.parameters {
        parameters.set_item(name, parameter(py, value)?)?;
    }
    let outputs = PyDict::new(py);
    for output in answer.outputs {
        let form = form(py, output.tensor.datatype());
        outputs.set_item(output.name, hand_in::array(py, output.tensor, &form)?)?;
    }
    PyTuple::new(
        py,
        [
            PyString::new(py, &answer.model).into_any(),
            PyString::new(py, &answer.version).into_any(),
            PyString::new(py, &answer.id).into_any(),
            parameters.into_any(),
            outputs.into_any(),
        ],
    )
}

fn parameter(py: Python<'_>, value: Parameter) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Parameter::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Parameter::Int(value) => value.into_pyobject(py)?.into_any(),
        Parameter::Uint(value) => value.into_pyobject(py)?.into_any(),
        Parameter::Float(value) => value.into_pyobject(py)?.into_any(),
        Parameter::String(value) => value.into_pyobject(py)?.into_any(),
        Parameter::List(values) => {
            let values = values.into_iter().map(|value| parameter(py, value)).collect::<PyResult<Vec<_>>>()?;
            values.into_pyobject(py)?.into_any()
        }
    })
}

/// An answer that is JSON.
pub(super) fn bytes<'py>(py: Python<'py>, answer: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, answer)
}

/// Status, headers and body.
pub(super) fn raw(py: Python<'_>, answer: RawAnswer) -> PyResult<Bound<'_, PyTuple>> {
    let body = PyBytes::new(py, &answer.body);
    (answer.status, answer.headers, body).into_pyobject(py)
}

/// How the arrays of a datatype look: BYTES are objects, brain floats are float32.
pub(crate) fn form(py: Python<'_>, datatype: Datatype) -> ArrayForm {
    let dtype: Option<Bound<'_, PyArrayDescr>> = match datatype {
        Datatype::Bool => Some(numpy::dtype::<bool>(py)),
        Datatype::Uint8 => Some(numpy::dtype::<u8>(py)),
        Datatype::Uint16 => Some(numpy::dtype::<u16>(py)),
        Datatype::Uint32 => Some(numpy::dtype::<u32>(py)),
        Datatype::Uint64 => Some(numpy::dtype::<u64>(py)),
        Datatype::Int8 => Some(numpy::dtype::<i8>(py)),
        Datatype::Int16 => Some(numpy::dtype::<i16>(py)),
        Datatype::Int32 => Some(numpy::dtype::<i32>(py)),
        Datatype::Int64 => Some(numpy::dtype::<i64>(py)),
        Datatype::Fp16 => Some(numpy::dtype::<half::f16>(py)),
        Datatype::Bf16 | Datatype::Fp32 => Some(numpy::dtype::<f32>(py)),
        Datatype::Fp64 => Some(numpy::dtype::<f64>(py)),
        Datatype::Bytes => None,
    };
    ArrayForm {
        dtype: dtype.map(Bound::unbind),
        text: false,
        widened: datatype == Datatype::Bf16,
        padded: false,
        copied_at_once: false,
        opaque: false,
    }
}

/// The exception of an error that another model answered with.
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

/// The exception of a call that failed.
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

/// The exception of arguments that cannot be sent.
pub(super) fn invalid(py: Python<'_>, message: &str) -> PyErr {
    of_kind(py, Kind::InvalidInput, message)
        .map_or_else(|_| PyRuntimeError::new_err(message.to_owned()), PyErr::from_value)
}

fn of_kind<'py>(py: Python<'py>, kind: Kind, message: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("penstock.errors")?.call_method1("by_kind", (kind.name(),))?.call1((message,))
}
