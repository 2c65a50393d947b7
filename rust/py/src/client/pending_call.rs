//! `_core.PendingCall`: a call that the runtime runs, or the steps of its event loop.

use super::{
    blocking::unpoisoned,
    completion_queue::{CompletionQueue, Ended, Inbox, Outcome, ended, value},
};
use penstock_client::{InlineCall, Progress, runtime};
use pyo3::{exceptions::PyOSError, prelude::*};
use std::{
    future::Future,
    io,
    os::fd::RawFd,
    sync::{Arc, Mutex, atomic::Ordering},
};
use tokio::task::AbortHandle;

/// A pending call.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct PendingCall {
    #[pyo3(get)]
    ticket: u64,
    inbox: Arc<Inbox>,
    way: Mutex<Way>,
}

/// The executor of a call.
#[derive(Debug)]
enum Way {
    /// The event loop, in steps: the next one once the descriptor is readable.
    Steps(InlineCall<Outcome>, RawFd),
    /// The runtime.
    Runtime(AbortHandle),
    /// None: the call has ended.
    Over,
}

#[pymethods]
impl PendingCall {
    /// The descriptor to wait for before the next step; `None` if there is no step.
    #[getter]
    fn wait_fd(&self) -> Option<RawFd> {
        match *unpoisoned(self.way.lock()) {
            Way::Steps(_, descriptor) => Some(descriptor),
            Way::Runtime(_) | Way::Over => None,
        }
    }

    /// Runs the next step. Returns value and exception if that ends the call.
    fn step<'py>(&self, py: Python<'py>) -> Ended<'py> {
        let mut way = unpoisoned(self.way.lock());
        let (next, outcome) = match std::mem::replace(&mut *way, Way::Over) {
            Way::Steps(stepped, _) => match advance(&self.inbox, self.ticket, stepped) {
                Ok(advanced) => advanced,
                Err(error) => return (None, Some(PyOSError::new_err(error.to_string()))),
            },
            other => (other, None),
        };
        *way = next;
        ended(outcome.and_then(|outcome| value(py, outcome).transpose()))
    }

    /// Cancels the call: closes its connection, or resets its stream.
    fn cancel(&self) {
        if let Way::Runtime(handle) = std::mem::replace(&mut *unpoisoned(self.way.lock()), Way::Over) {
            handle.abort();
        }
    }
}

/// Starts `work`. The queue gets its result, except for the result of a step.
pub(super) fn submit(
    queue: &CompletionQueue,
    stepped: bool,
    work: impl Future<Output = Outcome> + Send + 'static,
) -> PyResult<PendingCall> {
    let inbox = Arc::clone(&queue.0);
    let ticket = inbox.tickets.fetch_add(1, Ordering::Relaxed);
    let begun = if stepped {
        let again = Arc::clone(&inbox);
        advance(&inbox, ticket, InlineCall::new(Box::pin(work), move || again.put(ticket, Outcome::Again)))
    } else {
        run(&inbox, ticket, work).map(|way| (way, None))
    };
    let (way, outcome) = begun.map_err(|error| PyOSError::new_err(error.to_string()))?;
    if let Some(outcome) = outcome {
        inbox.put(ticket, outcome);
    }
    Ok(PendingCall { ticket, inbox, way: Mutex::new(way) })
}

/// Runs one step.
fn advance(inbox: &Arc<Inbox>, ticket: u64, mut stepped: InlineCall<Outcome>) -> io::Result<(Way, Option<Outcome>)> {
    Ok(match stepped.step()? {
        Progress::Done(outcome) => (Way::Over, Some(outcome)),
        Progress::Readable(descriptor) => (Way::Steps(stepped, descriptor), None),
        Progress::HandOff(work) => (run(inbox, ticket, work)?, None),
    })
}

/// Runs `work` on the runtime.
fn run(inbox: &Arc<Inbox>, ticket: u64, work: impl Future<Output = Outcome> + Send + 'static) -> io::Result<Way> {
    let inbox = Arc::clone(inbox);
    let put = async move {
        let outcome = work.await;
        inbox.put(ticket, outcome);
    };
    runtime::spawn(put).map(Way::Runtime)
}
