//! Responses as server-sent events, made while the socket takes them.

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

/// EventStream that are ready together go out together, up to about this size.
const FRAME: usize = 16 << 10;

/// The body of a stream of events. It asks for responses only when the socket takes more: that is what
/// pauses the handler of a client that reads slowly.
pub(crate) struct EventStream {
    responses: Responses,
    form: Form,
    options: EncodeOptions,
    /// EventStream that are made and not sent.
    ready: Vec<u8>,
    ended: bool,
}

impl EventStream {
    /// A stream that begins with `first`.
    ///
    /// # Errors
    /// When the first answer cannot be written: there is a status for that still.
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

    fn write(&mut self, piece: &ResponseChunk) -> Result<()> {
        let Self { responses, form, options, ready, .. } = self;
        let writer = Writer { spec: responses.model().spec(), plan: &responses.plan, form: *form, options: *options };
        writer.event(ready, &piece.response)
    }

    /// Adds what is there to `ready`.
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
            let written = result.and_then(|piece| {
                self.ended = piece.last;
                self.write(&piece)
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
