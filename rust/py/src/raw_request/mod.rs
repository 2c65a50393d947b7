//! Raw requests and their responses in Python: `penstock.Request`, `penstock.Response` and `penstock.EventStream`.

mod builder;
mod request;
mod response;

use pyo3::prelude::*;
pub(crate) use request::Request;
pub(crate) use response::{EventStream, Response, body_of};

/// Adds the classes to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Request>()?;
    module.add_class::<Response>()?;
    module.add_class::<EventStream>()
}
