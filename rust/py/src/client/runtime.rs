//! `_core.RuntimeClient`: calls for an event loop. The process's runtime runs most of them. The loop itself runs a
//! small call that is its only one, in steps: it watches the call's socket.

use super::{
    arguments::{self, AskArguments, CallArguments, ClientOptions, HowArguments, RawArguments},
    blocking::client,
    completion_queue::{CompletionQueue, Outcome},
    pending_call::{PendingCall, submit},
};
use penstock_client::{Client, ClientRequest, ClientResponse, Failure, Mode, ResponseStream};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::sync::Arc;
use tokio::{
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, timeout_at},
};

/// The responses of a stream that may wait for their reader.
const AHEAD: usize = 64;
/// The size limit of a request that is sent with the interpreter held.
const SMALL: usize = 64 << 10;

/// Client for programs with an event loop, and for hedged calls.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct RuntimeClient(Arc<Client>);

#[pymethods]
impl RuntimeClient {
    #[new]
    fn new(py: Python<'_>, url: &str, options: ClientOptions) -> PyResult<Self> {
        Ok(Self(Arc::new(client(py, Mode::Async, url, options)?)))
    }

    fn infer(
        &self,
        call: CallArguments<'_>,
        how: HowArguments,
        queue: &CompletionQueue,
        stepped: bool,
    ) -> PyResult<PendingCall> {
        let how = arguments::how(how);
        let call = arguments::call(call)?;
        let client = Arc::clone(&self.0);
        let stepped = stepped && self.takes_steps(sent(&call));
        submit(queue, stepped, async move { Outcome::Response(Box::new(client.infer(call, &how).await)) })
    }

    fn query(&self, ask: AskArguments, how: HowArguments, queue: &CompletionQueue) -> PyResult<PendingCall> {
        let (ask, how) = (arguments::ask(ask)?, arguments::how(how));
        let client = Arc::clone(&self.0);
        submit(queue, false, async move { Outcome::Json(client.admin(&ask, &how).await) })
    }

    fn raw(
        &self,
        request: RawArguments,
        how: HowArguments,
        queue: &CompletionQueue,
        stepped: bool,
    ) -> PyResult<PendingCall> {
        let (request, how) = (arguments::raw(request), arguments::how(how));
        let client = Arc::clone(&self.0);
        let stepped = stepped && self.takes_steps(request.body.len());
        submit(queue, stepped, async move { Outcome::Raw(client.raw(&request, &how).await) })
    }

    fn stream(&self, call: CallArguments<'_>, how: HowArguments, queue: &CompletionQueue) -> PyResult<PendingCall> {
        let how = arguments::how(how);
        let call = arguments::call(call)?;
        let client = Arc::clone(&self.0);
        submit(
            queue,
            false,
            async move { Outcome::ResponseStream(client.stream(call, &how).await.map(RuntimeStream::new)) },
        )
    }

    fn close(&self) {
        self.0.close();
    }

    #[getter]
    fn url(&self) -> String {
        self.0.target().to_string()
    }
}

impl RuntimeClient {
    /// Returns whether the event loop can run a call's steps: HTTP/2 has one task per connection.
    fn takes_steps(&self, bytes: usize) -> bool {
        bytes <= SMALL && !self.0.target().grpc
    }
}

/// The bytes of a call's tensors.
fn sent(call: &ClientRequest) -> usize {
    call.inputs.iter().map(|input| input.tensor.buffer().len()).sum()
}

/// Stream of responses, read ahead by the runtime.
#[pyclass(frozen, module = "penstock._core")]
#[derive(Debug)]
pub(crate) struct RuntimeStream {
    pieces: Arc<tokio::sync::Mutex<mpsc::Receiver<Result<ClientResponse, Failure>>>>,
    reader: AbortHandle,
}

impl RuntimeStream {
    fn new(mut pieces: ResponseStream) -> Self {
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

async fn next_in_time(pieces: &mut ResponseStream) -> Option<Result<ClientResponse, Failure>> {
    match pieces.timeout() {
        None => pieces.next().await,
        Some(timeout) => match timeout_at(Instant::now() + timeout, pieces.next()).await {
            Ok(piece) => piece,
            Err(_) => Some(Err(Failure::stream_timeout())),
        },
    }
}

#[pymethods]
impl RuntimeStream {
    /// The responses that are there, at least one; none at the end.
    fn next(&self, queue: &CompletionQueue) -> PyResult<PendingCall> {
        let Ok(mut pieces) = Arc::clone(&self.pieces).try_lock_owned() else {
            return Err(PyRuntimeError::new_err("another task is waiting for this stream's next piece"));
        };
        submit(queue, false, async move {
            let mut batch = Vec::new();
            pieces.recv_many(&mut batch, AHEAD).await;
            Outcome::Batch(batch)
        })
    }

    fn close(&self) {
        self.reader.abort();
    }
}

impl Drop for RuntimeStream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
