//! Streamed response of a raw-request model.

use crate::infer::Responses;
use bytes::Bytes;
use http_body::{Body, Frame};
use penstock_core::{Error, ResponseChunk};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Body of such a response. It polls chunks only when the socket accepts more, which pauses the handler of a slow
/// client. An error aborts the body, so that no client takes a part for the whole.
pub(crate) struct ChunkedBody {
    /// `None` after the end.
    responses: Option<Responses>,
    /// Available bytes that are not sent.
    ready: Option<Bytes>,
    /// Error that ends the body once all bytes before it are sent.
    failure: Option<Error>,
}

impl ChunkedBody {
    /// Creates a body that begins with `first`.
    pub(crate) fn new(responses: Responses, first: Option<Bytes>) -> Self {
        Self { responses: Some(responses), ready: first.filter(|first| !first.is_empty()), failure: None }
    }

    /// Creates an empty body of unknown length, for `HEAD`.
    pub(crate) fn none() -> Self {
        Self { responses: None, ready: None, failure: None }
    }
}

impl Body for ChunkedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Error>>> {
        if let Some(bytes) = self.ready.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Some(Err(error)));
        }
        loop {
            let Some(responses) = &mut self.responses else { return Poll::Ready(None) };
            let Some(next) = ready!(responses.poll_next(cx)) else {
                self.responses = None;
                return Poll::Ready(None);
            };
            let last = next.as_ref().is_ok_and(|chunk| chunk.last);
            let bytes = next.and_then(|chunk| bytes_of(responses, chunk).inspect_err(|error| responses.fail(error)));
            if last || bytes.is_err() {
                self.responses = None;
            }
            match bytes {
                // An empty chunk would end the body.
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(error) => {
                    // The connection flushes its buffer while this is pending, but discards it after an error.
                    self.failure = Some(error);
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.responses.is_none() && self.ready.is_none() && self.failure.is_none()
    }
}

/// Returns the bytes of a chunk, if any.
fn bytes_of(responses: &Responses, chunk: ResponseChunk) -> Result<Bytes, Error> {
    let response = chunk.response;
    match response.head.and_then(|head| head.body) {
        Some(body) => Ok(body),
        None if response.outputs.is_empty() => Ok(Bytes::new()),
        None => Err(Error::handler(format!(
            "model '{}' gave a chunk of tensors to a route, expected chunks with a body",
            responses.model().spec().name
        ))),
    }
}
