//! Answers of a language model as they come: the streams of one or more calls, written as the events of an API.

use super::{stream::Stream, wait::Patience};
use penstock_core::{Datatype, Error, InferResponse, ModelSpec, Result, bytes_tensor};
use penstock_wire::rest::generation::{Choice, ChunkFormat, Events, Piece, StreamError, Usage};
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

/// The outputs of a model that are read.
#[derive(Clone, Debug)]
pub(super) struct Outputs {
    model: Arc<str>,
    /// Index of the output with the text or the documents.
    chunk: usize,
    /// Its name.
    name: String,
    /// Index of the output whose last value is the finish reason.
    finish_reason: Option<usize>,
}

impl Outputs {
    /// Finds the outputs.
    ///
    /// # Errors
    /// `Handler`: there is no such output.
    pub(super) fn new(spec: &ModelSpec, name: &str, finish_reason: Option<&str>) -> Result<Self> {
        let find = |name: &str| {
            spec.outputs.iter().position(|output| &*output.name == name && output.datatype == Datatype::Bytes)
        };
        let model = Arc::clone(&spec.name);
        let chunk = find(name).ok_or_else(|| missing(&model, name))?;
        Ok(Self { model, chunk, name: name.to_owned(), finish_reason: finish_reason.and_then(find) })
    }

    /// Reads a response of the model.
    fn read(&self, response: &InferResponse, choice: &mut Choice, piece: &mut Piece) -> Result<()> {
        let output = |index: usize| {
            let tensor = response.outputs.get(index).filter(|tensor| !tensor.is_absent())?;
            (tensor.datatype() == Datatype::Bytes).then(|| bytes_tensor::elements(tensor.as_slice()))
        };
        if let Some(elements) = self.finish_reason.and_then(output) {
            let reason: Vec<u8> = elements.flatten().copied().collect();
            if !reason.is_empty() {
                choice.set_finish_reason(String::from_utf8_lossy(&reason).into_owned());
            }
        }
        let elements = output(self.chunk).ok_or_else(|| missing(&self.model, &self.name))?;
        choice.feed_all(elements, piece)
    }
}

fn missing(model: &str, output: &str) -> Error {
    Error::handler(format!("model '{model}' gave no '{output}'"))
}

/// One answer.
struct Answer {
    stream: Stream,
    choice: Choice,
    ended: bool,
}

/// The answers of a request.
pub(super) struct GenerationReader {
    answers: Vec<Answer>,
    outputs: Outputs,
    events: Box<dyn Events>,
    piece: Piece,
    /// Events of an answer whose response is one document are not sent.
    is_document: bool,
    /// The answer that is read first, so that one that is always ready does not delay the others.
    turn: usize,
    /// An error that follows the events before it.
    failed: Option<Error>,
}

impl GenerationReader {
    /// Reads `streams`, each in the form of `chunks`.
    pub(super) fn new(
        streams: Vec<Stream>,
        outputs: Outputs,
        chunks: &ChunkFormat,
        events: Box<dyn Events>,
        is_document: bool,
    ) -> Self {
        let answers = streams.into_iter().enumerate().map(|(index, mut stream)| {
            stream.set_deferred(is_document);
            stream.start();
            let mut format = chunks.clone();
            format.call_id.push_str(&index.to_string());
            format.call_id.push('_');
            Answer { stream, choice: Choice::new(format), ended: false }
        });
        Self {
            answers: answers.collect(),
            outputs,
            events,
            piece: Piece::default(),
            is_document,
            turn: 0,
            failed: None,
        }
    }

    /// Appends available events to `out`, until it has `limit` or more bytes. Completes at the end.
    ///
    /// # Errors
    /// The model's error, once `out` has no events before it.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>, limit: usize) -> Poll<Result<()>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        let count = self.answers.len();
        let mut is_pending = false;
        for step in 0..count {
            let index = (self.turn + step) % count;
            while !self.answers[index].ended {
                if out.len() >= limit {
                    self.turn = index + 1;
                    return Poll::Pending;
                }
                match self.poll_answer(cx, out, index) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(error)) if out.is_empty() => return Poll::Ready(Err(error)),
                    Poll::Ready(Err(error)) => {
                        self.failed = Some(error);
                        // The next poll reports it.
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Pending => {
                        is_pending = true;
                        break;
                    }
                }
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    /// Reads the next response of an answer.
    fn poll_answer(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>, index: usize) -> Poll<Result<()>> {
        let Self { answers, outputs, events, piece, is_document, .. } = self;
        let Answer { stream, choice, ended } = &mut answers[index];
        let start = out.len();
        match ready!(stream.next(cx)) {
            Some(response) => outputs.read(&response?, choice, piece)?,
            None => {
                choice.finish(piece);
                *ended = true;
            }
        }
        if !piece.is_empty() {
            events.piece(out, index, piece, choice);
        }
        if choice.has_stopped() {
            *ended = true;
            stream.close();
        }
        if *ended {
            events.end_choice(out, index, choice);
        }
        if *is_document {
            out.truncate(start);
        }
        Poll::Ready(Ok(()))
    }

    /// Appends the last events, or the document.
    pub(super) fn end(&mut self, out: &mut Vec<u8>, usage: &Usage) {
        let choices: Vec<&Choice> = self.answers.iter().map(|answer| &answer.choice).collect();
        match self.is_document {
            true => self.events.document(out, &choices, usage),
            false => self.events.end(out, &choices, usage),
        }
    }

    /// Appends the events of an error.
    pub(super) fn fail(&mut self, out: &mut Vec<u8>, error: &StreamError) {
        self.events.fail(out, error);
    }

    /// Returns the answers.
    pub(super) fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.answers.iter().map(|answer| &answer.choice)
    }

    /// Cancels the calls that have not ended.
    pub(super) fn close(&mut self) {
        self.answers.iter_mut().for_each(|answer| answer.stream.close());
    }

    /// From now on, a task of the client's I/O thread reads the streams.
    pub(super) fn move_to_client(&mut self) {
        self.answers.iter_mut().for_each(|answer| answer.stream.move_to_client());
    }

    /// Defers wake-ups, or no longer.
    pub(super) fn set_deferred(&mut self, deferred: bool) {
        self.answers.iter_mut().for_each(|answer| answer.stream.set_deferred(deferred));
    }

    /// The limits of the waits for the model.
    fn patience(&self) -> impl Iterator<Item = &Patience> {
        self.answers.iter().filter(|answer| !answer.ended).map(|answer| answer.stream.patience())
    }

    /// Seconds after which to poll again even without a wake-up.
    pub(super) fn poll_after(&self) -> Option<f64> {
        self.patience().filter_map(|patience| Some(patience.left()?.as_secs_f64())).reduce(f64::min)
    }

    /// Time at which to poll again even without a wake-up.
    pub(super) fn next_check(&self) -> Option<Instant> {
        self.patience().filter_map(Patience::next_check).min()
    }
}
