//! `penstock.frozen`: arrays that never change, so that responses are sent from their memory.
//!
//! # Rationale
//! The memory is filled before its first array exists. That array is read-only, its views are too, and numpy lets neither
//! become writable, because the owner of the memory has no buffer. So nothing can write to it while a response is sent.
//!
//! # Limitations
//! Code that writes through a bare pointer (`ctypes`, `__array_interface__`) is not detected.

use super::{
    from_numpy,
    to_numpy::{Owned, over_memory},
};
use numpy::{PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use penstock_core::Buffer;
use pyo3::{exceptions::PyTypeError, prelude::*, types::PyDict};

/// Copies an array into memory that cannot change. The result is read-only. A handler that returns it, or rows of it,
/// again and again has responses of 64 KiB or more sent from that memory, without a copy.
///
/// Raises:
///     TypeError: the elements are Python objects.
#[pyfunction]
pub(crate) fn frozen<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let options = PyDict::new(py);
    options.set_item("order", "C")?;
    let array: Bound<'py, PyUntypedArray> =
        py.import("numpy")?.call_method("asarray", (array,), Some(&options))?.cast_into()?;
    let dtype = array.dtype();
    if dtype.has_object() {
        return Err(PyTypeError::new_err(format!("got an array of {dtype}, expected numbers or booleans")));
    }
    if from_numpy::frozen(&array).is_some() {
        return Ok(array.into_any());
    }
    let memory = Buffer::Aligned(from_numpy::copy(&array)).into_bytes();
    over_memory(py, Owned::Frozen(memory), array.shape(), &dtype)
}
