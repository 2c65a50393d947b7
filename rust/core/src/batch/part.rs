//! Requests of a batch.

use crate::{CancelProbe, InferRequest, Reply};
use std::time::Duration;

/// One request within a batch.
#[derive(Debug)]
pub struct Part {
    /// The request; its inputs are moved out when the batch is gathered.
    pub request: InferRequest,
    pub(crate) reply: Reply,
    pub(crate) waited: Duration,
}

impl Part {
    /// Whether this caller has left.
    pub fn is_abandoned(&self) -> bool {
        self.reply.is_abandoned()
    }

    /// A handle that tells whether this caller has left.
    pub fn cancel_probe(&self) -> Option<CancelProbe> {
        self.reply.cancel_probe()
    }
}
