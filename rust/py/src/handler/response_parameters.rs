//! Parameters that a handler sets on its next response.

use crate::convert::parameters::parameter;
use penstock_core::Parameters;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Parameters of the next response.
#[derive(Debug, Default)]
pub(super) struct ResponseParameters(Mutex<Parameters>);

impl ResponseParameters {
    /// Sets a parameter, in place of one of that name.
    pub(super) fn set(&self, name: String, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = parameter(value)?;
        let mut parameters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parameters.retain(|(known, _)| *known != name);
        parameters.push((name, value));
        Ok(())
    }

    /// Takes the parameters that were set.
    pub(super) fn take(&self) -> Parameters {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
