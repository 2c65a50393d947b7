//! Driver of a resumable stream: a task that takes the handler's events, with and without a reader.

use crate::{
    state::{App, Phase},
    streams::{Ending, EventSplitter, NextStep, ResumableStream},
};
use bytes::Bytes;
use http_body::Body;
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};
use tokio::time::{Sleep, sleep_until};

/// The driver. It ends when the stream is no longer kept, and ends the request then.
pub(super) struct Driver<B> {
    app: Arc<App>,
    stream: Arc<ResumableStream>,
    /// `None` after its end.
    body: Option<B>,
    splitter: EventSplitter,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<B> Driver<B> {
    pub(super) fn new(app: &Arc<App>, stream: &Arc<ResumableStream>, body: B) -> Self {
        let splitter = EventSplitter::new(stream.token);
        Self { app: Arc::clone(app), stream: Arc::clone(stream), body: Some(body), splitter, timer: None }
    }

    fn end(&mut self, ending: Ending) {
        // Its request ends, but what it has sent can be read again.
        self.body = None;
        let held = self.stream.end(ending);
        self.app.streams.ended(self.stream.token, held);
    }

    /// Completes at a time. Without one it never does.
    fn poll_until(&mut self, until: Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(until) = until else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until.into())));
        if timer.deadline() != until.into() {
            timer.as_mut().reset(until.into());
        }
        timer.as_mut().poll(cx)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Driver<B> {
    /// Takes one frame of the body; pending if there is none yet.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(body) = &mut self.body else { return Poll::Pending };
        let mut events = Vec::new();
        let ending = match ready!(Pin::new(body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    self.splitter.push(&bytes, |event| events.push(event));
                }
                // An event that never ends would take all memory.
                let is_endless = self.splitter.pending_bytes() > self.app.config.limits.max_body_bytes.get();
                is_endless.then_some(Ending::Cut)
            }
            Some(Err(_)) => Some(Ending::Cut),
            None => {
                self.splitter.finish(|event| events.push(event));
                Some(Ending::Complete)
            }
        };
        if !events.is_empty() {
            self.stream.push(events, self.app.config.limits.max_inflight_bytes.get());
        }
        if let Some(ending) = ending {
            self.end(ending);
        }
        Poll::Ready(())
    }
}

impl<B: Body<Data = Bytes> + Unpin> Future for Driver<B> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        loop {
            let is_draining = this.app.phase() == Phase::Draining;
            let until = match this.stream.next_step(cx, is_draining) {
                NextStep::Stop => return Poll::Ready(()),
                NextStep::Wait(until) => until,
                NextStep::Pull(until) => match this.poll_body(cx) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => until,
                },
            };
            ready!(this.poll_until(until, cx));
        }
    }
}

impl<B> Drop for Driver<B> {
    fn drop(&mut self) {
        self.stream.close();
        self.app.streams.remove(self.stream.token);
    }
}
