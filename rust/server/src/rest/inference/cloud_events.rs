//! CloudEvents around an inference request and its answer.

use super::{
    infer::{Inference, infer},
    v1::{self, Verb},
};
use crate::{
    body::{Body, Incoming, offload},
    infer::Observed,
    rest::{
        codec::receive::{receive_whole, wire_limits},
        error,
    },
    settings::CloudEvents,
    state::Context,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Full};
use penstock_core::{Error, Kind, Result};
use penstock_wire::rest::cloud_event::{Event, REQUIRED, ResponseAttributes, STRUCTURED};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode, utf8_percent_encode};
use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher as _,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

const PREFIX: &str = "ce-";

/// What a header's value cannot hold as it is.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// How an event travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Binary,
    Structured,
}

impl Mode {
    /// The mode of a request; `None` if it is no event.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(STRUCTURED) {
            return Some(Self::Structured);
        }
        REQUIRED.iter().any(|name| headers.contains_key(format!("{PREFIX}{name}"))).then_some(Self::Binary)
    }
}

/// Answers an inference request of either protocol, as an event if it is one and events are on.
pub(crate) async fn answer<B: Incoming>(
    context: &Context,
    verb: Option<Verb>,
    request: Inference<'_, B>,
) -> Response<Body> {
    let settings = context.app.config.cloud_events.as_ref();
    match settings.and_then(|settings| Some((settings, Mode::of(request.headers)?))) {
        None => direct(context, verb, request).await,
        Some((settings, mode)) => Box::pin(event(context, verb, request, (settings, mode))).await,
    }
}

async fn event<B: Incoming>(
    context: &Context,
    verb: Option<Verb>,
    request: Inference<'_, B>,
    (settings, mode): (&CloudEvents, Mode),
) -> Response<Body> {
    let observed = Observed::start(&context.app, request.protocol);
    let answered = match mode {
        Mode::Binary => binary(context, verb, request, settings).await,
        Mode::Structured => structured(context, verb, request, settings).await,
    };
    answered.unwrap_or_else(|error| {
        let response = error::response(&context.app, &error);
        observed.failed(None, "", response.status().as_u16().into(), &error);
        response
    })
}

async fn direct<B: Incoming>(context: &Context, verb: Option<Verb>, request: Inference<'_, B>) -> Response<Body> {
    match verb {
        None => infer(context, request).await,
        Some(verb) => Box::pin(v1::call(context, verb, request)).await,
    }
}

async fn binary<B: Incoming>(
    context: &Context,
    verb: Option<Verb>,
    request: Inference<'_, B>,
    settings: &CloudEvents,
) -> Result<Response<Body>> {
    let attributes = request.headers.iter().filter_map(|(name, value)| {
        let name = name.as_str().strip_prefix(PREFIX)?;
        Some((name.to_owned(), percent_decode(value.as_bytes()).decode_utf8_lossy().into_owned()))
    });
    let event = Event::binary(attributes)?;
    let model = request.path.model.clone().into_owned();
    let mut response = direct(context, verb, request).await;
    if response.status() == StatusCode::OK {
        put(response.headers_mut(), &answering(&event, settings, &model));
    }
    Ok(response)
}

async fn structured<B: Incoming>(
    context: &Context,
    verb: Option<Verb>,
    request: Inference<'_, B>,
    settings: &CloudEvents,
) -> Result<Response<Body>> {
    let Inference { path, query, headers, body, protocol } = request;
    let app = &context.app;
    let mut guard = app.enter_sequence()?;
    let json = receive_whole(headers, body, &app.config.limits, guard.held()).await?;
    let limits = wire_limits(&app.config.limits);
    let (event, data) = offload::run(json.len(), move || Event::structured(&json, &limits)).await?;
    drop(guard);
    let mut headers = headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The body is inflated already, and an answer is compressed only around the event.
    headers.remove(CONTENT_ENCODING);
    headers.remove(ACCEPT_ENCODING);
    // The handler finds the attributes where a binary event has them.
    put(&mut headers, &event);
    let model = path.model.clone().into_owned();
    let request = Inference { path, query, headers: &headers, body: Full::new(data), protocol };
    let (mut head, body) = direct(context, verb, request).await.into_parts();
    if head.status != StatusCode::OK {
        return Ok(Response::from_parts(head, body));
    }
    let data =
        body.collect().await.map_err(|_| Error::new(Kind::Internal, "an answer that cannot be read"))?.to_bytes();
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
    let text = answering(&event, settings, &model).write(kind, &data);
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(STRUCTURED));
    head.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(head, Body::from(Bytes::from(text))))
}

/// The event of an answer.
fn answering(event: &Event, settings: &CloudEvents, model: &str) -> Event {
    let source = settings.source.clone().unwrap_or_else(|| format!("io.kserve.inference.{model}"));
    let kind = settings.kind.as_deref().unwrap_or("io.kserve.inference.response");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fresh = ResponseAttributes {
        id: &new_id(),
        time: &timestamp(since.as_secs(), since.subsec_micros()),
        source: &source,
        kind,
    };
    event.answer(settings.merge, fresh)
}

/// Puts an event's attributes into headers.
fn put(headers: &mut HeaderMap, event: &Event) {
    for (name, value) in event.attributes() {
        let name = HeaderName::try_from(format!("{PREFIX}{name}"));
        let value = HeaderValue::try_from(utf8_percent_encode(value, ENCODED).to_string());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
}

/// A random UUID. It need not be secret, only new.
fn new_id() -> String {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = KEYS.each_ref().map(|key| key.hash_one(next));
    let high = high & !0xF000 | 0x4000;
    let low = low & !(0xC << 60) | 0x8 << 60;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
}

/// A time of the Unix clock as RFC 3339 has it, in UTC.
fn timestamp(seconds: u64, micros: u32) -> String {
    let (days, second) = (seconds / 86400, seconds % 86400);
    // Counted from 0000-03-01, so that a leap day is the last of its year.
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    format!(
        "{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::{new_id, timestamp};

    #[test]
    fn times_are_dates_of_the_calendar() {
        assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(timestamp(951_782_400, 5), "2000-02-29T00:00:00.000005Z");
        assert_eq!(timestamp(4_107_542_399, 999_999), "2100-02-28T23:59:59.999999Z");
        assert_eq!(timestamp(1_798_761_599, 0), "2026-12-31T23:59:59.000000Z");
    }

    #[test]
    fn ids_are_new_and_have_the_form_of_a_random_uuid() {
        let ids: std::collections::HashSet<String> = (0..1000).map(|_| new_id()).collect();
        assert_eq!(ids.len(), 1000);
        for id in ids {
            let parts: Vec<&str> = id.split('-').collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
            assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
        }
    }
}
