//! Arguments of one handler call: arrays or requests, and the context.

use super::{context::Context, sequences::Sequences};
use crate::{convert::to_numpy, definition::HandlerSpec, raw_request::Request};
use penstock_core::{Inputs, Job};
use pyo3::{
    prelude::*,
    types::{PyList, PyTuple},
};

pub(crate) type Arguments<'py> = (Bound<'py, PyTuple>, Option<Bound<'py, Context>>);

/// Creates the arguments of a call, and the context if the handler takes one.
pub(crate) fn arguments<'py>(
    py: Python<'py>,
    handler_spec: &HandlerSpec,
    sequences: &mut Sequences,
    job: &mut Job,
    inputs: Inputs,
) -> PyResult<Arguments<'py>> {
    if job.spec().raw_requests {
        return raw_arguments(py, handler_spec, sequences, job);
    }
    let arrays = inputs.into_iter().zip(&handler_spec.inputs).map(|(input, form)| match input {
        Some(tensor) => to_numpy::array(py, tensor, form),
        None => Ok(py.None().into_bound(py)),
    });
    let mut arguments = arrays.collect::<PyResult<Vec<_>>>()?;
    let mut context = None;
    if handler_spec.wants_context {
        let made = Bound::new(py, Context::of(py, job, sequences, &handler_spec.caller)?)?;
        arguments.push(made.clone().into_any());
        context = Some(made);
    }
    Ok((PyTuple::new(py, arguments)?, context))
}

/// Creates the request, or the list of requests with batching, and the context if the handler takes one.
fn raw_arguments<'py>(
    py: Python<'py>,
    handler_spec: &HandlerSpec,
    sequences: &mut Sequences,
    job: &mut Job,
) -> PyResult<Arguments<'py>> {
    let context = match handler_spec.wants_context {
        true => Some(Bound::new(py, Context::of(py, job, sequences, &handler_spec.caller)?)?),
        false => None,
    };
    let is_many = job.spec().batching.is_some();
    let requests = job.parts_mut().iter_mut().map(|part| Bound::new(py, Request::of(part)));
    let requests = requests.collect::<PyResult<Vec<_>>>()?;
    let first =
        if is_many { PyList::new(py, requests)?.into_any() } else { PyTuple::new(py, requests)?.get_item(0)? };
    let arguments = match &context {
        Some(context) => PyTuple::new(py, [&first, context.as_any()])?,
        None => PyTuple::new(py, [first])?,
    };
    Ok((arguments, context))
}
