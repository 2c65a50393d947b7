//! The client for Python: arguments in, arrays out. Calls are made without the interpreter.

pub(crate) mod answer;
mod arguments;
mod lend;
mod mailbox;
mod running;
mod shared;
mod sync;

pub(crate) use answer::{form, raised};
pub(crate) use lend::{contiguous, given_away, own_datatype as datatype_of, tensor as lent};
use pyo3::prelude::*;

/// Adds the client's part to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(client_forked, module)?)?;
    module.add_class::<sync::BlockingClient>()?;
    module.add_class::<sync::BlockingPieces>()?;
    module.add_class::<shared::SharedClient>()?;
    module.add_class::<shared::SharedPieces>()?;
    module.add_class::<mailbox::Mailbox>()?;
    module.add_class::<running::Running>()
}

/// To be called in the child after a fork.
#[pyfunction]
fn client_forked() {
    penstock_client::background::forked();
}
