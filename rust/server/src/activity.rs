//! What a connection is doing, as its timeouts and the drain need to know it.

use crate::config::Limits;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One connection's state. Times are milliseconds since it was opened.
#[derive(Debug)]
pub(crate) struct Activity {
    opened: Instant,
    /// The last byte in either direction, or the last answer.
    last_ms: AtomicU64,
    /// When the bytes since the last request began to come.
    head_since_ms: AtomicU64,
    head_open: AtomicBool,
    /// HTTP/2 has frames of its own between requests, so bytes do not mean that a head has begun.
    http2: AtomicBool,
    heard: AtomicBool,
    under_way: AtomicU32,
    bodies_open: AtomicU32,
    /// Answers that are made while they are sent. Silence in them is the handler's.
    streams: AtomicU32,
    answered: AtomicBool,
    /// Whether the socket would not take the rest of an answer.
    blocked: AtomicBool,
    /// Connections of the server that are blocked so.
    writing: Arc<AtomicUsize>,
}

impl Activity {
    /// A connection that was just opened. `writing` counts the connections that have more to send.
    pub(crate) fn new(writing: Arc<AtomicUsize>) -> Self {
        Self {
            opened: Instant::now(),
            last_ms: AtomicU64::new(0),
            head_since_ms: AtomicU64::new(0),
            head_open: AtomicBool::new(false),
            http2: AtomicBool::new(false),
            heard: AtomicBool::new(false),
            under_way: AtomicU32::new(0),
            bodies_open: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            answered: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            writing,
        }
    }

    /// Counts a request until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Busy {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.head_open.store(false, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Counts an answer that is made while it is sent, until the guard is dropped.
    pub(crate) fn stream(self: &Arc<Self>) -> OpenStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(Arc::clone(self))
    }

    /// Whether it could be closed in between requests. Before its first answer an HTTP/1 connection
    /// cannot: its client has no way to know that the request was not taken.
    pub(crate) fn may_be_closed(&self) -> bool {
        self.answered.load(Ordering::Relaxed) || self.http2.load(Ordering::Relaxed)
    }

    /// Whether a client has been silent, or slow, for longer than it may.
    pub(crate) fn overdue(&self, limits: &Limits) -> bool {
        if self.under_way.load(Ordering::Relaxed) > 0 {
            return self.bodies_open.load(Ordering::Relaxed) > 0 && self.since(&self.last_ms) > limits.body_timeout;
        }
        if self.streams.load(Ordering::Relaxed) > 0 && !self.blocked.load(Ordering::Relaxed) {
            return false;
        }
        let head_open = self.head_open.load(Ordering::Relaxed) && !self.http2.load(Ordering::Relaxed);
        if head_open && self.since(&self.head_since_ms) > limits.header_timeout {
            return true;
        }
        self.since(&self.last_ms) > limits.idle_timeout
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn since(&self, at_ms: &AtomicU64) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(at_ms.load(Ordering::Relaxed)))
    }

    fn touch(&self) -> u64 {
        let now_ms = self.now_ms();
        self.last_ms.store(now_ms, Ordering::Relaxed);
        now_ms
    }

    fn read(&self, bytes: &[u8]) {
        let now_ms = self.touch();
        if !self.heard.swap(true, Ordering::Relaxed) && bytes.starts_with(b"PRI") {
            self.http2.store(true, Ordering::Relaxed);
        }
        if self.under_way.load(Ordering::Relaxed) == 0 && !self.head_open.swap(true, Ordering::Relaxed) {
            self.head_since_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        let blocked = polled.is_pending();
        if !blocked {
            self.touch();
        }
        if self.blocked.swap(blocked, Ordering::Relaxed) != blocked {
            match blocked {
                true => self.writing.fetch_add(1, Ordering::AcqRel),
                false => self.writing.fetch_sub(1, Ordering::AcqRel),
            };
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        if self.blocked.load(Ordering::Relaxed) {
            self.writing.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// A request under way on a connection.
pub(crate) struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.answered.store(true, Ordering::Relaxed);
        // The next idle time counts from the answer, not from the request.
        self.0.touch();
    }
}

/// An answer that is still being made.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<Activity>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
        self.0.touch();
    }
}

/// A request's body that is known to be open until it is read or dropped.
pub(crate) struct ReadBody {
    body: Incoming,
    activity: Arc<Activity>,
    open: bool,
}

impl ReadBody {
    pub(crate) fn new(body: Incoming, activity: Arc<Activity>) -> Self {
        let open = !body.is_end_stream();
        if open {
            activity.bodies_open.fetch_add(1, Ordering::Relaxed);
        }
        Self { body, activity, open }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            self.activity.bodies_open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for ReadBody {
    fn drop(&mut self) {
        self.close();
    }
}

impl Body for ReadBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.body.is_end_stream() {
            self.close();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket whose reads and writes are noted.
pub(crate) struct Watched<S> {
    pub(crate) socket: S,
    pub(crate) activity: Arc<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.activity.read(&buffer.filled()[before..]);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.activity.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(cx, buffers);
        self.activity.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
