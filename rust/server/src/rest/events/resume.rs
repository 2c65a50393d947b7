//! Requests that resume or cancel an event stream.

use super::{reader::StreamReader, respond::streamed};
use crate::{
    body::{Body, Comment, RequestBody, next_chunk},
    rest::{
        error,
        handler::PathParams,
        operation::{GenerateMode, ModelPath, Operation},
        raw::route,
        router::Endpoint,
    },
    state::Context,
    streams::{EventId, Owner, ResumableStream, Token, unknown_stream},
};
use http::{HeaderMap, HeaderName, Method, Response, StatusCode};
use penstock_core::{Error, Kind, Result};
use std::{borrow::Cow, sync::Arc};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Returns the id of the last event that a client has, if the request resumes an event stream of this server: by its
/// method, its path and its header.
pub(crate) fn find(
    context: &Context,
    endpoint: &Endpoint<'_>,
    (method, path, headers): (&Method, &str, &HeaderMap),
) -> Option<EventId> {
    let app = &context.app;
    app.config.stream_resume.get()?;
    let id = headers.get(LAST_EVENT_ID)?.to_str().ok().and_then(EventId::parse)?;
    if ![Method::GET, Method::POST].contains(method) {
        return None;
    }
    let streams = matches!(endpoint, Endpoint::Inference(Operation::Generate(_) | Operation::Plain, _));
    let is_declared = |method| matches!(route::find(app, &method, path), Ok(Some(_)));
    (streams || [Method::POST, Method::GET].into_iter().any(is_declared)).then_some(id)
}

/// Returns the path at which an inference request's stream can be resumed: the same in all spellings.
pub(crate) fn path_of(mode: GenerateMode, path: &ModelPath<'_>) -> String {
    let operation = match mode {
        GenerateMode::Generate => "generate",
        GenerateMode::GenerateStream => "generate_stream",
        GenerateMode::InferStream => "infer_stream",
        GenerateMode::PlainStream => "",
    };
    let version = path.version.as_deref().unwrap_or_default();
    format!("{operation} {version} {}", path.model)
}

/// Answers a request that resumes a stream. Its body is read, and has no meaning.
pub(crate) async fn resume<B: RequestBody>(
    context: &Context,
    id: EventId,
    endpoint: Endpoint<'_>,
    (path, body): (&str, &mut B),
) -> Response<Body> {
    let path = match &endpoint {
        Endpoint::Inference(Operation::Generate(mode), path) => Cow::Owned(path_of(*mode, path)),
        Endpoint::Inference(Operation::Plain, path) => Cow::Owned(path_of(GenerateMode::PlainStream, path)),
        _ => Cow::Borrowed(path),
    };
    match attach(context, id, &path, body).await {
        Ok(response) => response,
        Err(error) => error::response(&context.app, &error),
    }
}

async fn attach<B: RequestBody>(context: &Context, id: EventId, path: &str, body: &mut B) -> Result<Response<Body>> {
    let app = &context.app;
    let _guard = app.enter()?;
    let mut left = app.config.limits.max_body_bytes.get();
    while let Some(chunk) = next_chunk(body).await? {
        let too_large = || Error::new(Kind::TooLarge, "the body exceeds max_body_bytes");
        left = left.checked_sub(chunk.len()).ok_or_else(too_large)?;
    }
    let stream = find_stream(context, id.token).filter(|stream| stream.place.path == path);
    let stream = stream.ok_or_else(unknown_stream)?;
    let attachment = stream.attach(id.number)?;
    let headers = stream.place.headers.clone();
    let reader = StreamReader::new(stream, attachment);
    let body = streamed(reader, app.config.stream_keepalive.get(), Comment::Line, false);
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    Ok(response)
}

/// `DELETE /v2/streams/{stream}`.
pub(crate) fn cancel(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    let token = params.get("stream").and_then(Token::parse);
    let stream = token.and_then(|token| find_stream(context, token)).ok_or_else(unknown_stream)?;
    stream.close();
    context.app.streams.remove(stream.token);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Finds a stream of the request's client, whose key still has its model.
fn find_stream(context: &Context, token: Token) -> Option<Arc<ResumableStream>> {
    let stream = context.app.streams.find(token, &Owner::from(&*context.client))?;
    context.models().sees(&stream.place.model).then_some(stream)
}
