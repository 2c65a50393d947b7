//! The one door to the interpreter. Nothing else in this crate attaches or detaches a thread.

use pyo3::{Python, marker::Ungil};
use std::time::{Duration, Instant};

/// Runs `work` with the interpreter, on a thread that has none. Only instance threads call it, and the watch of an
/// event loop that is blocked.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    Python::attach(work)
}

/// Runs `work` without the interpreter.
pub(crate) fn detached<T: Ungil + Send>(py: Python<'_>, work: impl FnOnce() -> T + Ungil + Send) -> T {
    py.detach(work)
}

/// As [`detached`], and tells how long it took to get the interpreter back.
pub(crate) fn detached_timed<T: Ungil + Send>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Ungil + Send,
) -> (T, Duration) {
    let (result, done) = py.detach(|| {
        let result = work();
        (result, Instant::now())
    });
    (result, done.elapsed())
}
