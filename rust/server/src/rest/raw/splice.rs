//! Bytes within a streamed response that do not come from its model.

use crate::body::{FRAME_BYTES, Frames};
use bytes::Bytes;
use penstock_core::BodySource;
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::time::{Sleep, sleep_until};

/// Frames of a [`BodySource`]. It is polled only when the socket accepts more, and dropped with the client.
pub(super) struct Splice {
    /// `None` at its end.
    source: Option<Box<dyn BodySource>>,
    frames: Frames,
    /// Timer of [`BodySource::poll_at`], with its time.
    timer: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Splice {
    pub(super) fn new(source: Box<dyn BodySource>, flush_interval: Option<Duration>) -> Self {
        Self { source: Some(source), frames: Frames::new(flush_interval), timer: None }
    }

    /// Polls the next frame; `None` at the end.
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let waits = self.frames.is_waiting(cx);
        while let Some(source) = &mut self.source {
            source.set_deferred(waits);
            if source.poll_bytes(cx, &mut self.frames.ready, FRAME_BYTES).is_ready() {
                self.source = None;
            } else if self.frames.ready.len() >= FRAME_BYTES || !self.is_due(cx) {
                break;
            }
        }
        self.frames.poll_frame(cx, waits, self.source.is_none())
    }

    /// Reports whether the source has to be polled again now. If not, the task is polled when it has.
    fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(at) = self.source.as_ref().and_then(|source| source.poll_at()) else {
            self.timer = None;
            return false;
        };
        match &mut self.timer {
            Some((known, _)) if *known == at => {}
            Some((known, timer)) => {
                *known = at;
                timer.as_mut().reset(at.into());
            }
            None => self.timer = Some((at, Box::pin(sleep_until(at.into())))),
        }
        self.timer.as_mut().is_some_and(|(_, timer)| timer.as_mut().poll(cx).is_ready())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::VecDeque, future::poll_fn};

    /// Chunks that are there at once, then nothing until a time at which it ends.
    struct Chunks {
        chunks: VecDeque<&'static [u8]>,
        end: Option<Instant>,
    }

    impl BodySource for Chunks {
        fn poll_bytes(&mut self, _: &mut Context<'_>, out: &mut Vec<u8>, limit: usize) -> Poll<()> {
            while out.len() < limit
                && let Some(chunk) = self.chunks.pop_front()
            {
                out.extend_from_slice(chunk);
            }
            let is_over = self.chunks.is_empty() && self.end.is_none_or(|end| end <= Instant::now());
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        }

        fn set_deferred(&mut self, _: bool) {}

        fn poll_at(&self) -> Option<Instant> {
            self.end
        }
    }

    async fn frames(chunks: &[&'static [u8]], end: Option<Instant>, flush_interval: Option<Duration>) -> Vec<Bytes> {
        let source = Box::new(Chunks { chunks: chunks.iter().copied().collect(), end });
        let mut splice = Splice::new(source, flush_interval);
        let mut frames = Vec::new();
        while let Some(frame) = poll_fn(|cx| splice.poll_frame(cx)).await {
            frames.push(frame);
        }
        frames
    }

    #[tokio::test]
    async fn available_bytes_leave_in_one_frame() {
        assert_eq!(frames(&[b"one ", b"two"], None, None).await, ["one two"]);
        assert!(frames(&[], None, None).await.is_empty());
    }

    #[tokio::test]
    async fn frame_has_a_limit() {
        static BIG: [u8; FRAME_BYTES] = [b'a'; FRAME_BYTES];
        let lengths: Vec<_> = frames(&[&BIG, &BIG, b"b"], None, None).await.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [FRAME_BYTES, FRAME_BYTES, 1]);
    }

    #[tokio::test]
    async fn source_is_polled_again_at_its_time() {
        let end = Instant::now() + Duration::from_millis(5);
        assert_eq!(frames(&[b"one"], Some(end), None).await, ["one"]);
        assert_eq!(frames(&[b"one"], Some(end), Some(Duration::from_millis(1))).await, ["one"]);
    }
}
