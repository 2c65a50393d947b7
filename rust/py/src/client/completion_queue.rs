//! `_core.CompletionQueue`: results of calls that another thread ran.
//!
//! The runtime's thread never attaches to the interpreter. It adds results here and makes a descriptor readable. The
//! event loop watches that descriptor, and takes all results in one iteration.

use super::{blocking::unpoisoned, response, runtime::RuntimeStream};
use penstock_client::{ClientResponse, Failure, RawResponse};
use pyo3::prelude::*;
use std::{
    io::{Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    sync::{Arc, Mutex, atomic::AtomicU64},
};

/// A call's value or exception.
pub(super) type Ended<'py> = (Option<Bound<'py, PyAny>>, Option<PyErr>);

/// The result of a call.
pub(super) enum Outcome {
    Response(Box<Result<ClientResponse, Failure>>),
    Json(Result<Vec<u8>, Failure>),
    Raw(Result<RawResponse, Failure>),
    ResponseStream(Result<RuntimeStream, Failure>),
    Batch(Vec<Result<ClientResponse, Failure>>),
    /// No result yet: the call needs another step.
    Again,
}

/// Results for one event loop.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct CompletionQueue(pub(super) Arc<Inbox>);

#[derive(Debug)]
pub(super) struct Inbox {
    outcomes: Mutex<Vec<(u64, Outcome)>>,
    bell: UnixStream,
    heard: UnixStream,
    pub(super) tickets: AtomicU64,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outcome")
    }
}

impl Inbox {
    /// Adds a result.
    pub(super) fn put(&self, ticket: u64, outcome: Outcome) {
        let mut outcomes = unpoisoned(self.outcomes.lock());
        outcomes.push((ticket, outcome));
        if outcomes.len() == 1 {
            // The socket is full, or its loop has ended: no loop to wake.
            let _ = (&self.bell).write(&[1]);
        }
    }
}

#[pymethods]
impl CompletionQueue {
    #[new]
    fn new() -> PyResult<Self> {
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        Ok(Self(Arc::new(Inbox { outcomes: Mutex::default(), bell, heard, tickets: AtomicU64::new(0) })))
    }

    fn fileno(&self) -> i32 {
        self.0.heard.as_raw_fd()
    }

    /// Takes the results: ticket, value and exception; both `None` for a call that needs another step.
    fn take<'py>(&self, py: Python<'py>) -> Vec<(u64, Option<Bound<'py, PyAny>>, Option<PyErr>)> {
        // One byte for all results that are taken below.
        let _ = (&self.0.heard).read(&mut [0; 16]);
        let outcomes = std::mem::take(&mut *unpoisoned(self.0.outcomes.lock()));
        let done = outcomes.into_iter().map(|(ticket, outcome)| {
            let (value, error) = ended(value(py, outcome).transpose());
            (ticket, value, error)
        });
        done.collect()
    }
}

/// Splits a result into value and exception.
pub(super) fn ended(value: Option<PyResult<Bound<'_, PyAny>>>) -> Ended<'_> {
    match value {
        None => (None, None),
        Some(Ok(value)) => (Some(value), None),
        Some(Err(error)) => (None, Some(error)),
    }
}

/// Converts a result to Python.
pub(super) fn value(py: Python<'_>, outcome: Outcome) -> PyResult<Option<Bound<'_, PyAny>>> {
    let raised = |failure: Failure| response::exception(py, &failure);
    let value = match outcome {
        Outcome::Again => return Ok(None),
        Outcome::Response(answered) => Ok(response::object(py, answered.map_err(raised)?)?.into_any()),
        Outcome::Json(answered) => Ok(response::bytes(py, &answered.map_err(raised)?).into_any()),
        Outcome::Raw(answered) => Ok(response::raw(py, answered.map_err(raised)?)?.into_any()),
        Outcome::ResponseStream(opened) => Ok(Bound::new(py, opened.map_err(raised)?)?.into_any()),
        Outcome::Batch(pieces) => {
            let pieces = pieces.into_iter().map(|piece| match piece {
                Ok(piece) => response::object(py, piece).map(Bound::into_any),
                // Raised when the reader gets to it.
                Err(failure) => Ok(raised(failure).into_value(py).into_bound(py).into_any()),
            });
            pieces.collect::<PyResult<Vec<_>>>()?.into_pyobject(py)
        }
    };
    value.map(Some)
}
