//! Result of loading an instance's handler, and the wait for it.

use crate::attach::detached;
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::{sync::mpsc, time::Duration};

/// The interval at which a waiting main thread checks for signals.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// The result of building a handler.
pub(crate) type LoadResult = std::result::Result<(), LoadFailed>;

/// The reason that an instance could not be built.
#[derive(Debug)]
pub(crate) enum LoadFailed {
    /// An exception of this process.
    Raised(PyErr),
    /// The failure of the instance's process.
    ProcessFailed(penstock_process::LoadFailure),
}

impl From<PyErr> for LoadFailed {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl std::fmt::Display for LoadFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Raised(error) => error.fmt(f),
            Self::ProcessFailed(failure) => f.write_str(&failure.summary),
        }
    }
}

impl LoadFailed {
    /// The exception that caused it.
    pub(crate) fn into_cause(self) -> Option<PyErr> {
        match self {
            Self::Raised(error) => Some(error),
            Self::ProcessFailed(failure) if failure.traceback.is_empty() => None,
            Self::ProcessFailed(failure) => {
                Some(PyRuntimeError::new_err(format!("in its process:\n{}", failure.traceback)))
            }
        }
    }
}

/// Waits until every instance is built.
///
/// # Errors
/// The failure of the first instance that failed.
pub(crate) fn wait_built(
    py: Python<'_>,
    built: mpsc::Receiver<LoadResult>,
    count: usize,
    stopping: impl Fn() -> bool,
) -> LoadResult {
    // The receiver is not shared. The mutex only lets the waiting closure use it.
    let built = std::sync::Mutex::new(built);
    let mut waiting = count;
    while waiting > 0 {
        let received = detached(py, || {
            built.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv_timeout(SIGNALS_EVERY)
        });
        match received {
            Ok(result) => result?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                if stopping() {
                    return Err(PyRuntimeError::new_err("the server stops").into());
                }
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("an instance ended before it was built").into());
            }
        }
        waiting -= 1;
    }
    Ok(())
}
