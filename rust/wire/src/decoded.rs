//! What every decoder returns.

use penstock_core::{AnswerPlan, InferRequest};
use std::time::Duration;

/// A request as it came off the wire, checked against its model.
#[derive(Debug)]
pub struct Decoded {
    /// What goes to the queue.
    pub request: InferRequest,
    /// What stays behind for the answer's encoder.
    pub plan: AnswerPlan,
    /// How long the caller said it would wait, from now.
    pub timeout: Option<Duration>,
}
