//! Arguments of `record_tokens`.

use penstock_core::{GenAiOperation, TokenUsage};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::PyBool,
};
use std::time::Instant;

/// Counts that are possible, for messages.
const EXPECTED: &str = "expected an integer from 0 to 2**53";

/// Arguments of `record_tokens`, which may be a dict.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TokenCounts<'py> {
    pub(crate) prompt: Option<Bound<'py, PyAny>>,
    pub(crate) completion: Option<Bound<'py, PyAny>>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) operation: Option<String>,
}

impl TokenCounts<'_> {
    /// Reads the counts of a request that began at `began`.
    ///
    /// # Errors
    /// `TypeError` and `ValueError` for counts that are not ones, and for an unknown operation.
    pub(crate) fn usage(self, began: Instant) -> PyResult<TokenUsage> {
        let Self { prompt, completion, finish_reason, operation } = self;
        if prompt.is_none() && completion.is_none() {
            return Err(PyTypeError::new_err("record_tokens takes prompt, completion or both"));
        }
        let operation = match operation {
            None => GenAiOperation::default(),
            Some(name) => GenAiOperation::by_name(&name).ok_or_else(|| {
                let names = GenAiOperation::ALL.map(GenAiOperation::name).join(", ");
                PyValueError::new_err(format!("record_tokens: operation is '{name}', expected one of {names}"))
            })?,
        };
        let usage = TokenUsage {
            prompt: count("prompt", prompt.as_ref())?,
            completion: count("completion", completion.as_ref())?,
            duration: began.elapsed(),
            finish_reason,
            operation,
            ..TokenUsage::default()
        };
        usage.check().map_err(refused)?;
        Ok(usage)
    }
}

fn count(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<u64>> {
    let Some(value) = value else { return Ok(None) };
    let index = value.getattr_opt("__index__")?.filter(|_| !value.is_instance_of::<PyBool>());
    let Some(index) = index else {
        let got = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!("record_tokens: {name} is a {got}, {EXPECTED}")));
    };
    let number = index.call0()?;
    let wrong = |_| PyValueError::new_err(format!("record_tokens: {name} is {number}, {EXPECTED}"));
    number.extract().map(Some).map_err(wrong)
}

/// The error of counts that are refused.
pub(crate) fn refused(text: String) -> PyErr {
    PyValueError::new_err(format!("record_tokens: {text}"))
}
