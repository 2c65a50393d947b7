//! A handler's own spans are parts of its batch's: while it runs, OpenTelemetry's context is that of the batch.

use penstock_core::Job;
use pyo3::prelude::*;

/// This thread is in a batch's span until this is dropped. Costs nothing for a batch that is not traced.
pub(crate) struct InTrace<'py>(Option<(Bound<'py, PyModule>, Bound<'py, PyAny>)>);

impl<'py> InTrace<'py> {
    pub(crate) fn enter(py: Python<'py>, job: &Job) -> Self {
        let attach = |(parent, state): (&str, &str)| -> PyResult<_> {
            let module = py.import("penstock._tracing")?;
            let token = module.call_method1("attach", (parent, state))?;
            Ok((!token.is_none()).then_some((module, token)))
        };
        let trace = job.trace().map(|trace| (&*trace.parent, &*trace.state));
        // A handler is not failed for its trace.
        Self(trace.and_then(|trace| attach(trace).inspect_err(|error| error.print(py)).ok().flatten()))
    }
}

impl Drop for InTrace<'_> {
    fn drop(&mut self) {
        if let Some((module, token)) = self.0.take()
            && let Err(error) = module.call_method1("detach", (&token,))
        {
            error.print(token.py());
        }
    }
}
