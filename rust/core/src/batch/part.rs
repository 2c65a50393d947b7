//! Requests of a batch.

use crate::{CancelProbe, CompletionQueue, InferRequest, Reply};
use std::time::Duration;

/// One request of a batch.
#[derive(Debug)]
pub struct Part {
    /// Request. Its inputs are moved out when the batch is gathered.
    pub request: InferRequest,
    pub(crate) reply: Reply,
    pub(crate) waited: Duration,
}

impl Part {
    /// Returns true if the client has abandoned the request.
    pub fn is_abandoned(&self) -> bool {
        self.reply.is_abandoned()
    }

    /// Handle that reports an abandoned request.
    pub fn cancel_probe(&self) -> Option<CancelProbe> {
        self.reply.cancel_probe()
    }

    /// Completion queue of the client's I/O thread; `None` for a client without one.
    pub fn completions(&self) -> Option<&CompletionQueue> {
        self.reply.completions()
    }
}
