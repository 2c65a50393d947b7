//! Bare axum.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::DefaultBodyLimit,
    http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::post,
    serve::ListenerExt,
};
use penstock_bench_tools::raw::STREAM_MESSAGES;
use std::{convert::Infallible, io, net::Ipv4Addr};
use tokio::net::TcpListener;

const HEADER_LENGTH: HeaderName = HeaderName::from_static("inference-header-content-length");

/// An event as long as those of the compared models.
const EVENT: &[u8] = b"data: {\"model_name\":\"tokens\",\"model_version\":\"1\",\"i\":1234}\n\n";

/// The responses: `binary` to requests with a header length, `json` to all others.
#[derive(Clone)]
pub(crate) struct Answers {
    pub(crate) json: Bytes,
    pub(crate) binary: Bytes,
}

pub(crate) async fn serve(port: u16, answers: Answers) -> io::Result<()> {
    let answer = move |headers: HeaderMap, body: Bytes| {
        // The body is read to its end and not parsed.
        drop(body);
        let binary = headers.contains_key(HEADER_LENGTH);
        let (kind, answer) = if binary {
            ("application/octet-stream", answers.binary.clone())
        } else {
            ("application/json", answers.json.clone())
        };
        async move { ([(CONTENT_TYPE, HeaderValue::from_static(kind))], answer).into_response() }
    };
    let events = || async {
        let event = || Ok::<_, Infallible>(Bytes::from_static(EVENT));
        let events = Body::from_stream(tokio_stream::iter((0..STREAM_MESSAGES).map(move |_| event())));
        ([(CONTENT_TYPE, "text/event-stream")], events)
    };
    let routes = Router::new().route("/stream", post(events)).fallback(answer).layer(DefaultBodyLimit::disable());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let listener = listener.tap_io(|stream| {
        // Without it small responses wait for acknowledgements; a failure shows in the numbers.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, routes).await
}
