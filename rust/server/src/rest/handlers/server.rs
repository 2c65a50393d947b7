//! The server as a whole: liveness, readiness, metadata and metrics.

use crate::{
    body::Body,
    rest::{error, handler::PathParams},
    settings::Config,
    state::Context,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, LOCATION, VARY},
};
use penstock_core::Result;
use penstock_wire::rest::{media_ranges, metadata as wire, to_prometheus_text};

/// Media type of the metrics for clients that accept OpenMetrics.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Media type of the metrics for all others.
pub(crate) const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /v2`.
pub(crate) fn metadata(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    let Config { server_name, server_version, .. } = &context.app.config;
    Ok(error::json(200, wire::server(server_name, server_version, &context.extensions())))
}

/// `GET /v2/health/live`: 503 with the reason while work has stalled.
pub(crate) fn live(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    let reason = context.app.liveness.stalled();
    Ok(error::json(if reason.is_none() { 200 } else { 503 }, wire::live(reason.as_deref())))
}

/// `GET /v2/health/ready`: 503 with the reason while the server starts or drains, or its work may have stalled.
pub(crate) fn ready(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    let reason = context.app.unready_reason();
    let live = context.app.liveness.stalled().is_none();
    Ok(error::json(if reason.is_none() { 200 } else { 503 }, wire::ready(reason.as_deref(), live)))
}

/// `GET /`: liveness of KServe's V1 protocol; browsers are sent to the page at `/docs`.
pub(crate) fn root(context: &Context, headers: &HeaderMap) -> Result<Response<Body>> {
    if let Some(reason) = context.app.liveness.stalled() {
        return Ok(error::json(503, wire::live(Some(&reason))));
    }
    let mut response = error::json(200, wire::alive());
    if !context.app.config.docs {
        return Ok(response);
    }
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if media_ranges(accept).first() == Some(&"text/html") {
        *response.status_mut() = StatusCode::FOUND;
        // Relative: a proxy may serve this at a longer path.
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("docs"));
    }
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// `GET /metrics`: OpenMetrics for clients that accept it, else Prometheus' text format.
pub(crate) fn metrics(context: &Context, headers: &HeaderMap) -> Result<Response<Body>> {
    let text = context.app.exposition();
    let (text, media_type) = match accepts_openmetrics(headers) {
        true => (text, OPENMETRICS),
        false => (to_prometheus_text(&text), PROMETHEUS_TEXT),
    };
    let mut response = Response::new(Body::from(Bytes::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Reports whether OpenMetrics is named, and no less preferred than Prometheus' text format.
fn accepts_openmetrics(headers: &HeaderMap) -> bool {
    let given: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let preferred = media_ranges(&given.join(",")).into_iter().find_map(|range| match range {
        _ if range.eq_ignore_ascii_case("application/openmetrics-text") => Some(true),
        _ if range.eq_ignore_ascii_case("text/plain") => Some(false),
        "text/*" | "*/*" => Some(false),
        _ => None,
    });
    preferred.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_clients_that_name_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, expected) in [
            (None, false),
            (Some("*/*"), false),
            (Some("text/plain"), false),
            (Some("text/plain;version=0.0.4;q=1,*/*;q=0.1"), false),
            (Some("application/json"), false),
            (Some("\u{e9}"), false),
            (Some(prometheus), true),
            (Some("Application/OpenMetrics-Text"), true),
            (Some("application/openmetrics-text;q=0, */*"), false),
            (Some("application/openmetrics-text;q=0.2, text/plain;q=0.8"), false),
        ] {
            let values = accept.and_then(|accept| HeaderValue::from_bytes(accept.as_bytes()).ok());
            let headers = values.into_iter().map(|value| (ACCEPT, value)).collect();
            assert_eq!(accepts_openmetrics(&headers), expected, "{accept:?}");
        }
    }
}
