//! Result of one handler call: the outputs of its batch, and the rows that failed.

use super::{
    outputs::{self, Outputs},
    per_request, raw_outputs, row_errors,
};
use crate::{definition::HandlerSpec, errors};
use penstock_core::{ModelSpec, RequestOutput, Result, RowFailures};
use pyo3::prelude::*;

/// The result of a batch.
#[derive(Default)]
pub(crate) struct HandlerResult {
    /// The outputs of all rows.
    pub(crate) outputs: Outputs,
    /// The rows that failed.
    pub(crate) failed: RowFailures,
    /// In place of both: the output or error of each request.
    pub(crate) per_request: Option<Vec<Result<RequestOutput>>>,
}

/// Converts the return value or exception of a handler.
///
/// # Errors
/// Those of [`outputs::tensors`]; the handler's exception if it concerns the whole batch.
pub(crate) fn tensors(
    py: Python<'_>,
    spec: &ModelSpec,
    handler_spec: &HandlerSpec,
    returned: PyResult<Bound<'_, PyAny>>,
) -> Result<HandlerResult> {
    if spec.raw_requests {
        return Ok(HandlerResult {
            per_request: Some(raw_outputs::parted(py, spec, handler_spec, returned)?),
            ..HandlerResult::default()
        });
    }
    let forms = &handler_spec.outputs;
    let returned = match returned {
        Ok(returned) if per_request::are(&returned) => {
            return Ok(HandlerResult {
                per_request: Some(per_request::tensors(spec, forms, returned)?),
                ..HandlerResult::default()
            });
        }
        Ok(returned) if !row_errors::has_failures(spec, &returned) => {
            return Ok(HandlerResult { outputs: outputs::tensors(spec, forms, returned)?, ..HandlerResult::default() });
        }
        Ok(returned) => returned,
        Err(raised) if row_errors::is_raised(py, spec, &raised) => raised.into_value(py).into_bound(py).into_any(),
        Err(raised) => return Err(errors::from_handler(py, spec, &raised)),
    };
    let (failed, outputs) = row_errors::part(spec, &returned)?;
    drop(returned);
    let outputs = outputs.map(|outputs| outputs::tensors(spec, forms, outputs)).transpose()?;
    Ok(HandlerResult { outputs: outputs.unwrap_or_default(), failed, per_request: None })
}
