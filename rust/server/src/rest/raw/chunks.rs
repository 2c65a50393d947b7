//! Streamed response of a raw-request model.

use super::splice::Splice;
use crate::infer::Responses;
use bytes::Bytes;
use http_body::{Body, Frame};
use penstock_core::{Error, ResponseChunk, SplicedBody};
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
        let mut body = Self { responses: Some(responses), ready: None, splice: None, failure: None };
        body.accept(first);
        body
    }

    /// Creates an empty body of unknown length, for `HEAD`.
    pub(crate) fn none() -> Self {
        Self { responses: None, ready: None, splice: None, failure: None }
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
        loop {
            if let Some(bytes) = ready!(self.poll_accepted(cx)) {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Some(error) = self.failure.take() {
                return Poll::Ready(Some(Err(error)));
            }
            let Some(responses) = &mut self.responses else { return Poll::Ready(None) };
            let Some(next) = ready!(responses.poll_next(cx)) else {
                self.responses = None;
                return Poll::Ready(None);
            };
            let last = next.as_ref().is_ok_and(|chunk| chunk.last);
            let bytes = next.and_then(|chunk| bytes_of(responses, chunk).inspect_err(|error| responses.fail(error)));
            match bytes {
                Ok(bytes) => self.accept(bytes),
                Err(error) => {
                    self.responses = None;
                    // The connection flushes its buffer while this is pending, but discards it after an error.
                    self.failure = Some(error);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
            if last {
                self.responses = None;
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.responses.is_none() && self.ready.is_none() && self.splice.is_none() && self.failure.is_none()
    }
}

/// Returns the bytes of a chunk, if any.
fn bytes_of(responses: &Responses, chunk: ResponseChunk) -> Result<ChunkBytes, Error> {
    let ResponseChunk { response, last } = chunk;
    let (bytes, splice) = response.head.map_or((None, None), |head| (head.body, head.splice));
    if bytes.is_none() && splice.is_none() && !response.outputs.is_empty() {
        return Err(Error::handler(format!(
            "model '{}' gave a chunk of tensors to a route, expected chunks with a body",
            responses.model().spec().name
        )));
    }
    // The request ends with the last chunk, and nothing that it has to wait for may follow.
    Ok(ChunkBytes { bytes: bytes.unwrap_or_default(), splice: splice.filter(|_| !last) })
}
