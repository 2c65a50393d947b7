//! `_core.TextStream`: the text of a model's stream. Python reads it, or hands it to the server, which sends the rest
//! without the interpreter.

use super::{
    notifier::Notifier,
    stream::Stream,
    text_source::{Ending, TextBody},
    wait::Patience,
};
use crate::{attach::detached, errors::raised};
use penstock_core::{Datatype, Error, InferResponse, ModelSpec, Result, SplicedBody, bytes_tensor};
use penstock_wire::rest::text_stream::{TextDecoder, TextEvent};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

/// The form of a stream's text.
pub(super) struct TextOptions<'a> {
    /// The output whose elements are the text.
    pub(super) output: &'a str,
    /// The output whose last value is the finish reason.
    pub(super) finish_reason: Option<&'a str>,
    /// The text ends before the first of these.
    pub(super) stops: Vec<String>,
    /// Retains the text.
    pub(super) retain: bool,
    /// Wakes the reader for many chunks or the end, not for each chunk.
    pub(super) deferred: bool,
}

/// The text of a stream, one response after another.
pub(super) struct TextReader {
    stream: Stream,
    model: Arc<str>,
    decoder: TextDecoder,
    /// Index of the text output.
    output: usize,
    /// Its name.
    name: String,
    /// Index of the finish reason.
    finish_index: Option<usize>,
    finish_reason: Option<String>,
    /// The text so far, if it is retained.
    text: Option<String>,
    /// An error that follows the texts before it.
    failed: Option<Error>,
    ended: bool,
}

impl TextReader {
    fn new(mut stream: Stream, spec: &ModelSpec, options: TextOptions<'_>) -> Result<Self> {
        let TextOptions { output: name, finish_reason, stops, retain, deferred } = options;
        let is_text = |name: &str| {
            spec.outputs.iter().position(|output| &*output.name == name && output.datatype == Datatype::Bytes)
        };
        let Some(output) = is_text(name) else { return Err(missing(&spec.name, name)) };
        stream.set_deferred(deferred);
        Ok(Self {
            stream,
            model: Arc::clone(&spec.name),
            decoder: TextDecoder::new(stops),
            output,
            name: name.to_owned(),
            finish_index: finish_reason.and_then(is_text),
            finish_reason: None,
            text: retain.then(String::new),
            failed: None,
            ended: false,
        })
    }

    /// Puts the text of the next response into `out`; false at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>, out: &mut String) -> Poll<Result<bool>> {
        out.clear();
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        if self.ended {
            return Poll::Ready(Ok(false));
        }
        let read = match ready!(self.stream.next(cx)) {
            Some(response) => response.and_then(|response| self.read(&response, out)),
            None => {
                self.decoder.finish(out);
                self.ended = true;
                Ok(())
            }
        };
        if self.decoder.has_stopped() {
            self.finish_reason = Some("stop".to_owned());
        }
        if self.decoder.has_stopped() || read.is_err() {
            self.ended = true;
            self.stream.close();
        }
        if let Some(text) = &mut self.text {
            text.push_str(out);
        }
        Poll::Ready(read.map(|()| !self.ended || !out.is_empty()))
    }

    fn read(&mut self, response: &InferResponse, out: &mut String) -> Result<()> {
        let output = |index: usize| {
            let tensor = response.outputs.get(index).filter(|tensor| !tensor.is_absent())?;
            (tensor.datatype() == Datatype::Bytes).then(|| bytes_tensor::elements(tensor.as_slice()))
        };
        if let Some(elements) = self.finish_index.and_then(output) {
            let reason: Vec<u8> = elements.flatten().copied().collect();
            if !reason.is_empty() {
                self.finish_reason = Some(String::from_utf8_lossy(&reason).into_owned());
            }
        }
        let elements = output(self.output).ok_or_else(|| missing(&self.model, &self.name))?;
        elements.for_each(|element| self.decoder.feed(element, out));
        Ok(())
    }

    /// The texts that are there, up to `most`; none at the end.
    fn poll_texts(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Result<Vec<String>>> {
        let (mut texts, mut text) = (Vec::new(), String::new());
        while texts.len() < most {
            match self.poll_next(cx, &mut text) {
                Poll::Ready(Ok(true)) if text.is_empty() => {}
                Poll::Ready(Ok(true)) => texts.push(std::mem::take(&mut text)),
                Poll::Ready(Err(error)) if texts.is_empty() => return Poll::Ready(Err(error)),
                Poll::Ready(Err(error)) => {
                    self.failed = Some(error);
                    break;
                }
                Poll::Ready(Ok(false)) => break,
                Poll::Pending if texts.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(texts))
    }

    /// Defers wake-ups, or no longer.
    pub(super) fn set_deferred(&mut self, deferred: bool) {
        self.stream.set_deferred(deferred);
    }

    /// The limits of the wait for the model.
    pub(super) fn patience(&self) -> &Patience {
        self.stream.patience()
    }
}

fn missing(model: &str, output: &str) -> Error {
    Error::handler(format!("model '{model}' gave no '{output}'"))
}

/// The text of a call's stream. Dropped, it is cancelled.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct TextStream {
    /// `None` while the server reads, and once it is closed.
    reader: Mutex<Option<TextReader>>,
    /// The part that was handed to the server, which may not have begun to read it.
    handed: Mutex<Option<SplicedBody>>,
    /// Returns the reader of the server.
    ending: Arc<Ending>,
}

