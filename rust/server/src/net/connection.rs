//! One connection: HTTP/1.1 or HTTP/2 by its first bytes, and its
//! timeouts.

use super::{
    activity::{Activity, WatchedSocket},
    connections::{Connections, Signal},
    tracked_body::TrackedBody,
};
use crate::{body::TimedBody, dispatch::Dispatcher, rest, settings::Limits};
use http::{
    HeaderMap, HeaderValue, Version,
    header::{CONNECTION, TRANSFER_ENCODING},
};
use http_body::Body as _;
use hyper::{Request, body::Incoming, rt::Executor, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use penstock_core::Protocol;
use std::{
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    sync::{Arc, atomic::AtomicUsize},
    task::Poll,
};
use tokio::io::{AsyncRead, AsyncWrite};

/// Headers that hyper accepts by default, in a table on its stack. A table of another size is allocated for each
/// request.
const HYPER_MAX_HEADERS: usize = 100;

/// Executor of HTTP/2 streams, each a task. Its future is boxed: tokio moves the future of a task several times.
#[derive(Clone, Debug)]
pub(crate) struct StreamExecutor;

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        tokio::spawn(Box::pin(stream));
    }
}

/// Settings of all connections of an I/O thread.
#[derive(Clone)]
pub(crate) struct ConnectionSettings {
    pub(crate) builder: Arc<Builder<StreamExecutor>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) connections: Arc<Connections>,
    /// Connections with unsent data that their sockets do not accept.
    pub(crate) writing: Arc<AtomicUsize>,
}

/// Serves one connection until it ends, or must close.
pub(crate) async fn serve<S>(socket: S, dispatcher: Arc<Dispatcher>, settings: ConnectionSettings)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ConnectionSettings { builder, limits, connections, writing } = settings;
    let activity = Arc::new(Activity::new(writing));
    let watched = connections.watch(&activity);
    let io = TokioIo::new(WatchedSocket::new(socket, Arc::clone(&activity)));
    let service = service_fn(|request: Request<Incoming>| {
        let (dispatcher, busy) = (Arc::clone(&dispatcher), activity.enter());
        let version = request.version();
        let refused = check_coding(&request, &activity);
        let (head, mut body) = TimedBody::of(request, &limits).into_parts();
        // A block captures its values once; the arguments of an `async fn` would be held twice.
        async move {
            let response = if let Some(message) = refused {
                rest::broken(message)
            } else if dispatcher.is_inference_call(&head) {
                // Calls are boxed: otherwise the future of every request has room for them.
                Box::pin(dispatcher.respond_to_inference_call(&head, &mut body, Protocol::Http)).await
            } else if dispatcher.is_call(&head) {
                Box::pin(dispatcher.respond_to_call(Request::from_parts(head, body), Protocol::Http)).await
            } else {
                dispatcher.respond(&head, &mut body, Protocol::Http).await
            };
            let activity = busy.end();
            let mut response = response.map(|body| TrackedBody::new(body, version, &activity));
            if activity.is_retired() && version < Version::HTTP_2 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    poll_fn(|cx| {
        // A connection that failed has no client to report to.
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match watched.signal(cx) {
            None => Poll::Pending,
            Some(Signal::Retire) => {
                activity.retire();
                if activity.is_http2() {
                    connection.as_mut().graceful_shutdown();
                    return connection.as_mut().poll(cx).map(drop);
                }
                Poll::Pending
            }
            Some(Signal::Finish) => {
                // Otherwise its first response closes it.
                if activity.may_be_closed() {
                    connection.as_mut().graceful_shutdown();
                    return connection.as_mut().poll(cx).map(drop);
                }
                Poll::Pending
            }
            Some(Signal::Close) => Poll::Ready(()),
        }
    })
    .await;
    if activity.is_tls() {
        dispatcher.log_tls_client();
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
pub(crate) fn builder(limits: &Limits) -> Builder<StreamExecutor> {
    let mut builder = Builder::new(StreamExecutor);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None);
    if limits.max_headers > HYPER_MAX_HEADERS {
        // This server's check answers with a JSON body; hyper's limit is a fallback.
        builder.http1().max_headers(limits.max_headers + 64);
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(u32::try_from(limits.max_header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(limits.http2_window)
        .initial_connection_window_size(limits.http2_window.saturating_mul(4))
        .max_frame_size(256 << 10)
        .max_send_buf_size(1 << 20)
        .keep_alive_interval(limits.http2_keepalive)
        .keep_alive_timeout(limits.http2_keepalive_timeout);
    builder
}
