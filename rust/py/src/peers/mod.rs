//! Calls between models of one server: through the called model's queue, with the caller's deadline, priority, request
//! id and cancellation.
//!
//! # Rationale
//! Tensors pass between models without a socket, a format or, for large ones, a copy. An unbatched response belongs to
//! its caller. An array that the caller retains is copied once, where the called model's batch is built, because its
//! handler may write to its inputs. A donated array (`Donated`) is not copied.
//!
//! # Limitations
//! Only models of the same server, and only from handlers on its threads. A response out of a batch of several
//! requests, or of a process, is copied once, so that it is writable.

mod audience;
mod call;
mod call_graph;
mod client;
mod generation;
mod generation_reader;
mod generation_source;
mod notifier;
mod raw_request;
mod request;
mod stream;
mod tensors;
mod wait;

pub(crate) use audience::Audience;
pub(crate) use call_graph::{CallGraph, Caller};
pub(crate) use client::{CallerContext, PeerClient};
pub(crate) use generation_source::GenerationBody;

use crate::convert::tensor_handle::{Donated, TensorHandle};
use pyo3::prelude::*;

/// Adds the classes to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PeerClient>()?;
    module.add_class::<call::PeerCall>()?;
    module.add_class::<stream::PeerStream>()?;
    module.add_class::<generation::PyChunkFormat>()?;
    module.add_class::<generation::PyEventFormat>()?;
    module.add_class::<generation::Generation>()?;
    module.add_class::<generation::GeneratedChoice>()?;
    module.add_class::<GenerationBody>()?;
    module.add_class::<notifier::Notifier>()?;
    module.add_class::<TensorHandle>()?;
    module.add_class::<Donated>()
}
