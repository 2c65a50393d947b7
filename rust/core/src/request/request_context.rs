//! Who a request is, for the logs of its handler and for traces. MetricUpdate only where somebody wants to know.

use super::Traced;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

static WANTED: AtomicBool = AtomicBool::new(false);

/// Who a request is.
#[derive(Clone, Debug, Default)]
pub struct RequestContext {
    /// Its id, empty if it has none.
    pub id: String,
    /// Its trace, if it is traced.
    pub trace: Option<Arc<Traced>>,
}

/// From now on requests say who they are.
pub fn enable_request_contexts() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Whether requests are to say who they are.
pub fn request_contexts_enabled() -> bool {
    WANTED.load(Ordering::Relaxed)
}
