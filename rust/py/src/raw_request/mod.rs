//! Raw requests and their responses in Python: `penstock.Request` and `penstock.Response`.

mod builder;
mod request;
mod response;

use pyo3::prelude::*;
pub(crate) use request::Request;
pub(crate) use response::{Response, body_of};

/// Adds the classes to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Request>()?;
    module.add_class::<Response>()
}
