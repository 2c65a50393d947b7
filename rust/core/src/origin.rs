//! Who a request is, for the logs of its handler. Kept only from when somebody in this process wants to know.

use std::sync::atomic::{AtomicBool, Ordering};

static WANTED: AtomicBool = AtomicBool::new(false);

/// Who a request is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its id, empty if it has none.
    pub id: String,
}

/// From now on requests say who they are.
pub fn want_origins() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Whether requests are to say who they are.
pub fn are_origins_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}
