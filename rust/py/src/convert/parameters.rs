//! Conversion of parameters.

use penstock_core::Parameter;
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyBool, PyFloat, PyInt, PyList, PyString},
};

/// Converts a parameter to Python.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Parameter) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Parameter::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Parameter::Int(value) => value.into_pyobject(py)?.into_any(),
        Parameter::Uint(value) => value.into_pyobject(py)?.into_any(),
        Parameter::Float(value) => PyFloat::new(py, *value).into_any(),
        Parameter::String(value) => PyString::new(py, value).into_any(),
        Parameter::List(values) => {
            let values = values.iter().map(|value| to_python(py, value)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, values)?.into_any()
        }
    })
}

/// Converts a parameter of the protocol's four kinds. A Python bool is also an int, so it is tested first.
pub(crate) fn parameter(value: &Bound<'_, PyAny>) -> PyResult<Parameter> {
    if value.is_instance_of::<PyBool>() {
        return Ok(Parameter::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return value.extract().map(Parameter::Int).or_else(|_| value.extract().map(Parameter::Uint));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Parameter::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Parameter::String(value.extract()?));
    }
    Err(PyTypeError::new_err(format!("a parameter is a bool, int, float or str, got {}", value.get_type().name()?)))
}
