//! `_core.SharedClient`: calls on the process's runtime, for an event loop.
//!
//! The runtime's thread never attaches to the interpreter. It leaves outcomes in a [`Mailbox`] and makes
//! a descriptor readable that the event loop watches; the loop takes all that is there in one turn.

use super::{
    answer,
    arguments::{self, AskArguments, CallArguments, ClientOptions, HowArguments, RawArguments},
    sync::{client, unpoisoned},
};
use penstock_client::{Answer, Client, Failure, Mode, Pieces, RawAnswer, background};
use pyo3::{
    exceptions::{PyOSError, PyRuntimeError},
    prelude::*,
};
use std::{
    future::Future,
    io::{Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, timeout_at},
};

/// Pieces of a stream that wait for their reader.
const AHEAD: usize = 64;

/// What became of a call.
enum Outcome {
    Answer(Box<Result<Answer, Failure>>),
    Json(Result<Vec<u8>, Failure>),
    Raw(Result<RawAnswer, Failure>),
    Pieces(Result<SharedPieces, Failure>),
    Batch(Vec<Result<Answer, Failure>>),
}

/// Outcomes for one event loop.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Mailbox(Arc<Inbox>);

#[derive(Debug)]
struct Inbox {
    outcomes: Mutex<Vec<(u64, Outcome)>>,
    bell: UnixStream,
    heard: UnixStream,
    tickets: AtomicU64,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Outcome")
    }
}

impl Inbox {
    fn put(&self, ticket: u64, outcome: Outcome) {
        let mut outcomes = unpoisoned(self.outcomes.lock());
        outcomes.push((ticket, outcome));
        if outcomes.len() == 1 {
            // Full, or closed by a loop that has ended: there is nobody to wake.
            let _ = (&self.bell).write(&[1]);
        }
    }
}

#[pymethods]
impl Mailbox {
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

    /// Ticket, value, exception of each call that has ended.
    fn take<'py>(&self, py: Python<'py>) -> Vec<(u64, Option<Bound<'py, PyAny>>, Option<PyErr>)> {
        // One byte for all that are taken below.
        let _ = (&self.0.heard).read(&mut [0; 16]);
        let outcomes = std::mem::take(&mut *unpoisoned(self.0.outcomes.lock()));
        let done = outcomes.into_iter().map(|(ticket, outcome)| match value(py, outcome) {
            Ok(value) => (ticket, Some(value), None),
            Err(error) => (ticket, None, Some(error)),
        });
        done.collect()
    }
}

fn value(py: Python<'_>, outcome: Outcome) -> PyResult<Bound<'_, PyAny>> {
    let raised = |failure: Failure| answer::exception(py, &failure);
    match outcome {
        Outcome::Answer(answered) => Ok(answer::object(py, answered.map_err(raised)?)?.into_any()),
        Outcome::Json(answered) => Ok(answer::bytes(py, &answered.map_err(raised)?).into_any()),
        Outcome::Raw(answered) => Ok(answer::raw(py, answered.map_err(raised)?)?.into_any()),
        Outcome::Pieces(opened) => Ok(Bound::new(py, opened.map_err(raised)?)?.into_any()),
        Outcome::Batch(pieces) => {
            let pieces = pieces.into_iter().map(|piece| match piece {
                Ok(piece) => answer::object(py, piece).map(Bound::into_any),
                // Raised when its turn comes.
                Err(failure) => Ok(raised(failure).into_value(py).into_bound(py).into_any()),
            });
            Ok(pieces.collect::<PyResult<Vec<_>>>()?.into_pyobject(py)?)
        }
    }
}

/// A call under way.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct Running {
    #[pyo3(get)]
    ticket: u64,
    handle: AbortHandle,
}

#[pymethods]
impl Running {
    /// Gives it up: its connection is closed, or its stream reset.
    fn cancel(&self) {
        self.handle.abort();
    }
}

/// The client of a program with an event loop, and of calls with a second attempt.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct SharedClient(Arc<Client>);

