//! From what a handler passes to a called model's inputs.

use super::{
    held::{Held, Moved},
    open,
};
use crate::client::{form, given_away, lent, raised};
use numpy::{PyArrayDescrMethods as _, PyUntypedArray, PyUntypedArrayMethods as _};
use penstock_core::{Buffer, Datatype, Error, InferRequest, InferResponse, ModelSpec, Protocol, Tensor};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

/// The request of a call by position, in declared order, and by name.
///
/// # Errors
/// `InvalidInput` that names the input, and what is expected.
pub(super) fn request(
    spec: &ModelSpec,
    positional: Vec<Bound<'_, PyAny>>,
    named: &Bound<'_, PyDict>,
) -> PyResult<InferRequest> {
    if spec.raw_requests {
        return open::request(spec, &positional, named);
    }
    let py = named.py();
    let raise = |error: Error| raised(py, &error);
    if positional.len() > spec.inputs.len() {
        return Err(raise(Error::invalid(format!(
            "model '{}' takes {} inputs ({}), got {}",
            spec.name,
            spec.inputs.len(),
            penstock_core::names(&spec.inputs),
            positional.len()
        ))));
    }
    let mut decoded = Vec::with_capacity(spec.inputs.len());
    for (index, value) in positional.into_iter().enumerate() {
        decoded.extend(input(spec, index, value)?);
    }
    for (name, value) in named {
        let index = spec.input_index(&name.extract::<String>()?).map_err(raise)?;
        decoded.extend(input(spec, index, value)?);
    }
    let mut request = InferRequest::assemble(spec, decoded, Protocol::InProcess).map_err(raise)?;
    request.takes_memory = true;
    Ok(request)
}

/// An input, unless it is None.
fn input(spec: &ModelSpec, index: usize, value: Bound<'_, PyAny>) -> PyResult<Option<(usize, Tensor)>> {
    if value.is_none() {
        return Ok(None);
    }
    let (py, declared) = (value.py(), &spec.inputs[index]);
    let tensor = tensor(&declared.name, Some(declared.datatype), value)?;
    spec.check_input(index, tensor.datatype(), tensor.shape()).map_err(|error| raised(py, &error))?;
    Ok(Some((index, tensor)))
}

/// The tensor of what a handler passes as the input `name`. Without a datatype it has that of its array.
pub(super) fn tensor(name: &str, datatype: Option<Datatype>, value: Bound<'_, PyAny>) -> PyResult<Tensor> {
    if value.is_instance_of::<Held>() {
        let tensor = Held::taken(&value);
        return Ok(tensor.ok_or_else(|| PyValueError::new_err("a tensor was handed on twice"))?.alone_or_shared());
    }
    let Ok(moved) = value.cast::<Moved>() else { return kept(name, datatype, value) };
    let array = moved.get().take().ok_or_else(|| {
        PyValueError::new_err(format!("input '{name}': what was moved is gone, and cannot be moved again"))
    })?;
    moved_in(name, datatype, array.into_bound(value.py()))
}

/// A tensor over the memory of an array that its caller may still use: to be read, and to be copied before anybody
/// writes to it.
fn kept(name: &str, datatype: Option<Datatype>, value: Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = value.py();
    let value = if value.is_instance_of::<PyUntypedArray>() {
        value
    } else if value.hasattr("dtype")? {
        py.import("numpy")?.call_method1("asarray", (value,))?
    } else {
        // Numbers, texts and lists of them take the declared type, if there is one.
        let numpy = py.import("numpy")?;
        match datatype.map(|datatype| form(py, datatype).dtype) {
            Some(Some(dtype)) => numpy.call_method1("asarray", (value, dtype))?,
            Some(None) => numpy.call_method1("asarray", (value, "O"))?,
            None => numpy.call_method1("asarray", (value,))?,
        }
    };
    lent(name, value, datatype.map(Datatype::name))
}

/// A tensor over the memory of an array that its caller lets go. It is copied like any other if it cannot be handed
/// over as it lies: if it may not be written to, is not contiguous, or its elements are not those of the input.
fn moved_in(name: &str, datatype: Option<Datatype>, value: Bound<'_, PyAny>) -> PyResult<Tensor> {
    let tensor = kept(name, datatype, value.clone())?;
    // BYTES are objects, and brain floats are float32: neither lies in the array as it is handed over.
    let Ok(array) = value.cast_into::<PyUntypedArray>() else { return Ok(tensor) };
    let flags = array.getattr("flags")?;
    let is = |flag: &str| -> PyResult<bool> { flags.getattr(flag)?.extract() };
    let native = array.dtype().is_native_byteorder() != Some(false);
    let same = matches!(tensor.buffer(), Buffer::Shared(_));
    if !(same && native && is("c_contiguous")? && is("writeable")? && is("aligned")?) {
        return Ok(tensor);
    }
    let (datatype, shape, _) = tensor.into_parts();
    Tensor::new(datatype, shape, given_away(&array)).map_err(|error| raised(array.py(), &error))
}

/// The outputs by name, as arrays, or `held` as they are.
///
/// # Errors
/// What an open model told in place of outputs.
pub(super) fn arrays_of<'py>(
    py: Python<'py>,
    spec: &ModelSpec,
    response: InferResponse,
    held: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let own = response.raw_spec(spec);
    if let Some(told) = &response.head {
        open::check(py, spec, told)?;
    }
    let spec = own.as_ref().unwrap_or(spec);
    let named = PyDict::new(py);
    for (declared, tensor) in spec.outputs.iter().zip(response.outputs).filter(|(_, tensor)| !tensor.is_absent()) {
        if held {
            named.set_item(&*declared.name, Bound::new(py, Held::new(tensor))?)?;
            continue;
        }
        let mut form = form(py, declared.datatype);
        form.text = declared.text;
        named.set_item(&*declared.name, crate::hand_in::array(py, tensor.alone_or_shared(), &form)?)?;
    }
    Ok(named)
}
