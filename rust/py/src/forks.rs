//! Forked copies of this process, in which a handler returns too.
//!
//! # Rationale
//! A copy has none of the server's threads, but shares its sockets. It must neither respond nor wait for work, so it
//! ends. Children of multiprocessing and subprocess do not return from the handler, and continue.

use crate::exit;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status of a copy.
const COPIED: i32 = 1;

/// Set in a copy of a process with instances, which has none itself.
static COPY: AtomicBool = AtomicBool::new(false);

/// Marks this process as a copy. Called in the child after a fork.
#[pyfunction]
pub(crate) fn mark_forked() {
    COPY.store(true, Ordering::Relaxed);
}

/// Clears the mark: instances start in this process itself.
pub(crate) fn begin() {
    COPY.store(false, Ordering::Relaxed);
}

/// Ends the process if a handler of the model returned in a copy.
pub(crate) fn end_copy(model: &str) {
    if COPY.load(Ordering::Relaxed) {
        let line = format!(
            "penstock: model '{model}': a handler forked and returned in the child too, which ends here; end it with \
             os._exit(), or use subprocess or multiprocessing\n"
        );
        // Without the lock of standard error: a thread that does not exist in the copy may hold it.
        let _ = rustix::io::write(std::io::stderr(), line.as_bytes());
        exit::at_once(COPIED);
    }
}
