//! CloudEvents around an inference request and its response.

use super::{infer::Inference, protocols};
use crate::{
    body::{Body, RequestBody, offload},
    infer::RequestTelemetry,
    rest::{codec::receive::receive_whole, error, operation::Operation},
    settings::CloudEvents,
    state::Context,
};
use bytes::Bytes;
use chrono::{DateTime, SecondsFormat, Utc};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Full};
use penstock_core::{Error, Kind, Result};
use penstock_wire::rest::cloud_event::{Event, REQUIRED, ResponseAttributes, STRUCTURED};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};
use std::time::SystemTime;
use uuid::Uuid;

const PREFIX: &str = "ce-";

/// Characters that are escaped in a header's value.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Mode of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Binary,
    Structured,
}

impl Mode {
    /// The mode of a request; `None` if it is not an event. Responses in the form of generate are not sent as events.
    pub(crate) fn of(operation: Operation, headers: &HeaderMap) -> Option<Self> {
        if matches!(operation, Operation::Generate(_)) {
            return None;
        }
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(STRUCTURED) {
            return Some(Self::Structured);
        }
        REQUIRED.iter().any(|name| headers.contains_key(format!("{PREFIX}{name}"))).then_some(Self::Binary)
    }
}

/// Answers an inference request that is an event.
pub(crate) async fn respond<B: RequestBody>(
    context: &Context,
    operation: Operation,
    request: Inference<'_, B>,
    (settings, mode): (&CloudEvents, Mode),
) -> Response<Body> {
    let telemetry = RequestTelemetry::start(context, request.protocol);
    let result = match mode {
        Mode::Binary => binary(context, operation, request, settings).await,
        Mode::Structured => structured(context, operation, request, settings).await,
    };
    result.unwrap_or_else(|error| {
        let response = error::response(&context.app, &error);
        telemetry.failed(None, "", response.status().as_u16().into(), &error);
        response
    })
}

async fn binary<B: RequestBody>(
    context: &Context,
    operation: Operation,
    request: Inference<'_, B>,
    settings: &CloudEvents,
) -> Result<Response<Body>> {
    let attributes = request.headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(PREFIX)?;
        Some((name.to_owned(), percent_decode(value.as_bytes()).decode_utf8_lossy().into_owned()))
    });
    let event = Event::binary(attributes)?;
    let model = request.path.model.clone().into_owned();
    let mut response = protocols::respond(context, operation, request).await;
    if response.status() == StatusCode::OK {
        put(response.headers_mut(), &response_event(&event, settings, &model));
    }
    Ok(response)
}

async fn structured<B: RequestBody>(
    context: &Context,
    operation: Operation,
    request: Inference<'_, B>,
    settings: &CloudEvents,
) -> Result<Response<Body>> {
    let Inference { path, query, headers, body, protocol } = request;
    let app = &context.app;
    let mut guard = app.enter_sequence()?;
    let json = receive_whole(headers, body, &app.config.limits, guard.memory()).await?;
    let limits = app.config.decode_limits();
    let (event, data) = offload::run(json.len(), move || Event::structured(&json, &limits)).await?;
    drop(guard);
    let mut headers = headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The body is inflated already, and the event is compressed as a whole.
    headers.remove(CONTENT_ENCODING);
    headers.remove(ACCEPT_ENCODING);
    // The handler finds the attributes in the headers of a binary event.
    put(&mut headers, &event);
    let model = path.model.clone().into_owned();
    let request = Inference { path, query, headers: &headers, body: Full::new(data), protocol };
    let (mut head, body) = protocols::respond(context, operation, request).await.into_parts();
    if head.status != StatusCode::OK {
        return Ok(Response::from_parts(head, body));
    }
    let data =
        body.collect().await.map_err(|_| Error::new(Kind::Internal, "the response body cannot be read"))?.to_bytes();
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
    let text = response_event(&event, settings, &model).write(kind, &data);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(STRUCTURED));
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(head, Body::from(Bytes::from(text))))
}

/// Builds the event of a response.
fn response_event(event: &Event, settings: &CloudEvents, model: &str) -> Event {
    let source = settings.source.clone().unwrap_or_else(|| format!("io.kserve.inference.{model}"));
    let kind = settings.kind.as_deref().unwrap_or("io.kserve.inference.response");
    let (id, time) = (Uuid::new_v4().to_string(), timestamp(SystemTime::now()));
    let fresh = ResponseAttributes { id: &id, time: &time, source: &source, kind };
    event.answer(settings.merge, fresh)
}

/// Writes an event's attributes as headers.
fn put(headers: &mut HeaderMap, event: &Event) {
    for (name, value) in event.attributes() {
        let name = HeaderName::try_from(format!("{PREFIX}{name}"));
        let value = HeaderValue::try_from(utf8_percent_encode(value, ENCODED).to_string());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
}

/// Formats a time as RFC 3339 in UTC, with microseconds.
fn timestamp(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Micros, true)
}

#[cfg(test)]
mod tests {
    use super::timestamp;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn times_are_rfc_3339() {
        let text = |seconds, micros: u32| timestamp(UNIX_EPOCH + Duration::new(seconds, micros * 1000));
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(951_782_400, 5), "2000-02-29T00:00:00.000005Z");
        assert_eq!(text(4_107_542_399, 999_999), "2100-02-28T23:59:59.999999Z");
        assert_eq!(text(1_798_761_599, 0), "2026-12-31T23:59:59.000000Z");
    }

    #[test]
    fn event_ids_are_distinct_random_uuids() {
        let ids: std::collections::HashSet<String> = (0..1000).map(|_| uuid::Uuid::new_v4().to_string()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            let parts: Vec<&str> = id.split('-').collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
            assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        }
    }
}
