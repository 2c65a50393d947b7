//! `_core.Generation`: answers of a language model. Python reads their first events, then hands them to the server,
//! which sends the rest without the interpreter.

use super::{
    generation_reader::{GenerationReader, Outputs},
    generation_source::{Ending, GenerationBody},
    notifier::Notifier,
    stream::PeerStream,
};
use crate::{attach::detached, errors::raised};
use penstock_core::SplicedBody;
use penstock_wire::rest::generation::{Api, ChunkFormat, EventFormat, StreamError, Usage};
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    types::PyBytes,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

/// The outputs of a model, and how they are read.
#[pyclass(frozen, module = "penstock._core", name = "ChunkFormat")]
pub(crate) struct PyChunkFormat {
    output: String,
    finish_reason: Option<String>,
    chunks: ChunkFormat,
}

#[pymethods]
impl PyChunkFormat {
    #[new]
    #[pyo3(signature = (output, *, documents, finish_reason, stops, retain))]
    fn new(output: String, documents: bool, finish_reason: Option<String>, stops: Vec<String>, retain: bool) -> Self {
        Self { output, finish_reason, chunks: ChunkFormat { documents, stops, retain, call_id: String::new() } }
    }
}

/// The form of a response.
#[pyclass(frozen, module = "penstock._core", name = "EventFormat")]
pub(crate) struct PyEventFormat {
    events: EventFormat,
    is_document: bool,
}

#[pymethods]
impl PyEventFormat {
    #[new]
    #[pyo3(signature = (api, head, id, *, document=false, include_usage=false, continuous_usage=false, echo=Vec::new(), prompt_tokens=0))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a class in Python")]
    fn new(
        api: &str,
        head: String,
        id: String,
        document: bool,
        include_usage: bool,
        continuous_usage: bool,
        echo: Vec<String>,
        prompt_tokens: u64,
    ) -> PyResult<Self> {
        let api = match api {
            "chat" => Api::Chat,
            "completions" => Api::Completions,
            "responses" => Api::Responses,
            "messages" => Api::Messages,
            other => return Err(PyValueError::new_err(format!("unknown API {other:?}"))),
        };
        let events = EventFormat { api, head, id, include_usage, continuous_usage, echo, prompt_tokens };
        Ok(Self { events, is_document: document })
    }
}

/// An answer, as far as it was retained.
#[pyclass(frozen, get_all, module = "penstock._core")]
pub(crate) struct GeneratedChoice {
    content: String,
    reasoning: String,
    tool_arguments: Vec<String>,
    finish_reason: String,
    /// Tokens of the prompt, the answer, the cache and of reasoning, as far as the model gave them.
    usage: (Option<u64>, Option<u64>, Option<u64>, Option<u64>),
}

/// Answers to one request. Dropped, the calls are cancelled.
#[pyclass(frozen, module = "penstock._core")]
pub(crate) struct Generation {
    /// `None` while the server reads, and once it is closed.
    reader: Mutex<Option<GenerationReader>>,
    /// The part that was handed to the server, which may not have begun to read it.
    handed: Mutex<Option<SplicedBody>>,
    /// Returns the reader of the server.
    ending: Arc<Ending>,
}

impl Generation {
    fn lock(&self) -> MutexGuard<'_, Option<GenerationReader>> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_handed(&self) -> MutexGuard<'_, Option<SplicedBody>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> PyResult<GenerationReader> {
        self.lock().take().ok_or_else(|| PyRuntimeError::new_err("the generation was closed, or the server reads it"))
    }

    /// Returns the bytes that `write` appends.
    fn written<'py>(
        &self,
        py: Python<'py>,
        write: impl FnOnce(&mut GenerationReader, &mut Vec<u8>),
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut reader = self.take()?;
        let mut out = Vec::new();
        write(&mut reader, &mut out);
        *self.lock() = Some(reader);
        Ok(PyBytes::new(py, &out))
    }
}

