//! Conversion of numbers and nested lists to arrays of a declared dtype.

use numpy::{PyArrayDescr, PyArrayDescrMethods as _};
use pyo3::{prelude::*, sync::PyOnceLock};

static EXACT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Converts a number or a nested list. Integers and booleans are checked in Python, because numpy would truncate them.
///
/// # Errors
/// The exceptions of `penstock._spec.elements.exact_array`, or of numpy.
pub(crate) fn array<'py>(value: &Bound<'py, PyAny>, dtype: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if !matches!(dtype.kind(), b'i' | b'u' | b'b') {
        return py.import("numpy")?.call_method1("asarray", (value, dtype));
    }
    let load = || py.import("penstock._spec.elements")?.getattr("exact_array").map(Bound::unbind);
    EXACT.get_or_try_init(py, load)?.bind(py).call1((value, dtype))
}

/// The element that an exception of [`array`] names, and its index: `1.5 at index 0`.
pub(crate) fn wrong_element(py: Python<'_>, error: &PyErr) -> Option<String> {
    error.value(py).getattr("element").ok()?.extract().ok()
}
