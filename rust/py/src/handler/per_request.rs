//! `penstock.Answers`: the outputs of a handler that responds to each request of a batch separately.

use super::{outputs, row_errors};
use crate::{convert::array_form::ArrayForm, errors};
use penstock_core::{ModelSpec, RequestOutput, Result};
use pyo3::{intern, prelude::*, sync::PyOnceLock, types::PyTuple};

/// Returns whether a handler returned an `Answers`.
pub(crate) fn are(returned: &Bound<'_, PyAny>) -> bool {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = returned.py();
    let class =
        CLASS.get_or_try_init(py, || py.import("penstock._spec.results")?.getattr("Answers").map(Bound::unbind));
    class.is_ok_and(|class| returned.get_type().is(class.bind(py)))
}

/// Converts the outputs or the exception of each request.
///
/// # Errors
/// `Handler` if the attributes cannot be read.
pub(crate) fn tensors(
    spec: &ModelSpec,
    forms: &[ArrayForm],
    answers: Bound<'_, PyAny>,
) -> Result<Vec<Result<RequestOutput>>> {
    let py = answers.py();
    let take = || -> PyResult<Vec<Bound<'_, PyAny>>> {
        let each = answers.getattr(intern!(py, "each"))?.cast_into::<PyTuple>()?;
        Ok(each.iter().collect())
    };
    let each = take().map_err(|error| errors::from_handler(py, spec, &error))?;
    // So that arrays that only it held are unshared.
    drop(answers);
    let one = |answer: Bound<'_, PyAny>| match row_errors::is_exception(&answer) {
        true => Err(row_errors::failure(spec, &answer)),
        false => outputs::tensors(spec, forms, answer).map(RequestOutput::from),
    };
    Ok(each.into_iter().map(one).collect())
}
