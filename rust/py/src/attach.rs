//! Access to the interpreter. No other file of this crate attaches or detaches a thread.

use pyo3::{Python, marker::Ungil};
use std::time::{Duration, Instant};

/// Runs `work` with the interpreter, on a thread without it: an instance's, or the detector of a blocked event loop.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    Python::attach(work)
}

/// Runs `work` with the interpreter, on a thread without it; `None` where the interpreter ends.
pub(crate) fn try_attached<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    Python::try_attach(work)
}

/// Runs `work` without the interpreter.
pub(crate) fn detached<T: Ungil + Send>(py: Python<'_>, work: impl FnOnce() -> T + Ungil + Send) -> T {
    py.detach(work)
}

/// Runs `work` without the interpreter. Returns also the time that it took to attach again.
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
