//! `_core.PeerStream`: a call of one model by another with a streamed response.

use super::{
    audience::Audience,
    notifier::Notifier,
    request::arrays_of,
    wait::{Answer, InFlight, Patience, answer, block},
};
use crate::{attach::detached, errors::raised};
use penstock_core::{
    Error, InferRequest, InferResponse, Model, ModelSpec, ResponseStream, Result, metrics::StreamProgress,
};
use pyo3::{exceptions::PyRuntimeError, prelude::*, types::PyDict};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

/// The source of chunks.
enum Source {
    /// The request, until the first poll sends it.
    Unsent(Box<InferRequest>),
    /// A streaming model.
    Many(ResponseStream, InFlight),
    /// A model with one response.
    Once(Answer),
    /// An error that follows the chunks before it.
    Failed(Error),
    Ended,
}

/// A call. Dropped, it is cancelled.
pub(super) struct Stream {
    source: Source,
    patience: Patience,
    /// Wake-ups are for many chunks or the end; see [`ResponseStream::set_deferred`].
    deferred: bool,
    progress: StreamProgress,
}

impl Stream {
    /// Returns all chunks that are there; none at the end.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<InferResponse>>> {
        let mut found = Vec::new();
        loop {
            match self.next(cx) {
                Poll::Ready(Some(Ok(piece))) => found.push(piece),
                Poll::Ready(Some(Err(error))) if found.is_empty() => return Poll::Ready(Err(error)),
                Poll::Ready(Some(Err(error))) => {
                    self.source = Source::Failed(error);
                    return Poll::Ready(Ok(found));
                }
                Poll::Ready(None) => return Poll::Ready(Ok(found)),
                Poll::Pending if found.is_empty() => return Poll::Pending,
                Poll::Pending => return Poll::Ready(Ok(found)),
            }
        }
    }

    /// Returns the next chunk; none at the end.
    pub(super) fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<InferResponse>>> {
        let (next, last) = match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Ended => return Poll::Ready(None),
            Source::Failed(error) => return Poll::Ready(Some(Err(error))),
            Source::Unsent(request) => match self.send(*request) {
                Ok(source) => {
                    self.source = source;
                    return self.next(cx);
                }
                Err(error) => (Some(Err(error)), true),
            },
            Source::Once(mut answer) => match self.look(|| answer.as_mut().poll(cx).map(Some)) {
                Poll::Ready(answer) => (answer, true),
                Poll::Pending => {
                    self.source = Source::Once(answer);
                    return Poll::Pending;
                }
            },
            Source::Many(mut pieces, in_flight) => match self.look_at(&mut pieces, cx) {
                Poll::Ready((next, false)) => {
                    self.source = Source::Many(pieces, in_flight);
                    (next, false)
                }
                Poll::Ready(ended) => ended,
                Poll::Pending => {
                    self.source = Source::Many(pieces, in_flight);
                    return Poll::Pending;
                }
            },
        };
        self.count(next.as_ref(), last);
        Poll::Ready(next)
    }

    /// Counts a response, and the end.
    fn count(&mut self, next: Option<&Result<InferResponse>>, last: bool) {
        let error = next.and_then(|next| next.as_ref().err());
        if let Some(stream) = &self.patience.model.metrics().stream {
            if let Some(Ok(response)) = next {
                self.progress.responded(stream, self.patience.began, response.timings.compute);
            }
            if last {
                self.progress.end(stream, error.is_some());
            }
        }
        if last {
            self.patience.ended(error);
        }
    }

    fn send(&self, request: InferRequest) -> Result<Source> {
        let model = &self.patience.model;
        if !model.spec().streams {
            return Ok(Source::Once(Box::pin(answer(Arc::clone(model), request))));
        }
        model.admit()?;
        let in_flight = InFlight::enter(model);
        let mut pieces = model.stream(request, None)?;
        pieces.set_deferred(self.deferred);
        Ok(Source::Many(pieces, in_flight))
    }

    /// Sends the request now, if it has not been sent. Its error is that of the first chunk.
    pub(super) fn start(&mut self) {
        self.source = match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Unsent(request) => self.send(*request).unwrap_or_else(|error| {
                self.patience.ended(Some(&error));
                Source::Failed(error)
            }),
            other => other,
        };
    }

    /// Defers wake-ups, or no longer.
    pub(super) fn set_deferred(&mut self, deferred: bool) {
        self.deferred = deferred;
        if let Source::Many(pieces, _) = &mut self.source {
            pieces.set_deferred(deferred);
        }
    }

    /// From now on, a task of the client's I/O thread reads the stream.
    pub(super) fn move_to_client(&mut self) {
        if let (Source::Many(pieces, _), Some(completions)) = (&mut self.source, self.patience.completions()) {
            pieces.set_completions(completions.clone());
        }
    }

    /// Ends the call: a model that still computes is cancelled.
    pub(super) fn close(&mut self) {
        self.source = Source::Ended;
        self.end_progress();
    }

    /// Counts the responses of a stream that was left before its end.
    fn end_progress(&mut self) {
        if let Some(stream) = &self.patience.model.metrics().stream {
            self.progress.end(stream, true);
        }
    }

    /// The limits of the wait.
    pub(super) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Returns the next chunk, and whether it is the last one.
    fn look_at(
        &mut self,
        pieces: &mut ResponseStream,
        cx: &mut Context<'_>,
    ) -> Poll<(Option<Result<InferResponse>>, bool)> {
        self.look(|| pieces.poll_next(cx).map(|next| next.map(|next| next.map(|piece| (piece.response, piece.last)))))
            .map(|next| match next {
                Some(Ok((piece, last))) => (Some(Ok(piece)), last),
                Some(Err(error)) => (Some(Err(error)), true),
                None => (None, true),
            })
    }

    /// Returns the result of `poll`, or the error of a call that waits no longer.
    fn look<T>(&mut self, poll: impl FnOnce() -> Poll<Option<Result<T>>>) -> Poll<Option<Result<T>>> {
        self.patience.expire();
        match poll() {
            Poll::Ready(next) => Poll::Ready(next),
            Poll::Pending => self.patience.over().map_or(Poll::Pending, |error| Poll::Ready(Some(Err(error)))),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.end_progress();
    }
}

