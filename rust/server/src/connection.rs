//! One connection from its acceptance to its end: HTTP/1.1 or HTTP/2 by its first bytes, and the
//! timeouts on silent clients.

use crate::{config::Limits, front::Front};
use bytes::Bytes;
use hyper::{
    Request,
    body::{Body, Frame, Incoming, SizeHint},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use penstock_core::Protocol;
use std::{
    convert::Infallible,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::sleep,
};

/// How often a connection's timeouts are looked at; they are that coarse.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the server as a whole wants of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Go on.
    Serve,
    /// Finish what is under way, then close.
    Finish,
    /// Close.
    Close,
}

/// Serves one connection until it ends, or is to end.
pub(crate) async fn serve<S>(
    socket: S,
    front: Front,
    builder: Arc<Builder<TokioExecutor>>,
    limits: Limits,
    mut order: watch::Receiver<Order>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = Arc::new(Activity::new());
    let io = TokioIo::new(Watched { socket, activity: Arc::clone(&activity) });
    let service = service_fn(|request: Request<Incoming>| {
        let (front, busy) = (front.clone(), activity.enter());
        let request = request.map(|body| ReadBody::new(body, Arc::clone(&activity)));
        async move {
            let response = front.handle(request, Protocol::Http).await;
            drop(busy);
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    // Opened while the server drains: its first answer closes it.
    let mut finishing = *order.borrow_and_update() != Order::Serve;
    loop {
        tokio::select! {
            biased;
            // A connection that failed has nobody left to tell.
            _ = connection.as_mut() => return,
            () = sleep(LOOK_EVERY) => {
                if activity.overdue(&limits) {
                    return;
                }
            }
            changed = order.changed() => {
                let wanted = if changed.is_err() { Order::Close } else { *order.borrow_and_update() };
                match wanted {
                    Order::Serve => {}
                    Order::Finish if finishing => {}
                    Order::Finish => {
                        finishing = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    Order::Close => return,
                }
            }
        }
    }
}

/// The protocol settings that all connections share.
pub(crate) fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Our own checks answer with a JSON body; hyper's bound is only behind them.
    builder.http1().max_headers(limits.headers + 64).timer(TokioTimer::new()).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(limits.http2_window)
        .initial_connection_window_size(limits.http2_window.saturating_mul(4))
        .max_frame_size(256 << 10)
        .max_send_buf_size(1 << 20);
    builder
}

/// When a connection was last heard of, in milliseconds since it was opened.
#[derive(Debug)]
struct Activity {
    opened: Instant,
    last_read_ms: AtomicU64,
    /// When the bytes since the last request began to come.
    head_since_ms: AtomicU64,
    head_open: AtomicBool,
    under_way: AtomicU32,
    bodies_open: AtomicU32,
    /// HTTP/2 has frames of its own between requests, so bytes do not mean that a head has begun.
    http2: AtomicBool,
}

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            last_read_ms: AtomicU64::new(0),
            head_since_ms: AtomicU64::new(0),
            head_open: AtomicBool::new(false),
            under_way: AtomicU32::new(0),
            bodies_open: AtomicU32::new(0),
            http2: AtomicBool::new(false),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn read(&self, bytes: &[u8]) {
        let now_ms = self.now_ms();
        if self.last_read_ms.load(Ordering::Relaxed) == 0 && bytes.starts_with(b"PRI") {
            self.http2.store(true, Ordering::Relaxed);
        }
        self.last_read_ms.store(now_ms, Ordering::Relaxed);
        if self.under_way.load(Ordering::Relaxed) == 0 && !self.head_open.swap(true, Ordering::Relaxed) {
            self.head_since_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    fn enter(self: &Arc<Self>) -> Busy {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        self.head_open.store(false, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }

    /// Whether a client has been silent, or slow, for longer than it may.
    fn overdue(&self, limits: &Limits) -> bool {
        let since =
            |at_ms: &AtomicU64| Duration::from_millis(self.now_ms().saturating_sub(at_ms.load(Ordering::Relaxed)));
        if self.under_way.load(Ordering::Relaxed) > 0 {
            return self.bodies_open.load(Ordering::Relaxed) > 0 && since(&self.last_read_ms) > limits.body_timeout;
        }
        let head_open = self.head_open.load(Ordering::Relaxed) && !self.http2.load(Ordering::Relaxed);
        if head_open && since(&self.head_since_ms) > limits.header_timeout {
            return true;
        }
        since(&self.last_read_ms) > limits.idle_timeout
    }
}

/// A request under way on a connection.
struct Busy(Arc<Activity>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
        // The next idle time counts from the answer, not from the request.
        self.0.last_read_ms.store(self.0.now_ms(), Ordering::Relaxed);
    }
}

/// A request's body that is known to be open until it is read or dropped.
struct ReadBody {
    body: Incoming,
    activity: Arc<Activity>,
    open: bool,
}

impl ReadBody {
    fn new(body: Incoming, activity: Arc<Activity>) -> Self {
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

/// A socket whose reads are noted.
struct Watched<S> {
    socket: S,
    activity: Arc<Activity>,
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
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, buffers)
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
