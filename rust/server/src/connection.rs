//! One connection from its acceptance to its end: HTTP/1.1 or HTTP/2 by its first bytes, and the
//! timeouts on silent clients.

use crate::{
    activity::{Activity, ReadBody, Watched},
    config::Limits,
    front::Front,
};
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use penstock_core::Protocol;
use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
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

/// What all connections of an I/O thread share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) builder: Arc<Builder<TokioExecutor>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) order: watch::Receiver<Order>,
    /// Connections that have more to send than their sockets take.
    pub(crate) writing: Arc<AtomicUsize>,
}

/// Serves one connection until it ends, or is to end.
pub(crate) async fn serve<S>(socket: S, front: Front, shared: Shared)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Shared { builder, limits, mut order, writing } = shared;
    let activity = Arc::new(Activity::new(writing));
    let io = TokioIo::new(Watched { socket, activity: Arc::clone(&activity) });
    let service = service_fn(|request: Request<Incoming>| {
        let (front, busy) = (front.clone(), activity.enter());
        let request = request.map(|body| ReadBody::new(body, Arc::clone(&activity)));
        let activity = Arc::clone(&activity);
        async move {
            let response = front.handle(request, Protocol::Http).await;
            drop(busy);
            Ok::<_, Infallible>(response.map(|body| body.on(&activity)))
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
                        // Otherwise its first answer closes it.
                        if activity.may_be_closed() {
                            connection.as_mut().graceful_shutdown();
                        }
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
