//! Result of loading an instance's handler, and the wait for it.

use crate::attach::detached;
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::{sync::mpsc, time::Duration};

/// How often a waiting main thread looks for signals.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(100);

/// What an instance says once its handler is built, or could not be.
pub(crate) type Built = std::result::Result<(), Unbuilt>;

/// Why an instance could not be built.
#[derive(Debug)]
pub(crate) enum Unbuilt {
    /// What was raised here.
    Here(PyErr),
    /// What was raised in its process.
    InProcess(penstock_process::LoadFailure),
}

impl From<PyErr> for Unbuilt {
    fn from(error: PyErr) -> Self {
        Self::Here(error)
    }
}

impl std::fmt::Display for Unbuilt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here(error) => error.fmt(f),
            Self::InProcess(failure) => f.write_str(&failure.summary),
        }
    }
}

impl Unbuilt {
    /// The exception that caused it.
    pub(crate) fn into_cause(self) -> Option<PyErr> {
        match self {
            Self::Here(error) => Some(error),
            Self::InProcess(failure) if failure.traceback.is_empty() => None,
            Self::InProcess(failure) => {
                Some(PyRuntimeError::new_err(format!("in its process:\n{}", failure.traceback)))
            }
        }
    }
}

/// Waits until every instance is built.
///
/// # Errors
/// What the first one that failed raised.
pub(crate) fn wait_built(
    py: Python<'_>,
    built: mpsc::Receiver<Built>,
    count: usize,
    stopping: impl Fn() -> bool,
) -> Built {
    // The receiver is not shared; it only has to be handed to the closure that waits.
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
