//! Responses as server-sent events, encoded as the socket accepts them.

use crate::{
    body::{FRAME_BYTES, FlushClock, Turn},
    infer::Responses,
};
use bytes::Bytes;
use http_body::{Body, Frame};
use penstock_core::{ResponseChunk, Result};
use penstock_wire::rest::{
    EncodeOptions,
    generate::{Form, Writer, error_event},
};
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Body of server-sent events. It polls responses only when the socket accepts more, which
/// pauses the handler of a slow client.
pub(crate) struct EventStream {
    responses: Responses,
    form: Form,
    options: EncodeOptions,
    /// Encoded events that are not sent.
    ready: Vec<u8>,
    ended: bool,
    clock: FlushClock,
    turn: Turn,
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
        let clock = FlushClock::new(responses.app().config.flush_interval);
        let mut events = Self { responses, form, options, ready: Vec::new(), ended, clock, turn: Turn::default() };
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
        while !self.ended && self.ready.len() < FRAME_BYTES {
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
        let waits = self.clock.is_running(cx);
        self.responses.set_deferred(waits);
        self.fill(cx);
        if self.ready.is_empty() {
            self.turn.end();
            return if self.ended { Poll::Ready(None) } else { Poll::Pending };
        }
        if !self.ended {
            if waits && self.ready.len() < FRAME_BYTES {
                self.turn.end();
                return Poll::Pending;
            }
            let bytes = self.ready.len();
            ready!(self.turn.poll_send(cx, bytes));
        }
        self.clock.start();
        // The next frame is about as long.
        let next = Vec::with_capacity(self.ready.len().min(FRAME_BYTES));
        let ready = std::mem::replace(&mut self.ready, next);
        Poll::Ready(Some(Ok(Frame::data(ready.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.ready.is_empty()
    }
}
