//! Response with an event stream.

use super::{driver::Driver, reader::StreamReader};
use crate::{
    body::{Body, Comment, KeepAlive},
    state::Context,
    streams::{Attachment, Owner, ResumableStream, StreamPlace, Token},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body::Body as HttpBody;
use penstock_core::Model;
use std::{sync::Arc, time::Duration};

/// Header with the token of a resumable stream.
const STREAM_ID: HeaderName = HeaderName::from_static("x-stream-id");

/// Request that an event stream answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventsRequest<'a> {
    pub(crate) context: &'a Context,
    pub(crate) model: &'a Arc<Model>,
    /// Path, as [`super::find`] sees it.
    pub(crate) path: &'a str,
    /// Set for a stream whose first event is late: the response begins with a comment.
    pub(crate) is_late: bool,
}

/// Sets the headers of an event stream, of this content type.
pub(crate) fn set_headers(headers: &mut HeaderMap, kind: HeaderValue) {
    headers.insert(CONTENT_TYPE, kind);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    // Proxies shall forward each event at once.
    headers.entry("x-accel-buffering").or_insert(HeaderValue::from_static("no"));
}

/// Reports whether headers are those of an event stream.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Adds what the settings have for event streams: comments, resumption. Without either, the body is sent as it is.
pub(crate) fn respond<B>(request: EventsRequest<'_>, response: Response<()>, body: B) -> Response<Body>
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let EventsRequest { context, is_late, .. } = request;
    let interval = context.app.config.stream_keepalive.get();
    let (mut head, ()) = response.into_parts();
    let body = match resumable(request, &mut head.headers) {
        None => streamed(body, interval, Comment::Block, is_late),
        Some((stream, attachment)) => {
            tokio::spawn(Driver::new(&context.app, &stream, body));
            streamed(StreamReader::new(stream, attachment), interval, Comment::Line, is_late)
        }
    };
    Response::from_parts(head, body)
}

/// Creates a stream that can be resumed, with its header; `None` where it cannot.
fn resumable(request: EventsRequest<'_>, headers: &mut HeaderMap) -> Option<(Arc<ResumableStream>, Attachment)> {
    let EventsRequest { context, model, path, .. } = request;
    let app = &context.app;
    // A call in this process cannot lose its connection.
    context.completions.as_ref()?;
    let (keep, token) = (app.config.stream_resume.get()?, Token::random()?);
    let id = HeaderValue::try_from(token.to_string()).ok()?;
    let mut own = headers.clone();
    own.insert(STREAM_ID, id.clone());
    let place = StreamPlace {
        path: path.to_owned(),
        model: Arc::clone(&model.spec().name),
        owner: Owner::from(&*context.client),
        headers: own,
        keep,
    };
    let (stream, attachment) = ResumableStream::new(token, place, &app.metrics);
    if !app.streams.add(&stream) {
        return None;
    }
    headers.insert(STREAM_ID, id);
    Some((stream, attachment))
}

/// Returns a body, with comments if there is an interval.
pub(super) fn streamed<B>(body: B, interval: Option<Duration>, comment: Comment, is_late: bool) -> Body
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    let Some(interval) = interval else { return Body::Streamed(axum::body::Body::new(body)) };
    let body = KeepAlive::new(body, interval, comment);
    Body::Streamed(axum::body::Body::new(if is_late { body.due() } else { body }))
}
