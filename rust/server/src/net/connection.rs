//! One connection: HTTP/1.1 or HTTP/2 by its first bytes, and its
//! timeouts.

use super::{
    activity::{Activity, Timeouts, WatchedSocket},
    tracked_body::TrackedBody,
};
use crate::{body::TimedBody, dispatch::Dispatcher, rest, settings::Limits};
use http::{HeaderMap, Version, header::TRANSFER_ENCODING};
use http_body::Body as _;
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

/// Interval between two checks of a connection's timeouts.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Phase that the server sets for all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// Serve requests.
    Serve,
    /// Finish running requests, then close.
    Drain,
    /// Close at once.
    Close,
}

/// Settings of all connections of an I/O thread.
#[derive(Clone)]
pub(crate) struct ConnectionSettings {
    pub(crate) builder: Arc<Builder<TokioExecutor>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) lifecycle: watch::Receiver<Lifecycle>,
    /// Connections with unsent data that their sockets do not accept.
    pub(crate) writing: Arc<AtomicUsize>,
}

/// Serves one connection until it ends, or must close.
pub(crate) async fn serve<S>(socket: S, dispatcher: Dispatcher, settings: ConnectionSettings)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ConnectionSettings { builder, limits, mut lifecycle, writing } = settings;
    let activity = Arc::new(Activity::new(writing));
    let io = TokioIo::new(WatchedSocket::new(socket, Arc::clone(&activity)));
    let service = service_fn(|request: Request<Incoming>| {
        let (dispatcher, busy) = (dispatcher.clone(), activity.enter());
        let version = request.version();
        let refused = check_coding(&request, &activity);
        let request = TimedBody::of(request, &limits);
        let activity = Arc::clone(&activity);
        async move {
            let response = match refused {
                Some(message) => rest::broken(message),
                None => dispatcher.handle(request, Protocol::Http).await,
            };
            drop(busy);
            Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, version, &activity)))
        }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut timeouts = Timeouts::new();
    // Opened while the server drains: its first response closes it.
    let mut finishing = *lifecycle.borrow_and_update() != Lifecycle::Serve;
    loop {
        tokio::select! {
            biased;
            // A connection that failed has no client to report to.
            _ = connection.as_mut() => return,
            () = sleep(CHECK_INTERVAL) => {
                if timeouts.overdue(&activity, &limits) {
                    return;
                }
            }
            changed = lifecycle.changed() => {
                let wanted = if changed.is_err() { Lifecycle::Close } else { *lifecycle.borrow_and_update() };
                match wanted {
                    Lifecycle::Serve => {}
                    Lifecycle::Drain if finishing => {}
                    Lifecycle::Drain => {
                        finishing = true;
                        // Otherwise its first response closes it.
                        if activity.may_be_closed() {
                            connection.as_mut().graceful_shutdown();
                        }
                    }
                    Lifecycle::Close => return,
                }
            }
        }
    }
}

/// Returns the reason to refuse a body whose end another server could see elsewhere. Only chunked bodies are
/// checked.
fn check_coding(request: &Request<Incoming>, activity: &Activity) -> Option<String> {
    if request.version() == Version::HTTP_2 || request.body().size_hint().exact().is_some() {
        return None;
    }
    if activity.is_contradiction() {
        let both = "the request has the headers Transfer-Encoding and Content-Length, expected one of them";
        return Some(both.to_owned());
    }
    coding(request.headers()).map(|other| format!("the transfer encoding is {other:?}, expected \"chunked\""))
}

/// Returns a transfer coding other than `chunked`.
fn coding(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = values.next().is_none_or(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if chunked && values.next().is_none() {
        return None;
    }
    let all = headers.get_all(TRANSFER_ENCODING).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    Some(all.collect::<Vec<_>>().join(", "))
}

/// Builds the protocol settings of all connections.
pub(crate) fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // This server's checks answer with a JSON body; hyper's limit is a fallback.
    builder.http1().max_headers(limits.max_headers + 64).timer(TokioTimer::new()).header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(limits.http2_window)
        .initial_connection_window_size(limits.http2_window.saturating_mul(4))
        .max_frame_size(256 << 10)
        .max_send_buf_size(1 << 20);
    builder
}
