//! Models that call models of the same server: through the called one's own queue, with the caller's deadline,
//! priority, request id and cancellation.
//!
//! # Rationale
//! What one model gives another needs no socket and no format, and in a large tensor no copy either. An answer that
//! goes to one caller only is that caller's memory. An array that the caller keeps is copied once, where the called
//! model's batch is made, because its handler may write to what it gets; one that is given away ([`crate::convert::tensor_handle::Donated`])
//! is not.
//!
//! # Limitations
//! Only models of the same server, and only from handlers on its threads. Answers that come out of a batch of several
//! requests, or of another process, are copied once, so that they can be written to.

mod audience;
mod call;
mod call_graph;
mod client;
mod notifier;
mod raw_request;
mod request;
mod stream;
mod tensors;
mod wait;

pub(crate) use audience::Audience;
pub(crate) use call_graph::{Caller, Peers};
pub(crate) use client::{Carried, PeerClient};

use crate::convert::tensor_handle::{Donated, TensorHandle};
use pyo3::prelude::*;

/// Adds the classes to `penstock._core`.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PeerClient>()?;
    module.add_class::<call::PeerCall>()?;
    module.add_class::<stream::PeerStream>()?;
    module.add_class::<notifier::Notifier>()?;
    module.add_class::<TensorHandle>()?;
    module.add_class::<Donated>()
}
