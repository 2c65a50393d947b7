//! `_core.BlockingClient`: calls on the calling thread.

use super::{
    arguments::{self, AskArguments, CallArguments, ClientOptions, HowArguments, RawArguments},
    response,
};
use crate::{attach::detached, errors::invalid};
use penstock_client::{
    Client, ClientResponse, Failure, Mode, Options, ResponseStream, Target,
    blocking::{Step, drive},
};
use pyo3::{
    exceptions::PyRuntimeError,
    prelude::*,
    types::{PyBytes, PyTuple},
};
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Client for programs without an event loop.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct BlockingClient(Client);

/// Creates a client of `url`.
pub(super) fn client(py: Python<'_>, mode: Mode, url: &str, options: ClientOptions) -> PyResult<Client> {
    let options = Options::try_from(options)?;
    let target = Target::parse(url).map_err(|error| invalid(py, error.message()))?;
    Client::new(mode, target, options).map_err(|error| invalid(py, error.message()))
}

#[pymethods]
impl BlockingClient {
    #[new]
    fn new(py: Python<'_>, url: &str, options: ClientOptions) -> PyResult<Self> {
        client(py, Mode::Blocking, url, options).map(Self)
    }

    fn infer<'py>(
        &self,
        py: Python<'py>,
        call: CallArguments<'py>,
        how: HowArguments,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let how = arguments::how(how);
        let call = arguments::call(call)?;
        let answered = run(py, pin!(self.0.infer(call, &how)), how.deadline)?;
        response::object(py, answered)
    }

    fn query<'py>(&self, py: Python<'py>, ask: AskArguments, how: HowArguments) -> PyResult<Bound<'py, PyBytes>> {
        let (ask, how) = (arguments::ask(ask)?, arguments::how(how));
        let answered = run(py, pin!(self.0.admin(&ask, &how)), how.deadline)?;
        Ok(response::bytes(py, &answered))
    }

    fn raw<'py>(&self, py: Python<'py>, request: RawArguments, how: HowArguments) -> PyResult<Bound<'py, PyTuple>> {
        let (request, how) = (arguments::raw(request), arguments::how(how));
        let answered = run(py, pin!(self.0.raw(&request, &how)), how.deadline)?;
        response::raw(py, answered)
    }

    fn stream(&self, py: Python<'_>, call: CallArguments<'_>, how: HowArguments) -> PyResult<BlockingStream> {
        let how = arguments::how(how);
        let call = arguments::call(call)?;
        let pieces = run(py, pin!(self.0.stream(call, &how)), how.deadline)?;
        Ok(BlockingStream(Mutex::new(Some(pieces))))
    }

    fn close(&self) {
        self.0.close();
    }

    #[getter]
    fn url(&self) -> String {
        self.0.target().to_string()
    }
}

/// Stream of responses, read on the calling thread.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct BlockingStream(Mutex<Option<ResponseStream>>);

#[pymethods]
impl BlockingStream {
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let Ok(mut guard) = self.0.try_lock() else {
            return Err(PyRuntimeError::new_err("another thread is waiting for this stream's next piece"));
        };
        let Some(pieces) = guard.as_mut() else { return Ok(None) };
        let deadline = pieces.timeout().and_then(|timeout| Instant::now().checked_add(timeout));
        let next = run(py, pin!(async { pieces.next().await.transpose() }), deadline);
        match next {
            Ok(Some(piece)) => response::object(py, piece).map(Some),
            ended => {
                // Drops the connection too: checking whether it can be reused is not worth it.
                *guard = None;
                ended.map(|_: Option<ClientResponse>| None)
            }
        }
    }

    fn close(&self) {
        // A thread that waits for a response holds the lock; its stream ends with its wait.
        if let Ok(mut pieces) = self.0.try_lock() {
            *pieces = None;
        }
    }
}

/// Drives a call without the interpreter, except for signals.
fn run<T: Send>(
    py: Python<'_>,
    mut future: Pin<&mut (impl Future<Output = Result<T, Failure>> + Send)>,
    deadline: Option<Instant>,
) -> PyResult<T> {
    loop {
        match detached(py, || drive(future.as_mut(), deadline)) {
            Step::Ready(done) => return done.map_err(|failure| response::exception(py, &failure)),
            Step::Interrupted => py.check_signals()?,
        }
    }
}

/// A poisoned lock has consistent data: a list of finished calls.
pub(super) fn unpoisoned<T>(lock: Result<T, PoisonError<T>>) -> T {
    lock.unwrap_or_else(PoisonError::into_inner)
}
