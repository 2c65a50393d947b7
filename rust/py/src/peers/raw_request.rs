//! Calls of models that take raw requests.

use super::tensors::tensor;
use crate::errors::raised;
use penstock_core::{Error, InferRequest, Kind, ModelSpec, Protocol, RawRequest, ResponseHead};
use pyo3::{prelude::*, types::PyDict};

/// Creates the request of a call by name.
///
/// # Errors
/// `InvalidInput` for inputs without a name, and for objects that cannot become a tensor.
pub(super) fn request(
    spec: &ModelSpec,
    positional: &[Bound<'_, PyAny>],
    named: &Bound<'_, PyDict>,
) -> PyResult<InferRequest> {
    let py = named.py();
    if !positional.is_empty() {
        let text = format!("model '{}' declares no inputs: pass arrays by name", spec.name);
        return Err(raised(py, &Error::invalid(text)));
    }
    let (mut names, mut tensors) = (Vec::with_capacity(named.len()), Vec::with_capacity(named.len()));
    for (name, value) in named.iter().filter(|(_, value)| !value.is_none()) {
        let name: String = name.extract()?;
        tensors.push(tensor(&name, None, value)?);
        names.push(name.into_boxed_str());
    }
    // Its declarations are documentation only, and nothing is missing.
    let request = InferRequest::place(spec, [], Protocol::InProcess).map_err(|error| raised(py, &error))?;
    Ok(InferRequest {
        inputs: tensors.into_iter().map(Some).collect(),
        rows: 1,
        takes_ownership: true,
        raw: Some(Box::new(RawRequest { names: names.into(), binary: true, ..RawRequest::default() })),
        ..request
    })
}

/// Checks that a response has tensors.
///
/// # Errors
/// The error of its status; `Unsupported` for any other body.
pub(super) fn check(py: Python<'_>, spec: &ModelSpec, head: &ResponseHead) -> PyResult<()> {
    let body = head.body.as_deref().unwrap_or_default();
    if head.status >= 400 {
        let text = match String::from_utf8_lossy(body) {
            empty if empty.is_empty() => format!("model '{}' answered with status {}", spec.name, head.status),
            text => text.into_owned(),
        };
        let class = py.import("penstock.errors")?.call_method1("by_status", (head.status,))?;
        return Err(PyErr::from_value(class.call1((text,))?));
    }
    match head.body {
        None => Ok(()),
        Some(_) => {
            let text = format!("model '{}' answered with a body, and only outputs come back here", spec.name);
            Err(raised(py, &Error::new(Kind::Unsupported, text)))
        }
    }
}
