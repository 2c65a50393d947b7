//! Frames of a streamed body: when its bytes leave, and how many at once.

use super::{
    flush_clock::FlushClock,
    turn::{FRAME_BYTES, Turn},
};
use bytes::Bytes;
use std::{
    task::{Context, Poll, ready},
    time::Duration,
};

/// Encoded bytes of a streamed body that are not sent. They leave at most once per flush interval, and in turns.
#[derive(Debug)]
pub(crate) struct Frames {
    /// The bytes.
    pub(crate) ready: Vec<u8>,
    clock: FlushClock,
    turn: Turn,
}

impl Frames {
    /// Creates an empty buffer. Without an interval, bytes leave as they come.
    pub(crate) fn new(flush_interval: Option<Duration>) -> Self {
        Self { ready: Vec::new(), clock: FlushClock::new(flush_interval), turn: Turn::default() }
    }

    /// Reports whether the flush interval after the last frame has not ended. The task is polled when it ends.
    pub(crate) fn is_waiting(&mut self, cx: &mut Context<'_>) -> bool {
        self.clock.is_running(cx)
    }

    /// Returns the next frame, once all bytes that are there were added; `None` at the end. `waits` is the result of
    /// [`Frames::is_waiting`]; with `ended`, no more bytes come.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>, waits: bool, ended: bool) -> Poll<Option<Bytes>> {
        if self.ready.is_empty() {
            self.turn.end();
            return if ended { Poll::Ready(None) } else { Poll::Pending };
        }
        if !ended {
            if waits && self.ready.len() < FRAME_BYTES {
                self.turn.end();
                return Poll::Pending;
            }
            ready!(self.turn.poll_send(cx, self.ready.len()));
        }
        self.clock.start();
        // The next frame is about as long.
        let next = Vec::with_capacity(self.ready.len().min(FRAME_BYTES));
        Poll::Ready(Some(std::mem::replace(&mut self.ready, next).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn bytes_leave_in_one_frame_and_the_end_follows() {
        let (mut cx, mut frames) = (Context::from_waker(Waker::noop()), Frames::new(None));
        assert!(frames.poll_frame(&mut cx, false, false).is_pending());
        frames.ready.extend_from_slice(b"one");
        frames.ready.extend_from_slice(b"two");
        assert_eq!(frames.poll_frame(&mut cx, false, false), Poll::Ready(Some(Bytes::from_static(b"onetwo"))));
        assert_eq!(frames.poll_frame(&mut cx, false, true), Poll::Ready(None));
    }

    #[test]
    fn bytes_wait_for_the_interval_unless_they_are_many_or_the_last() {
        let (mut cx, mut frames) = (Context::from_waker(Waker::noop()), Frames::new(None));
        frames.ready.push(b'a');
        assert!(frames.poll_frame(&mut cx, true, false).is_pending());
        assert!(frames.poll_frame(&mut cx, true, true).is_ready());
        frames.ready.resize(FRAME_BYTES, b'a');
        assert!(frames.poll_frame(&mut cx, true, false).is_ready());
    }
}
