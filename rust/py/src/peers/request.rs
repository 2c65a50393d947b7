//! Requests and responses of calls between models.

use super::{raw_request, tensors::tensor};
use crate::{
    convert::{array_form::form, tensor_handle::TensorHandle, to_numpy},
    errors::raised,
};
use penstock_core::{Error, InferRequest, InferResponse, ModelSpec, Protocol, Tensor};
use pyo3::{prelude::*, types::PyDict};

/// Creates the request of a call, with inputs by position in declared order, and by name.
///
/// # Errors
/// `InvalidInput` that names the input and the expected type.
pub(super) fn request(
    spec: &ModelSpec,
    positional: Vec<Bound<'_, PyAny>>,
    named: &Bound<'_, PyDict>,
) -> PyResult<InferRequest> {
    if spec.raw_requests {
        return raw_request::request(spec, &positional, named);
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
    request.takes_ownership = true;
    Ok(request)
}

/// Converts an input, unless it is None.
fn input(spec: &ModelSpec, index: usize, value: Bound<'_, PyAny>) -> PyResult<Option<(usize, Tensor)>> {
    if value.is_none() {
        return Ok(None);
    }
    let (py, declared) = (value.py(), &spec.inputs[index]);
    let tensor = tensor(&declared.name, Some(declared.datatype), value)?;
    spec.check_input(index, tensor.datatype(), tensor.shape()).map_err(|error| raised(py, &error))?;
    Ok(Some((index, tensor)))
}

/// Converts the outputs by name to arrays, or to handles.
///
/// # Errors
/// The error of a raw response without outputs.
pub(super) fn arrays_of<'py>(
    py: Python<'py>,
    spec: &ModelSpec,
    response: InferResponse,
    as_handles: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let own = response.raw_spec(spec);
    if let Some(head) = &response.head {
        raw_request::check(py, spec, head)?;
    }
    let spec = own.as_ref().unwrap_or(spec);
    let named = PyDict::new(py);
    for (declared, tensor) in spec.outputs.iter().zip(response.outputs).filter(|(_, tensor)| !tensor.is_absent()) {
        if as_handles {
            named.set_item(&*declared.name, Bound::new(py, TensorHandle::new(tensor))?)?;
            continue;
        }
        let mut form = form(py, declared.datatype);
        form.text = declared.text;
        named.set_item(&*declared.name, to_numpy::array(py, tensor.unique_or_shared(), &form)?)?;
    }
    Ok(named)
}
