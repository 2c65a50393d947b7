//! Comments in an event stream that has nothing to send: proxies close connections without traffic.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// Form of the comment. Clients ignore both.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Comment {
    /// With an empty line, for clients that split a stream at empty lines.
    Block,
    /// A line, for streams with event ids: after an id, clients may take an empty line for an event.
    Line,
}

impl Comment {
    const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Block => b": keep-alive\n\n",
            Self::Line => b": keep-alive\n",
        }
    }
}

/// Body of an event stream. A comment is sent whenever nothing was for an interval, unless an event is incomplete.
pub(crate) struct KeepAlive<B> {
    body: B,
    interval: Duration,
    comment: Comment,
    /// Not later than an interval after `sent`: it is moved when it fires, not with each frame.
    timer: Pin<Box<Sleep>>,
    sent: Instant,
    tail: Tail,
    /// A comment is due now.
    is_due: bool,
}

impl<B> KeepAlive<B> {
    /// Adds comments to a body.
    pub(crate) fn new(body: B, interval: Duration, comment: Comment) -> Self {
        let (timer, sent) = (Box::pin(sleep(interval)), Instant::now());
        Self { body, interval, comment, timer, sent, tail: Tail::default(), is_due: false }
    }

    /// Begins with a comment, unless the body has something to send.
    pub(crate) fn due(self) -> Self {
        Self { is_due: true, ..self }
    }

    /// Completes when a comment is to be sent.
    fn poll_comment(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let at = self.sent + self.interval;
            if !std::mem::take(&mut self.is_due) {
                if self.timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                if Instant::now() < at {
                    self.timer.as_mut().reset(at);
                    continue;
                }
            }
            self.sent = Instant::now();
            self.timer.as_mut().reset(self.sent + self.interval);
            if self.tail.is_between_events() {
                return Poll::Ready(());
            }
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for KeepAlive<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame
                    && let Some(data) = frame.data_ref()
                {
                    this.tail.push(data);
                    (this.sent, this.is_due) = (Instant::now(), false);
                }
                Poll::Ready(frame)
            }
            Poll::Pending => {
                let comment = Bytes::from_static(this.comment.bytes());
                this.poll_comment(cx).map(|()| Some(Ok(Frame::data(comment))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// Last bytes of a stream.
#[derive(Debug)]
struct Tail([u8; 3]);

impl Default for Tail {
    /// No event has begun.
    fn default() -> Self {
        Self(*b"\n\n\n")
    }
}

impl Tail {
    fn push(&mut self, data: &[u8]) {
        for &byte in &data[data.len().saturating_sub(self.0.len())..] {
            self.0 = [self.0[1], self.0[2], byte];
        }
    }

    /// Reports whether the bytes end with an empty line.
    fn is_between_events(&self) -> bool {
        self.0.ends_with(b"\n\n") || self.0 == *b"\n\r\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;
    use std::{collections::VecDeque, convert::Infallible};

    /// Frames, each after its time.
    struct Slow {
        frames: VecDeque<(Duration, &'static str)>,
        timer: Option<Pin<Box<Sleep>>>,
    }

    impl Body for Slow {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let Some(&(after, data)) = self.frames.front() else { return Poll::Ready(None) };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(after)));
            std::task::ready!(timer.as_mut().poll(cx));
            self.timer = None;
            self.frames.pop_front();
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(data.as_bytes())))))
        }
    }

    async fn sent(frames: &[(u64, &'static str)], due: bool, comment: Comment) -> String {
        let frames = frames.iter().map(|&(seconds, data)| (Duration::from_secs(seconds), data)).collect();
        let body = KeepAlive::new(Slow { frames, timer: None }, Duration::from_secs(2), comment);
        let body = if due { body.due() } else { body };
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn comment_is_sent_after_each_silent_interval() {
        let frames = [(5, "data: a\n\n"), (1, "data: b\n\n"), (1, "data: c\n\n"), (3, "data: d\r\n\r\n"), (3, "")];
        let expected = ": keep-alive\n\n: keep-alive\n\ndata: a\n\ndata: b\n\ndata: c\n\n: keep-alive\n\ndata: d\r\n\r\n\
                        : keep-alive\n\n";
        assert_eq!(sent(&frames, false, Comment::Block).await, expected);
        assert_eq!(sent(&frames[1..2], false, Comment::Block).await, "data: b\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn comment_is_not_sent_within_an_event() {
        let frames = [(1, "data: a"), (9, "b\n"), (9, "\n"), (3, "data: c\n\n")];
        assert_eq!(sent(&frames, false, Comment::Line).await, "data: ab\n\n: keep-alive\ndata: c\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn due_comment_is_first_unless_the_body_is_ready() {
        assert_eq!(sent(&[(1, "data: a\n\n")], true, Comment::Line).await, ": keep-alive\ndata: a\n\n");
    }
}
