//! The arguments of an open model's handler, and the routes that requests to it come by.

use super::request::Request;
use crate::{
    call::Arguments, config::duration, context::Context, definition::Handling, errors::startup, sequences::Sequences,
};
use penstock_core::{Fallback, Job, Route};
use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyList, PyTuple},
};

/// The request, or a list of them where they share calls; and the context if the handler wants it.
pub(crate) fn arguments<'py>(
    py: Python<'py>,
    handling: &Handling,
    sequences: &mut Sequences,
    job: &mut Job,
) -> PyResult<Arguments<'py>> {
    let context = match handling.wants_context {
        true => Some(Bound::new(py, Context::of(py, job, sequences, &handling.caller)?)?),
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

/// The fields of `penstock.Fallback`.
#[derive(Debug, FromPyObject)]
pub(crate) struct Declared {
    model: String,
    after: Option<f64>,
    marks: Vec<PyBackedBytes>,
}

/// What answers where a model does not.
pub(crate) fn fallback(Declared { model, after, marks }: Declared) -> Fallback {
    let marks = marks.iter().map(|mark| Box::from(&**mark)).collect();
    Fallback { model: model.into(), after: after.and_then(duration), match_body: marks }
}

/// The routes of a model, as it declares them.
///
/// # Errors
/// `SignatureError` that names the model, and what is wrong.
pub(crate) fn routes(py: Python<'_>, model: &str, declared: &[String]) -> PyResult<Vec<Route>> {
    let read = |text: &String| {
        Route::parse(text)
            .map_err(|error| startup(py, "SignatureError", &format!("model '{model}': {}", error.message())))
    };
    declared.iter().map(read).collect()
}