#[pymethods]
impl Generation {
    /// Sends calls, one for each answer.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "a list of Python is extracted")]
    fn new(
        py: Python<'_>,
        streams: Vec<PyRef<'_, PeerStream>>,
        chunks: &PyChunkFormat,
        events: &PyEventFormat,
    ) -> PyResult<Self> {
        let Some(first) = streams.first() else { return Err(PyValueError::new_err("a generation needs a call")) };
        let outputs = Outputs::new(first.spec(), &chunks.output, chunks.finish_reason.as_deref());
        let outputs = outputs.map_err(|error| raised(py, &error))?;
        let readers = streams.iter().map(|stream| stream.take()).collect::<PyResult<Vec<_>>>()?;
        let format = ChunkFormat { call_id: format!("call_{}_", events.events.id), ..chunks.chunks.clone() };
        let events_of = events.events.clone().events(readers.len());
        let is_document = events.is_document;
        let reader = detached(py, move || GenerationReader::new(readers, outputs, &format, events_of, is_document));
        Ok(Self { reader: Mutex::new(Some(reader)), handed: Mutex::default(), ending: Arc::default() })
    }

    /// Returns the next events if there are any, and whether the answers have ended. Otherwise the notifier reports
    /// `ticket` when polling again can succeed.
    fn poll<'py>(
        &self,
        py: Python<'py>,
        notifier: &Notifier,
        ticket: u64,
    ) -> PyResult<Option<(Bound<'py, PyBytes>, bool)>> {
        let mut reader = self.take()?;
        let waker = notifier.waker(ticket);
        let (reader, polled, out) = detached(py, move || {
            let mut out = Vec::new();
            // Those of one chunk, so that the first one is sent at once.
            let polled = reader.poll(&mut Context::from_waker(&waker), &mut out, 1);
            (reader, polled, out)
        });
        *self.lock() = Some(reader);
        match polled {
            Poll::Pending if out.is_empty() => Ok(None),
            Poll::Pending => Ok(Some((PyBytes::new(py, &out), false))),
            Poll::Ready(Ok(())) => Ok(Some((PyBytes::new(py, &out), true))),
            Poll::Ready(Err(error)) => Err(raised(py, &error)),
        }
    }

    /// Seconds after which to poll again even without a notification.
    #[getter]
    fn poll_after(&self) -> Option<f64> {
        self.lock().as_ref().and_then(GenerationReader::poll_after)
    }

    /// Hands the rest to the server. A handler of raw requests yields the result.
    fn rest(&self) -> PyResult<GenerationBody> {
        let mut reader = self.take()?;
        reader.move_to_client();
        let body = GenerationBody::new(reader, &self.ending);
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

    /// The answers so far.
    fn choices(&self) -> PyResult<Vec<GeneratedChoice>> {
        let reader = self.take()?;
        let choices = reader.choices().map(|choice| {
            let Usage { prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens } = choice.usage();
            GeneratedChoice {
                content: choice.content().to_owned(),
                reasoning: choice.reasoning().to_owned(),
                tool_arguments: choice.tool_calls().iter().map(|call| call.arguments.clone()).collect(),
                finish_reason: choice.finish_reason().to_owned(),
                usage: (prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens),
            }
        });
        let choices = choices.collect();
        *self.lock() = Some(reader);
        Ok(choices)
    }

    /// Returns the last events, or the document.
    #[pyo3(signature = (prompt_tokens, completion_tokens, cached_tokens=None, reasoning_tokens=None))]
    fn finish<'py>(
        &self,
        py: Python<'py>,
        prompt_tokens: u64,
        completion_tokens: u64,
        cached_tokens: Option<u64>,
        reasoning_tokens: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (prompt_tokens, completion_tokens) = (Some(prompt_tokens), Some(completion_tokens));
        let usage = Usage { prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens };
        self.written(py, |reader, out| reader.end(out, &usage))
    }

    /// Returns the events of an error, which end the stream.
    fn fail<'py>(
        &self,
        py: Python<'py>,
        body: String,
        message: String,
        code: Option<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.written(py, |reader, out| {
            reader.close();
            reader.fail(out, &StreamError { body, message, code });
        })
    }

    /// Cancels the calls, unless they have ended.
    fn close(&self, py: Python<'_>) {
        self.ending.abandon();
        let (reader, handed) = (self.lock().take(), self.lock_handed().take());
        detached(py, move || drop((reader, handed.and_then(|body| body.take()))));
    }
}
