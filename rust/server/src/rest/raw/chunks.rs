//! The pieces of a routed answer, sent as they come.

use crate::infer::Responses;
use bytes::Bytes;
use http_body::{Body, Frame};
use penstock_core::{Error, ResponseChunk};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The body of such an answer. It asks for pieces only when the socket takes more: that is what pauses the handler of a
/// client that reads slowly. An error ends it abnormally, so that no client takes a part for the whole.
pub(crate) struct ChunkedBody {
    /// `None` after the end.
    responses: Option<Responses>,
    /// What is there and not sent.
    ready: Option<Bytes>,
    /// What it ends with, once all before it is on its way.
    failure: Option<Error>,
}

impl ChunkedBody {
    /// A body that begins with `first`.
    pub(crate) fn new(responses: Responses, first: Option<Bytes>) -> Self {
        Self { responses: Some(responses), ready: first.filter(|first| !first.is_empty()), failure: None }
    }

    /// A body of unknown length that nobody reads.
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
            let last = next.as_ref().is_ok_and(|piece| piece.last);
            let bytes = next.and_then(|piece| bytes_of(responses, piece).inspect_err(|error| responses.fail(error)));
            if last || bytes.is_err() {
                self.responses = None;
            }
            match bytes {
                // An empty chunk would end the body.
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Err(error) => {
                    // While nothing more is there, the connection sends what it has; after an error it sends nothing.
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

/// What a piece adds to the body; nothing, if it tells nothing.
fn bytes_of(responses: &Responses, piece: ResponseChunk) -> Result<Bytes, Error> {
    let response = piece.response;
    match response.head.and_then(|told| told.body) {
        Some(body) => Ok(body),
        None if response.outputs.is_empty() => Ok(Bytes::new()),
        None => Err(Error::handler(format!(
            "model '{}' gave a piece of tensors to a route, expected pieces with a body",
            responses.model().spec().name
        ))),
    }
}
