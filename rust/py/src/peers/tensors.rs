//! Tensors of the arrays that a handler passes to another model.

use crate::{
    convert::{
        array_form::form,
        borrow::{self, donate},
        from_numbers::{self, wrong_element},
        tensor_handle::{Donated, TensorHandle},
    },
    errors::{invalid, raised},
};
use numpy::{PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use penstock_core::{Buffer, Datatype, Tensor};
use pyo3::{exceptions::PyValueError, prelude::*};

/// Converts the value of the input `name`. Without a datatype it has that of its array.
pub(super) fn tensor(name: &str, datatype: Option<Datatype>, value: Bound<'_, PyAny>) -> PyResult<Tensor> {
    if value.is_instance_of::<TensorHandle>() {
        let tensor = TensorHandle::taken(&value);
        return Ok(tensor.ok_or_else(|| PyValueError::new_err("a tensor was handed on twice"))?.unique_or_shared());
    }
    let Ok(donation) = value.cast::<Donated>() else { return borrowed(name, datatype, value) };
    let array = donation.get().take().ok_or_else(|| {
        PyValueError::new_err(format!("input '{name}': what was moved is gone, and cannot be moved again"))
    })?;
    donated(name, datatype, array.into_bound(value.py()))
}

/// A tensor over the memory of an array that its owner may still use: read-only, and copied before a handler writes to
/// it.
fn borrowed(name: &str, datatype: Option<Datatype>, value: Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = value.py();
    let value = if value.is_instance_of::<PyUntypedArray>() {
        value
    } else if value.hasattr("dtype")? {
        py.import("numpy")?.call_method1("asarray", (value,))?
    } else {
        listed(name, datatype, value)?
    };
    borrow::tensor(name, value, datatype.map(Datatype::name))
}

/// The array of a number, a text or a list. It has the declared type, if there is one.
fn listed<'py>(name: &str, datatype: Option<Datatype>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let numpy = py.import("numpy")?;
    let Some(datatype) = datatype else { return numpy.call_method1("asarray", (value,)) };
    let Some(dtype) = form(py, datatype).dtype else { return numpy.call_method1("asarray", (value, "O")) };
    from_numbers::array(&value, dtype.bind(py)).map_err(|error| match wrong_element(py, &error) {
        Some(element) => invalid(py, &format!("input '{name}' has {element}, expected {datatype}")),
        None => error,
    })
}

/// A tensor over the memory of a donated array. The array is copied like any other if it is read-only, not contiguous,
/// or has other elements than the input.
fn donated(name: &str, datatype: Option<Datatype>, value: Bound<'_, PyAny>) -> PyResult<Tensor> {
    let tensor = borrowed(name, datatype, value.clone())?;
    // BYTES are objects, and BF16 is float32: their arrays do not have the memory layout of the tensor.
    let Ok(array) = value.cast_into::<PyUntypedArray>() else { return Ok(tensor) };
    let flags = array.getattr("flags")?;
    let is = |flag: &str| -> PyResult<bool> { flags.getattr(flag)?.extract() };
    let native = array.dtype().is_native_byteorder() != Some(false);
    let same = matches!(tensor.buffer(), Buffer::Shared(_));
    if !(same && native && is("c_contiguous")? && is("writeable")? && is("aligned")?) {
        return Ok(tensor);
    }
    let (datatype, shape, _) = tensor.into_parts();
    Tensor::new(datatype, shape, donate(&array)).map_err(|error| raised(array.py(), &error))
}
