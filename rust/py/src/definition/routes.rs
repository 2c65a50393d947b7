//! Routes and fallback of a model, as it declares them.

use crate::{convert::parameters::duration, errors::startup};
use penstock_core::{Fallback, Route};
use pyo3::{prelude::*, pybacked::PyBackedBytes};

/// The fields of `penstock.Fallback`.
#[derive(Debug, FromPyObject)]
pub(crate) struct DeclaredFallback {
    model: String,
    after: Option<f64>,
    match_body: Vec<PyBackedBytes>,
}

/// What answers where a model does not.
pub(crate) fn fallback(DeclaredFallback { model, after, match_body }: DeclaredFallback) -> Fallback {
    let match_body = match_body.iter().map(|bytes| Box::from(&**bytes)).collect();
    Fallback { model: model.into(), timeout: after.and_then(duration), match_body }
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
