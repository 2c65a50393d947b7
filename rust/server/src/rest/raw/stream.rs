//! Streamed responses of raw-request models.

use super::chunks::{ChunkBytes, ChunkedBody};
use crate::{
    body::Body,
    infer::{RequestScope, Responses, request_headers, response_head},
    rest::events::{self, EventsRequest},
    state::Context,
};
use http::{HeaderMap, HeaderValue, Response};
use penstock_core::{Model, ResponseChunk, Result};
use penstock_wire::DecodedRequest;
use std::sync::Arc;

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Request to a model that streams.
#[derive(Clone, Copy)]
pub(super) struct StreamRequest<'a> {
    pub(super) model: &'a Arc<Model>,
    pub(super) headers: &'a HeaderMap,
    pub(super) path: &'a str,
    pub(super) is_head: bool,
}

/// First chunk of a model, if it has any, and whether an event stream was announced before.
type First = (Option<ResponseChunk>, bool);

/// Streams a response. The first chunk sets the status and the headers; an error before it sets its own status, unless the
/// response is an event stream that has begun with a comment.
pub(super) async fn stream(
    context: &Context,
    request: StreamRequest<'_>,
    mut decoded: DecodedRequest,
    scope: RequestScope,
) -> Result<Response<Body>> {
    let StreamRequest { model, headers, path, is_head } = request;
    if let Some(metadata) = &mut decoded.request.metadata {
        request_headers::describe_client(context, metadata, headers);
    }
    decoded.request.schedule.client = request_headers::client(context, model, headers);
    let mut responses = Responses::start(context, model, decoded, scope)?;
    let events = EventsRequest { context, model, path, is_late: false };
    let (first, is_announced) = match first(context, &mut responses, is_head).await? {
        Some((Some(first), is_announced)) => (first, is_announced),
        Some((None, _)) => return Ok(Response::new(Body::empty())),
        None => {
            let mut head = Response::new(());
            events::set_headers(head.headers_mut(), EVENT_STREAM);
            return Ok(events::respond(EventsRequest { is_late: true, ..events }, head, ChunkedBody::late(responses)));
        }
    };
    let head = first.response.head.unwrap_or_default();
    responses.set_status(head.status);
    let mut http_response = response_head::to_response(&context.app, responses.model(), &head)
        .inspect_err(|error| responses.fail(error))?;
    if is_announced && head.status < 400 {
        events::set_headers(http_response.headers_mut(), EVENT_STREAM);
    }
    if first.last {
        responses.leave();
        return Ok(http_response);
    }
    let (mut parts, mut body) = http_response.into_parts();
    if is_head {
        responses.leave();
        return Ok(Response::from_parts(parts, Body::Streamed(axum::body::Body::new(ChunkedBody::none()))));
    }
    let first_chunk = body.take_chunks().unwrap_or_default();
    // Proxies shall forward each chunk at once.
    parts.headers.entry("x-accel-buffering").or_insert(HeaderValue::from_static("no"));
    let bytes = first_chunk.into_iter().next().unwrap_or_default();
    let is_event_stream = head.status < 400 && events::is_event_stream(&parts.headers);
    let body = ChunkedBody::new(responses, ChunkBytes { bytes, splice: head.splice });
    Ok(match is_event_stream {
        true => events::respond(events, Response::from_parts(parts, ()), body),
        false => Response::from_parts(parts, Body::Streamed(axum::body::Body::new(body))),
    })
}

/// Returns the first chunk; `None` if it has not come within the time of `stream_keepalive` after the announcement.
async fn first(context: &Context, responses: &mut Responses, is_head: bool) -> Result<Option<First>> {
    let mut is_announced = false;
    loop {
        let interval = context.app.config.stream_keepalive.get().filter(|_| is_announced && !is_head);
        let Some(next) = responses.next_within(interval).await else { return Ok(None) };
        match next.transpose()? {
            Some(chunk) if chunk.response.announces_events() => is_announced = true,
            first => return Ok(Some((first, is_announced))),
        }
    }
}
