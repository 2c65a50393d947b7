//! Copies of this process that a handler made by `fork`, and in which it returned too.
//!
//! # Rationale
//! Such a copy has none of the server's threads, but shares its sockets with it. It must neither answer nor wait for
//! work, so it ends. Children of multiprocessing and subprocess do not return from the handler, and are left alone.

use crate::exit;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit status of a copy.
const COPIED: i32 = 1;

/// Whether this process was forked off one that had instances, and has none of its own.
static COPY: AtomicBool = AtomicBool::new(false);

/// To be called in the child after a fork.
#[pyfunction]
pub(crate) fn mark_forked() {
    COPY.store(true, Ordering::Relaxed);
}

/// Instances begin in this process: what returns from a handler does so where it belongs.
pub(crate) fn begin() {
    COPY.store(false, Ordering::Relaxed);
}

/// Ends the process if a handler of the model has returned in a copy of its own.
pub(crate) fn end_copy(model: &str) {
    if COPY.load(Ordering::Relaxed) {
        let line = format!(
            "penstock: model '{model}': a handler forked and returned in the child too, which ends here; end it with \
             os._exit(), or use subprocess or multiprocessing\n"
        );
        // Past the lock of standard error, which a thread may hold that is not in the copy.
        let _ = rustix::io::write(std::io::stderr(), line.as_bytes());
        exit::at_once(COPIED);
    }
}
