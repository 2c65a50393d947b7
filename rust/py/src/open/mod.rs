//! Requests as they are, in Python: what an open model's handler is handed, and what it returns.

mod answer;
mod arguments;
mod built;
mod request;
mod response;
mod tensor;

pub(crate) use answer::{parted, pieces};
pub(crate) use arguments::{Declared as DeclaredFallback, arguments, fallback, routes};
use pyo3::prelude::*;

/// Adds the classes to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<request::Request>()?;
    module.add_class::<response::Response>()
}
