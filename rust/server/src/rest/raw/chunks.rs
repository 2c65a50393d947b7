//! Streamed response of a raw-request model.

use super::splice::Splice;
use crate::infer::{Responses, response_head};
use bytes::Bytes;
use http_body::{Body, Frame};
use penstock_core::{Error, ResponseChunk, SplicedBody};
use penstock_wire::rest::generate::error_event;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

/// Time that a handler has for its last chunks after a splice, which may have ended by the deadline.
const END_GRACE: Duration = Duration::from_secs(1);

/// Body of such a response. It polls chunks only when the socket accepts more, which pauses the handler of a slow
/// client. An error aborts the body, so that no client takes a part for the whole.
pub(crate) struct ChunkedBody {
    /// `None` after the end.
    responses: Option<Responses>,
    /// Available bytes that are not sent.
    ready: Option<Bytes>,
    /// Bytes that follow `ready` and precede further chunks.
    splice: Option<Splice>,
    /// Error that ends the body once all bytes before it are sent.
    failure: Option<Error>,
    /// Set until the first chunk of an event stream whose head was sent before it.
    is_late: bool,
}

/// Bytes of a chunk.
pub(crate) struct ChunkBytes {
    /// Empty if there are none.
    pub(crate) bytes: Bytes,
    /// Bytes after them.
    pub(crate) splice: Option<SplicedBody>,
}

impl ChunkedBody {
    /// Creates a body that begins with `first`, which is not the last chunk.
    pub(crate) fn new(responses: Responses, first: ChunkBytes) -> Self {
        let mut body = Self { responses: Some(responses), ready: None, splice: None, failure: None, is_late: false };
        body.accept(first);
        body
    }

    /// Creates an empty body of unknown length, for `HEAD`.
    pub(crate) fn none() -> Self {
        Self { responses: None, ready: None, splice: None, failure: None, is_late: false }
    }

    /// Creates the body of an event stream whose first chunk is still to come. Its error will be an event.
    pub(crate) fn late(responses: Responses) -> Self {
        Self { responses: Some(responses), ready: None, splice: None, failure: None, is_late: true }
    }

    fn accept(&mut self, chunk: ChunkBytes) {
        let source = chunk.splice.and_then(|splice| splice.take());
        let interval = self.responses.as_ref().and_then(|responses| responses.app().config.flush_interval.get());
        self.splice = source.map(|source| Splice::new(source, interval));
        // An empty chunk would end the body.
        self.ready = Some(chunk.bytes).filter(|bytes| !bytes.is_empty());
    }

    /// Returns the available bytes of the chunks so far; `None` if more chunks are needed.
    fn poll_accepted(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(bytes) = self.ready.take() {
            return Poll::Ready(Some(bytes));
        }
        let Some(splice) = &mut self.splice else { return Poll::Ready(None) };
        let frame = ready!(splice.poll_frame(cx));
        if frame.is_none() {
            self.splice = None;
            if let Some(responses) = &mut self.responses {
                responses.postpone_deadline(END_GRACE);
            }
        }
        Poll::Ready(frame)
    }
}

impl Body for ChunkedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        loop {
            if let Some(bytes) = ready!(this.poll_accepted(cx)) {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Some(error) = this.failure.take() {
                return Poll::Ready(Some(Err(error)));
            }
            let Some(responses) = &mut this.responses else { return Poll::Ready(None) };
            let Some(next) = ready!(responses.poll_next(cx)) else {
                this.responses = None;
                return Poll::Ready(None);
            };
            if next.as_ref().is_ok_and(|chunk| chunk.response.announces_events()) {
                continue;
            }
            let last = next.as_ref().is_ok_and(|chunk| chunk.last);
            let is_late = std::mem::take(&mut this.is_late);
            let bytes =
                next.and_then(|chunk| bytes_of(responses, chunk, is_late).inspect_err(|error| responses.fail(error)));
            match bytes {
                Ok(bytes) => this.accept(bytes),
                Err(error) if is_late => {
                    this.responses = None;
                    this.ready = Some(error_event(&error).into());
                    continue;
                }
                Err(error) => {
                    this.responses = None;
                    // The connection flushes its buffer while this is pending, but discards it after an error.
                    this.failure = Some(error);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            if last {
                this.responses = None;
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.responses.is_none() && self.ready.is_none() && self.splice.is_none() && self.failure.is_none()
    }
}

/// Returns the bytes of a chunk, if any: its event, where it has one.
fn bytes_of(responses: &mut Responses, chunk: ResponseChunk, is_late: bool) -> Result<ChunkBytes, Error> {
    let ResponseChunk { response, last } = chunk;
    let mut bytes_and_splice = (None, None);
    if let Some(head) = response.head {
        let refused = response_head::to_error(&head);
        if refused.is_some() && (is_late || head.event.is_some()) {
            responses.set_status(head.status);
        }
        let of_status = refused.filter(|_| is_late).map(|error| error_event(&error).into());
        bytes_and_splice = (head.event.or(of_status).or(head.body), head.splice);
    }
    let (bytes, splice) = bytes_and_splice;
    if bytes.is_none() && splice.is_none() && !response.outputs.is_empty() {
        return Err(Error::handler(format!(
            "model '{}' gave a chunk of tensors to a route, expected chunks with a body",
            responses.model().spec().name
        )));
    }
    // The request ends with the last chunk, and nothing that it has to wait for may follow.
    Ok(ChunkBytes { bytes: bytes.unwrap_or_default(), splice: splice.filter(|_| !last) })
}
