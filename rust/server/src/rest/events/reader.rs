//! Body of a response that reads a resumable stream.

use crate::{
    body::{FRAME_BYTES, Turn},
    streams::{Attachment, ResumableStream},
};
use bytes::Bytes;
use http_body::{Body, Frame};
use penstock_core::Error;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// The reader. A failed stream, or one that another connection has resumed, aborts it: no client takes a part for the
/// whole.
pub(super) struct StreamReader {
    stream: Arc<ResumableStream>,
    attachment: Attachment,
    turn: Turn,
    /// Error that ends the body once all bytes before it are sent.
    failure: Option<Error>,
}

impl StreamReader {
    pub(super) fn new(stream: Arc<ResumableStream>, attachment: Attachment) -> Self {
        Self { stream, attachment, turn: Turn::default(), failure: None }
    }
}

impl Body for StreamReader {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if let Some(error) = this.failure.take() {
            return Poll::Ready(Some(Err(error)));
        }
        ready!(this.turn.poll_send(cx, 0));
        match this.stream.poll_events(this.attachment, cx, FRAME_BYTES) {
            Poll::Pending => {
                this.turn.end();
                Poll::Pending
            }
            Poll::Ready(Some(Ok(events))) => {
                let _ = this.turn.poll_send(cx, events.len());
                Poll::Ready(Some(Ok(Frame::data(events))))
            }
            Poll::Ready(Some(Err(error))) => {
                // The connection flushes its buffer while this is pending, but discards it after an error.
                this.failure = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.failure.is_none() && self.stream.is_read(self.attachment)
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.stream.release(self.attachment);
    }
}
