//! The server as a whole: liveness, readiness, metadata and metrics.

use crate::{
    body::Body,
    rest::{error, handler::PathParams},
    settings::Config,
    state::Context,
};
use bytes::Bytes;
use http::{HeaderValue, Response, header::CONTENT_TYPE};
use penstock_core::Result;
use penstock_wire::rest::metadata as wire;

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

/// `GET /`: liveness of KServe's V1 protocol.
pub(crate) fn alive(_: &Context, _: &PathParams) -> Result<Response<Body>> {
    Ok(error::json(200, wire::alive()))
}

/// `GET /metrics`.
pub(crate) fn metrics(context: &Context, _: &PathParams) -> Result<Response<Body>> {
    let mut response = Response::new(Body::from(Bytes::from(context.app.exposition())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
    Ok(response)
}
