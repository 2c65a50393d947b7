//! Clients on whose behalf a model calls another one.

use penstock_core::{CancelProbe, CompletionQueue};
use std::time::Instant;

/// The clients on whose behalf a model is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audience {
    /// Their latest deadline.
    pub(crate) deadline: Option<Instant>,
    /// One probe per client; empty if not every client can be probed.
    pub(crate) probes: Vec<CancelProbe>,
    /// The queue of the I/O thread of the only client that sent a raw request.
    pub(crate) completions: Option<CompletionQueue>,
}

impl Audience {
    /// Returns whether all clients have disconnected.
    pub(super) fn is_gone(&self) -> bool {
        !self.probes.is_empty() && self.probes.iter().all(CancelProbe::is_cancelled)
    }
}
