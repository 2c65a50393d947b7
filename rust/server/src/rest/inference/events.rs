//! Responses as server-sent events, encoded as the socket accepts them.

use crate::{
    body::{FRAME_BYTES, Frames},
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
    task::{Context, Poll},
};

/// Body of server-sent events. It polls responses only when the socket accepts more, which
/// pauses the handler of a slow client.
pub(crate) struct EventStream {
    responses: Responses,
    form: Form,
    options: EncodeOptions,
    /// Encoded events that are not sent.
    frames: Frames,
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
        let frames = Frames::new(responses.app().config.flush_interval.get());
        let mut events = Self { responses, form, options, frames, ended };
        if let Some(first) = first {
            events.write(&first)?;
        }
        Ok(events)
    }

    /// Creates a stream whose first response is late.
    pub(crate) fn late(responses: Responses, form: Form, options: EncodeOptions) -> Self {
        let frames = Frames::new(responses.app().config.flush_interval.get());
        Self { responses, form, options, frames, ended: false }
    }

    fn write(&mut self, chunk: &ResponseChunk) -> Result<()> {
        let Self { responses, form, options, frames, .. } = self;
        let writer = Writer { spec: responses.model().spec(), plan: &responses.plan, form: *form, options: *options };
        writer.event(&mut frames.ready, &chunk.response)
    }

    /// Encodes available responses.
    fn fill(&mut self, cx: &mut Context<'_>) {
        while !self.ended && self.frames.ready.len() < FRAME_BYTES {
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
                self.frames.ready.extend_from_slice(&error_event(&error));
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
        let waits = self.frames.is_waiting(cx);
        self.responses.set_deferred(waits);
        self.fill(cx);
        let ended = self.ended;
        self.frames.poll_frame(cx, waits, ended).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.frames.ready.is_empty()
    }
}
