//! Clients for whom a model calls another one.

use penstock_core::CancelProbe;
use std::time::Instant;

/// Those for whom a model is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audience {
    /// When none of them waits any more.
    pub(crate) deadline: Option<Instant>,
    /// Tell whether they have left; none if that cannot be told of each.
    pub(crate) probes: Vec<CancelProbe>,
}

impl Audience {
    /// Whether nobody waits for the answer any more.
    pub(super) fn is_gone(&self) -> bool {
        !self.probes.is_empty() && self.probes.iter().all(CancelProbe::is_cancelled)
    }
}
