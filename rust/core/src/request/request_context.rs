//! Id and trace of a request, for log lines and spans. Collected only if enabled.

use super::Traced;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

static WANTED: AtomicBool = AtomicBool::new(false);

/// Id and trace of a request.
#[derive(Clone, Debug, Default)]
pub struct RequestContext {
    /// Request id; empty if there is none.
    pub id: String,
    /// Trace, if the request is traced.
    pub trace: Option<Arc<Traced>>,
}

/// Enables request contexts for the whole process.
pub fn enable_request_contexts() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Returns true if request contexts are enabled.
pub fn request_contexts_enabled() -> bool {
    WANTED.load(Ordering::Relaxed)
}