/// A call with a streamed response.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct PeerStream {
    spec: Arc<ModelSpec>,
    stream: Mutex<Option<Stream>>,
}

impl PeerStream {
    pub(super) fn new(model: Arc<Model>, request: InferRequest, audience: Audience) -> Self {
        let spec = Arc::clone(model.spec());
        let patience = Patience::new(model, request.schedule.priority, audience);
        let source = Source::Unsent(Box::new(request));
        Self {
            spec,
            stream: Mutex::new(Some(Stream { source, patience, deferred: false, progress: StreamProgress::default() })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the model's declaration.
    pub(super) fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// Takes the stream, which another reader reads from now on.
    pub(super) fn take(&self) -> PyResult<Stream> {
        self.lock().take().ok_or_else(|| PyRuntimeError::new_err("the stream was closed, or is read by another thread"))
    }

    fn arrays<'py>(&self, py: Python<'py>, pieces: Result<Vec<InferResponse>>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let pieces = pieces.map_err(|error| raised(py, &error))?;
        pieces.into_iter().map(|piece| arrays_of(py, &self.spec, piece, false)).collect()
    }
}

#[pymethods]
impl PeerStream {
    /// Waits for the outputs by name of all chunks that are there, without the interpreter; empty at the end.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let mut stream = self.take()?;
        let (stream, pieces) = detached(py, move || {
            let pieces = block(&mut stream, Stream::poll, |stream| stream.patience.left());
            (stream, pieces)
        });
        *self.lock() = Some(stream);
        self.arrays(py, pieces)
    }

    /// Returns the chunks if there are any. Otherwise the notifier reports `ticket` when polling again can succeed.
    fn poll<'py>(
        &self,
        py: Python<'py>,
        notifier: &Notifier,
        ticket: u64,
    ) -> PyResult<Option<Vec<Bound<'py, PyDict>>>> {
        let mut stream = self.take()?;
        let waker = notifier.waker(ticket);
        let (stream, polled) = detached(py, move || {
            let polled = stream.poll(&mut Context::from_waker(&waker));
            (stream, polled)
        });
        *self.lock() = Some(stream);
        match polled {
            Poll::Ready(pieces) => self.arrays(py, pieces).map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Seconds after which to poll again even without a notification.
    #[getter]
    fn poll_after(&self) -> Option<f64> {
        self.lock().as_ref().and_then(|stream| stream.patience.left()).map(|left| left.as_secs_f64())
    }

    /// Cancels the call, unless it has ended.
    fn close(&self, py: Python<'_>) {
        let stream = self.lock().take();
        detached(py, move || drop(stream));
    }
}
