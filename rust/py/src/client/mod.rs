//! Client for Python: arguments in, arrays out. Calls run without the interpreter.

mod arguments;
mod blocking;
mod completion_queue;
mod load;
mod pending_call;
mod response;
mod runtime;

use pyo3::prelude::*;

/// Adds the client's part to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(reset_clients, module)?)?;
    module.add_class::<blocking::BlockingClient>()?;
    module.add_class::<blocking::BlockingStream>()?;
    module.add_class::<runtime::RuntimeClient>()?;
    module.add_class::<runtime::RuntimeStream>()?;
    module.add_class::<completion_queue::CompletionQueue>()?;
    module.add_class::<load::LoadRun>()?;
    module.add_class::<pending_call::PendingCall>()
}

/// Resets the clients in a forked child.
#[pyfunction]
fn reset_clients() {
    penstock_client::runtime::forked();
}
