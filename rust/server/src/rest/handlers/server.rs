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
use penstock_wire::rest::{media_ranges, metadata as wire};

/// Media type of the metrics.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /v2`.
pub(crate) fn metadata(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    let Config { server_name, server_version, .. } = &context.app.config;
    Ok(error::json(200, wire::server(server_name, server_version, &context.extensions())))
}

/// `GET /v2/health/live`.
pub(crate) fn live(_: &Context, _: &PathParams) -> Result<Response<Body>> {
    Ok(error::json(200, wire::live(true)))
}

/// `GET /v2/health/ready`: 503 with the reason while the server starts or drains.
pub(crate) fn ready(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    let reason = context.app.not_ready_reason();
    Ok(error::json(if reason.is_none() { 200 } else { 503 }, wire::ready(reason)))
}

/// `GET /`: liveness of KServe's V1 protocol; browsers are sent to the page at `/docs`.
pub(crate) fn root(context: &Context, headers: &HeaderMap) -> Result<Response<Body>> {
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

/// `GET /metrics`.
pub(crate) fn metrics(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    let mut response = Response::new(Body::from(Bytes::from(context.app.exposition())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
    Ok(response)
}