#[pymethods]
impl SharedClient {
    #[new]
    fn new(py: Python<'_>, url: &str, options: ClientOptions) -> PyResult<Self> {
        Ok(Self(Arc::new(client(py, Mode::Shared, url, options)?)))
    }

    fn infer(&self, call: CallArguments<'_>, how: HowArguments, mailbox: &Mailbox) -> PyResult<Running> {
        let how = arguments::how(how);
        let call = arguments::call(call)?;
        let client = Arc::clone(&self.0);
        submit(mailbox, async move { Outcome::Answer(Box::new(client.infer(call, &how).await)) })
    }

    fn ask(&self, ask: AskArguments, how: HowArguments, mailbox: &Mailbox) -> PyResult<Running> {
        let (ask, how) = (arguments::ask(ask)?, arguments::how(how));
        let client = Arc::clone(&self.0);
        submit(mailbox, async move { Outcome::Json(client.ask(&ask, &how).await) })
    }

    fn raw(&self, request: RawArguments, how: HowArguments, mailbox: &Mailbox) -> PyResult<Running> {
        let (request, how) = (arguments::raw(request), arguments::how(how));
        let client = Arc::clone(&self.0);
        submit(mailbox, async move { Outcome::Raw(client.raw(&request, &how).await) })
    }

    fn stream(&self, call: CallArguments<'_>, how: HowArguments, mailbox: &Mailbox) -> PyResult<Running> {
        let how = arguments::how(how);
        let call = arguments::call(call)?;
        let client = Arc::clone(&self.0);
        submit(mailbox, async move { Outcome::Pieces(client.stream(call, &how).await.map(SharedPieces::new)) })
    }

    fn close(&self) {
        self.0.close();
    }

    #[getter]
    fn url(&self) -> String {
        self.0.target().to_string()
    }
}

/// Runs `work`, whose outcome goes to the mailbox.
fn submit(mailbox: &Mailbox, work: impl Future<Output = Outcome> + Send + 'static) -> PyResult<Running> {
    let inbox = Arc::clone(&mailbox.0);
    let ticket = inbox.tickets.fetch_add(1, Ordering::Relaxed);
    let put = async move {
        let outcome = work.await;
        inbox.put(ticket, outcome);
    };
    let handle = background::spawn(put).map_err(|error| PyOSError::new_err(error.to_string()))?;
    Ok(Running { ticket, handle })
}

/// A stream of answers, read ahead by the runtime.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct SharedPieces {
    pieces: Arc<tokio::sync::Mutex<mpsc::Receiver<Result<Answer, Failure>>>>,
    reader: AbortHandle,
}

impl SharedPieces {
    fn new(mut pieces: Pieces) -> Self {
        let (sender, receiver) = mpsc::channel(AHEAD);
        let read = async move {
            while let Some(piece) = next_in_time(&mut pieces).await {
                let ended = piece.is_err();
                if sender.send(piece).await.is_err() || ended {
                    break;
                }
            }
        };
        let reader = tokio::spawn(read).abort_handle();
        Self { pieces: Arc::new(tokio::sync::Mutex::new(receiver)), reader }
    }
}

async fn next_in_time(pieces: &mut Pieces) -> Option<Result<Answer, Failure>> {
    match pieces.timeout() {
        None => pieces.next().await,
        Some(timeout) => match timeout_at(Instant::now() + timeout, pieces.next()).await {
            Ok(piece) => piece,
            Err(_) => Some(Err(Failure::late())),
        },
    }
}

#[pymethods]
impl SharedPieces {
    /// The pieces that are there, at least one; none at the end.
    fn next(&self, mailbox: &Mailbox) -> PyResult<Running> {
        let Ok(mut pieces) = Arc::clone(&self.pieces).try_lock_owned() else {
            return Err(PyRuntimeError::new_err("another task is waiting for this stream's next piece"));
        };
        submit(mailbox, async move {
            let mut batch = Vec::new();
            pieces.recv_many(&mut batch, AHEAD).await;
            Outcome::Batch(batch)
        })
    }

    fn close(&self) {
        self.reader.abort();
    }
}

impl Drop for SharedPieces {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
