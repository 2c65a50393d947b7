//! Responses as server-sent events, encoded as the socket accepts them.

use crate::infer::Responses;
use bytes::Bytes;
use http_body::{Body, Frame};
use penstock_core::{ResponseChunk, Result};
use penstock_wire::rest::{
    EncodeOptions,
    generate::{Form, Writer, error_event},
};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// Size of a frame from which further events wait for the next one, in bytes.
const FRAME: usize = 16 << 10;

/// Body of server-sent events. It polls responses only when the socket accepts more, which
/// pauses the handler of a slow client.
pub(crate) struct EventStream {
    responses: Responses,
    form: Form,
    options: EncodeOptions,
    /// Encoded events that are not sent.
    ready: Vec<u8>,
    ended: bool,
}

impl EventStream {
    /// Creates a stream that begins with `first`.
    ///
    /// # Errors
    /// Those of the first response, which can still set the status.
    pub(crate) fn new(
        responses: Responses,
        form: Form,
        options: EncodeOptions,
        first: Option<ResponseChunk>,
    ) -> Result<Self> {
        let ended = first.as_ref().is_none_or(|first| first.last);
        let mut events = Self { responses, form, options, ready: Vec::new(), ended };
        if let Some(first) = first {
            events.write(&first)?;
        }
        Ok(events)
    }

    fn write(&mut self, chunk: &ResponseChunk) -> Result<()> {
        let Self { responses, form, options, ready, .. } = self;
        let writer = Writer { spec: responses.model().spec(), plan: &responses.plan, form: *form, options: *options };
        writer.event(ready, &chunk.response)
    }

    /// Encodes available responses into `ready`.
    fn fill(&mut self, cx: &mut Context<'_>) {
        while !self.ended && self.ready.len() < FRAME {
            let result = match self.responses.poll_next(cx) {
                Poll::Pending => return,
                Poll::Ready(None) => {
                    self.ended = true;
                    return;
                }
                Poll::Ready(Some(result)) => result,
            };
            let written = result.and_then(|chunk| {
                self.ended = chunk.last;
                self.write(&chunk)
            });
            if let Err(error) = written {
                self.responses.fail(&error);
                self.ready.extend_from_slice(&error_event(&error));
                self.ended = true;
            }
        }
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        self.fill(cx);
        if !self.ready.is_empty() {
            let ready = std::mem::take(&mut self.ready);
            return Poll::Ready(Some(Ok(Frame::data(ready.into()))));
        }
        if self.ended { Poll::Ready(None) } else { Poll::Pending }
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.ready.is_empty()
    }
}
