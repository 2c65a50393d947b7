//! Activity of a connection, for its timeouts and the drain.

use super::framing::{Framing, UNSURE};
use crate::settings::Limits;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// State of one connection. It has no times: [`Timeouts`] checks regularly what has changed.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// A request or a response has ended since the last check.
    moved: AtomicBool,
    /// Number of the head that is being received; 0 for none.
    head: AtomicU32,
    /// See [`Framing::contradiction`].
    contradiction: AtomicU32,
    chunked_requests: AtomicU32,
    http2: AtomicBool,
    /// The client began a TLS handshake.
    tls: AtomicBool,
    under_way: AtomicU32,
    /// Streamed responses. Their pauses are the handler's.
    streams: AtomicU32,
    responded: AtomicBool,
    /// Its next response is the last.
    retired: AtomicBool,
    /// The socket does not accept the rest of a response.
    blocked: AtomicBool,
    /// The socket has accepted bytes since the last check.
    wrote: AtomicBool,
    /// Bytes of HTTP/2 responses that wait for the client's flow-control window.
    unread: AtomicUsize,
    /// Some of them were sent since the last check.
    took: AtomicBool,
    /// Connections of the server that are blocked.
    writing: Arc<AtomicUsize>,
}

impl Activity {
    /// Creates the state of a new connection. `writing` counts blocked connections.
    pub(crate) fn new(writing: Arc<AtomicUsize>) -> Self {
        let mut activity = Self::default();
        activity.writing = writing;
        activity
    }

    /// Counts a request until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> ActiveRequest {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(Arc::clone(self))
    }

    /// Counts a streamed response until the guard is dropped.
    pub(crate) fn stream(self: &Arc<Self>) -> ActiveStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        ActiveStream(Arc::clone(self))
    }

    /// Reports whether it can be closed between requests. An HTTP/1 connection cannot before its first response:
    /// its client could not know that the request was not processed.
    pub(crate) fn may_be_closed(&self) -> bool {
        self.responded.load(Ordering::Relaxed) || self.http2.load(Ordering::Relaxed)
    }

    /// Makes the next response the last one.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Reports whether the next response is the last one.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Reports whether it speaks HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// Reports whether the client began a TLS handshake.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.load(Ordering::Relaxed)
    }

    /// Counts a chunked HTTP/1.1 request, and reports whether it had a `Content-Length` too.
    pub(crate) fn is_contradiction(&self) -> bool {
        let count = self.chunked_requests.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let found = self.contradiction.load(Ordering::Relaxed);
        found == count || found == UNSURE
    }

    /// Counts bytes of a response that wait for the client.
    pub(crate) fn wait_for_reader(&self, bytes: usize) {
        self.unread.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records that the client accepts bytes of responses.
    pub(crate) fn took(&self) {
        self.took.store(true, Ordering::Relaxed);
    }

    /// Subtracts bytes that waited for the client.
    pub(crate) fn release(&self, bytes: usize) {
        self.unread.fetch_sub(bytes, Ordering::Relaxed);
        self.moved.store(true, Ordering::Relaxed);
    }

    fn read(&self, framing: &Framing) {
        self.head.store(framing.open_head(), Ordering::Relaxed);
        self.http2.store(framing.is_http2(), Ordering::Relaxed);
        self.contradiction.store(framing.contradiction(), Ordering::Relaxed);
        if framing.is_tls() {
            self.tls.store(true, Ordering::Relaxed);
        }
    }

    fn wrote(&self, polled: &Poll<io::Result<usize>>) {
        let blocked = polled.is_pending();
        if !blocked {
            self.wrote.store(true, Ordering::Relaxed);
        }
        if self.blocked.load(Ordering::Relaxed) != blocked {
            self.blocked.store(blocked, Ordering::Relaxed);
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

/// Start times of a connection's states, updated at each check: at most one interval late, never early.
#[derive(Debug)]
pub(crate) struct Timeouts {
    idle: Instant,
    head: (u32, Instant),
    blocked: Instant,
    unread: Instant,
}

impl Timeouts {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self { idle: now, head: (0, now), blocked: now, unread: now }
    }

    /// Reports whether a client has exceeded a timeout.
    pub(crate) fn overdue(&mut self, activity: &Activity, limits: &Limits) -> bool {
        let now = Instant::now();
        let (wrote, took) =
            (activity.wrote.swap(false, Ordering::Relaxed), activity.took.swap(false, Ordering::Relaxed));
        let moved = activity.moved.swap(false, Ordering::Relaxed);
        let (http2, blocked) = (activity.http2.load(Ordering::Relaxed), activity.blocked.load(Ordering::Relaxed));
        let unread = activity.unread.load(Ordering::Relaxed) > 0;
        let computing = activity.under_way.load(Ordering::Relaxed) > 0;
        let is_responding = computing || activity.streams.load(Ordering::Relaxed) > 0;
        if wrote || !blocked {
            self.blocked = now;
        }
        // A client that waits for another response does not lose it to one that it does not read.
        if took || !unread || computing {
            self.unread = now;
        }
        let head = activity.head.load(Ordering::Relaxed);
        // While an HTTP/1.1 response is pending, or a socket is full, received bytes may stay unread.
        if head != self.head.0 || blocked || (is_responding && !http2) {
            self.head = (head, now);
        }
        // HTTP/2 writes also when a client only pings.
        if moved || is_responding || blocked || unread || (wrote && !http2) {
            self.idle = now;
        }
        let over = |since: Instant, limit: Duration| now.duration_since(since) > limit;
        over(self.idle, limits.idle_timeout.get())
            || (head != 0 && over(self.head.1, limits.header_timeout.get()))
            || over(self.blocked, limits.write_timeout.get())
            || over(self.unread, limits.write_timeout.get())
    }
}

/// Guard of a running request.
pub(crate) struct ActiveRequest(Arc<Activity>);

impl ActiveRequest {
    /// Ends the request, and returns its connection's activity.
    pub(crate) fn end(self) -> Arc<Activity> {
        Arc::clone(&self.0)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        self.0.responded.store(true, Ordering::Relaxed);
        // Idle time counts from the response, not from the request.
        self.0.moved.store(true, Ordering::Relaxed);
    }
}

/// Guard of a streamed response.
#[derive(Debug)]
pub(crate) struct ActiveStream(Arc<Activity>);

impl Drop for ActiveStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
        self.0.moved.store(true, Ordering::Relaxed);
    }
}

/// A socket that records its reads and writes.
pub(crate) struct WatchedSocket<S> {
    socket: S,
    activity: Arc<Activity>,
    framing: Framing,
}

impl<S> WatchedSocket<S> {
    pub(crate) fn new(socket: S, activity: Arc<Activity>) -> Self {
        Self { socket, activity, framing: Framing::new() }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            let Self { activity, framing, .. } = &mut *self;
            framing.read(&buffer.filled()[before..]);
            activity.read(framing);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WatchedSocket<S> {
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
