//! Responses to raw requests, from the return value of their handler.

use super::{outputs::unwrapped, row_errors};
use crate::{
    convert::{from_any_array::tensor, from_numpy},
    definition::HandlerSpec,
    errors::{self, class_of},
    peers::GenerationBody,
    raw_request::{EventStream, Response, body_of},
};
use bytes::Bytes;
use penstock_core::{Error, ModelSpec, RequestOutput, ResponseHead, Result, RowChunk};
use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyBytes, PyDict, PyList, PyString, PyTuple},
};

/// The size from which on bodies are sent from Python's memory; below it a copy costs less.
const BORROW_FROM: usize = 64 << 10;

/// Converts the return value or exception of a handler to one response for each request.
///
/// # Errors
/// The error for all requests: the exception, or a return value that is not a list.
pub(crate) fn parted(
    py: Python<'_>,
    spec: &ModelSpec,
    handler_spec: &HandlerSpec,
    returned: PyResult<Bound<'_, PyAny>>,
) -> Result<Vec<Result<RequestOutput>>> {
    let returned = returned.map_err(|raised| errors::from_handler(py, spec, &raised))?;
    if spec.batching.is_none() {
        return Ok(vec![one(spec, handler_spec, returned)]);
    }
    Ok(listed(spec, returned)?.into_iter().map(|item| one(spec, handler_spec, item)).collect())
}

/// Converts one yielded value to one chunk for each request.
///
/// # Errors
/// Those of [`parted`].
pub(crate) fn pieces(
    spec: &ModelSpec,
    handler_spec: &HandlerSpec,
    yielded: Bound<'_, PyAny>,
) -> Result<Vec<RowChunk<RequestOutput>>> {
    if spec.batching.is_none() {
        return Ok(vec![piece(spec, handler_spec, yielded)]);
    }
    Ok(listed(spec, yielded)?.into_iter().map(|item| piece(spec, handler_spec, item)).collect())
}

/// Converts one request's part of a yielded value: None for no chunk, `Final` for the last one.
fn piece(spec: &ModelSpec, handler_spec: &HandlerSpec, item: Bound<'_, PyAny>) -> RowChunk<RequestOutput> {
    if item.is_none() && spec.batching.is_some() {
        return RowChunk::Nothing;
    }
    match unwrapped(item, spec) {
        Ok((None, _)) => RowChunk::End,
        Ok((Some(item), false)) if item.is_instance_of::<EventStream>() => {
            let head = ResponseHead { announces_events: true, ..ResponseHead::default() };
            RowChunk::More(RequestOutput { head: Some(Box::new(head)), ..RequestOutput::default() })
        }
        Ok((Some(item), last)) => match one(spec, handler_spec, item) {
            Ok(own) if last => RowChunk::Last(own),
            own => own.into(),
        },
        Err(error) => RowChunk::Fail(error),
    }
}

/// The items of a batch, one for each request.
fn listed<'py>(spec: &ModelSpec, returned: Bound<'py, PyAny>) -> Result<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = returned.cast::<PyList>() {
        return Ok(list.iter().collect());
    }
    if let Ok(tuple) = returned.cast::<PyTuple>() {
        return Ok(tuple.iter().collect());
    }
    let (model, class) = (&spec.name, class_of(&returned));
    Err(Error::handler(format!("model '{model}' returned {class}, expected a list of an answer to each request")))
}

/// Converts the response to one request.
fn one(spec: &ModelSpec, handler_spec: &HandlerSpec, item: Bound<'_, PyAny>) -> Result<RequestOutput> {
    let item = match item.cast_into::<PyDict>() {
        Ok(outputs) => return with_outputs(spec, handler_spec, outputs, ResponseHead::default()),
        Err(error) => error.into_inner(),
    };
    if let Ok(response) = item.cast::<Response>() {
        let Response { body, status, headers, parameters, id, event, .. } = response.get();
        let body = body.as_ref().map(|body| shared(body.bind(item.py())));
        let event = event.as_ref().map(|event| shared(event.bind(item.py())));
        let (headers, id) = (headers.clone(), id.clone());
        let told = ResponseHead { status: *status, headers, body, id, event, ..ResponseHead::default() };
        let parameters = parameters.clone();
        // Arrays that only the response holds are unshared once it is dropped.
        let outputs = response.get().outputs(item.py(), from_numpy::is_last(&item));
        drop(item);
        let own = match outputs {
            Some(outputs) => with_outputs(spec, handler_spec, outputs, told)?,
            None => RequestOutput { head: Some(Box::new(told)), ..RequestOutput::default() },
        };
        return Ok(RequestOutput { parameters, ..own });
    }
    if let Ok(text) = item.cast::<GenerationBody>() {
        let head = ResponseHead { splice: Some(text.get().splice()), ..ResponseHead::default() };
        return Ok(RequestOutput { head: Some(Box::new(head)), ..RequestOutput::default() });
    }
    if row_errors::is_exception(&item) {
        return Err(row_errors::failure(spec, &item));
    }
    let kind = match item.is_instance_of::<PyString>() {
        true => "text/plain; charset=utf-8",
        false => "application/octet-stream",
    };
    let body = body_of(&item).map_err(|_| {
        let (model, class) = (&spec.name, class_of(&item));
        let expected = "a Response, a dict of arrays by name, bytes or str";
        Error::handler(format!("model '{model}' returned {class} for a request, expected {expected}"))
    })?;
    let body = Some(shared(body.bind(item.py())));
    let headers = [("content-type", kind)].into_iter().collect();
    Ok(RequestOutput {
        head: Some(Box::new(ResponseHead { headers, body, ..ResponseHead::default() })),
        ..RequestOutput::default()
    })
}

fn with_outputs(
    spec: &ModelSpec,
    handler_spec: &HandlerSpec,
    outputs: Bound<'_, PyDict>,
    told: ResponseHead,
) -> Result<RequestOutput> {
    let items: Vec<_> = outputs.iter().collect();
    // So that arrays that only it held are unshared.
    drop(outputs);
    let (mut names, mut tensors) = (Vec::with_capacity(items.len()), penstock_core::Outputs::new());
    for (name, item) in items {
        let name: String = name.extract().map_err(|_| {
            let (model, class) = (&spec.name, class_of(&name));
            Error::handler(format!("model '{model}' returned an output whose name is {class}, expected a str"))
        })?;
        tensors.push(tensor(&spec.name, &name, item, handler_spec.copied_at_once)?);
        names.push(name.into_boxed_str());
    }
    let told = ResponseHead { names: names.into(), ..told };
    Ok(RequestOutput { outputs: tensors, head: Some(Box::new(told)), ..RequestOutput::default() })
}

fn shared(body: &Bound<'_, PyBytes>) -> Bytes {
    match body.as_bytes() {
        small if small.len() < BORROW_FROM => Bytes::copy_from_slice(small),
        _ => Bytes::from_owner(PyBackedBytes::from(body.clone())),
    }
}
