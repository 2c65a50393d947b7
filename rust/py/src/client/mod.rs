//! The client for Python: arguments in, arrays out. Calls are made without the interpreter.

mod arguments;
mod blocking;
mod completion_queue;
mod pending_call;
mod response;
mod runtime;

use pyo3::prelude::*;

/// Adds the client's part to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(client_forked, module)?)?;
    module.add_class::<blocking::BlockingClient>()?;
    module.add_class::<blocking::BlockingPieces>()?;
    module.add_class::<runtime::SharedClient>()?;
    module.add_class::<runtime::SharedPieces>()?;
    module.add_class::<completion_queue::Mailbox>()?;
    module.add_class::<pending_call::Running>()
}

/// To be called in the child after a fork.
#[pyfunction]
fn client_forked() {
    penstock_client::runtime::forked();
}
