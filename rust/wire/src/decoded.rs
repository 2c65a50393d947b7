//! What every decoder returns.

use crate::Shared;
use penstock_core::{InferRequest, ResponsePlan};
use std::time::Duration;

/// A request as it came off the wire, checked against its model.
#[derive(Debug)]
pub struct Decoded {
    /// What goes to the queue.
    pub request: InferRequest,
    /// What stays behind for the answer's encoder.
    pub plan: ResponsePlan,
    /// How long the caller said it would wait, from now.
    pub timeout: Option<Duration>,
    /// The tensors in shared memory, if the limits allow them. Its inputs are missing in the request
    /// until [`Decoded::fill`].
    pub shared: Option<Box<Shared>>,
}