impl TextStream {
    pub(super) fn new(stream: Stream, spec: &ModelSpec, options: TextOptions<'_>) -> Result<Self> {
        let reader = Mutex::new(Some(TextReader::new(stream, spec, options)?));
        Ok(Self { reader, handed: Mutex::default(), ending: Arc::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<TextReader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_handed(&self) -> MutexGuard<'_, Option<SplicedBody>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> PyResult<TextReader> {
        self.lock().take().ok_or_else(|| PyRuntimeError::new_err("the stream was closed, or the server reads it"))
    }
}

#[pymethods]
impl TextStream {
    /// Returns the texts if there are any, one for each response, up to `most`; an empty list at the end. Otherwise the
    /// notifier reports `ticket` when polling again can succeed.
    fn poll(&self, py: Python<'_>, notifier: &Notifier, ticket: u64, most: usize) -> PyResult<Option<Vec<String>>> {
        let mut reader = self.take()?;
        let waker = notifier.waker(ticket);
        let (reader, polled) = detached(py, move || {
            let polled = reader.poll_texts(&mut Context::from_waker(&waker), most);
            (reader, polled)
        });
        *self.lock() = Some(reader);
        match polled {
            Poll::Ready(texts) => texts.map(Some).map_err(|error| raised(py, &error)),
            Poll::Pending => Ok(None),
        }
    }

    /// Seconds after which to poll again even without a notification.
    #[getter]
    fn poll_after(&self) -> Option<f64> {
        self.lock().as_ref().and_then(|reader| reader.patience().left()).map(|left| left.as_secs_f64())
    }

    /// Hands the rest of the stream to the server. A handler of raw requests yields the result: the server sends
    /// `before`, the text as a JSON string and `after` for each response.
    fn body(&self, before: &str, after: &str) -> PyResult<TextBody> {
        let mut reader = self.take()?;
        reader.stream.move_to_client();
        let body = TextBody::new(reader, TextEvent::new(before, after), &self.ending);
        *self.lock_handed() = Some(body.splice());
        Ok(body)
    }

    /// Returns true once the server has sent the rest, or raises the error that ended it. Otherwise the notifier
    /// reports `ticket` when polling again can succeed.
    fn poll_end(&self, py: Python<'_>, notifier: &Notifier, ticket: u64) -> PyResult<Option<bool>> {
        let Some((reader, result)) = self.ending.poll(|| notifier.waker(ticket)) else { return Ok(None) };
        *self.lock() = reader;
        result.map(|()| Some(true)).map_err(|error| raised(py, &error))
    }

    /// The text so far; None if it is not retained, and while the server reads.
    #[getter]
    fn text(&self) -> Option<String> {
        self.lock().as_ref().and_then(|reader| reader.text.clone())
    }

    /// The finish reason so far; None without one, and while the server reads.
    #[getter]
    fn finish_reason(&self) -> Option<String> {
        self.lock().as_ref().and_then(|reader| reader.finish_reason.clone())
    }

    /// Cancels the call, unless it has ended.
    fn close(&self, py: Python<'_>) {
        self.ending.abandon();
        let (reader, handed) = (self.lock().take(), self.lock_handed().take());
        detached(py, move || drop((reader, handed.and_then(|body| body.take()))));
    }
}
