//! All REST routes but inference itself, which [`crate::front`] takes before this router.

use super::error;
use crate::{
    body::Body,
    rest::{
        handlers::{batching, docs, repository, settings, shared_memory, statistics},
        inference::v1,
    },
    settings::Config,
    state::{Context, Phase},
};
use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use penstock_core::{Model, Result};
use penstock_wire::rest::metadata;
use std::sync::Arc;

/// The router of one I/O thread.
pub(crate) fn router(context: Context) -> Router {
    Router::new()
        .route("/v2", get(server))
        .route("/v2/", get(server))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models", get(models))
        .route("/v2/models/{model}", get(model))
        .route("/v2/models/{model}/ready", get(model_ready))
        .route("/v2/models/{model}/config", get(config))
        .route("/v2/models/{model}/infer", post(unreachable))
        .route("/v2/models/{model}/generate", post(unreachable))
        .route("/v2/models/{model}/generate_stream", post(unreachable))
        .route("/v2/models/{model}/infer_stream", post(unreachable))
        .route("/v2/models/{model}/versions/{version}", get(model))
        .route("/v2/models/{model}/versions/{version}/ready", get(model_ready))
        .route("/v2/models/{model}/versions/{version}/config", get(config))
        .route("/v2/models/{model}/versions/{version}/infer", post(unreachable))
        .route("/v2/models/{model}/versions/{version}/generate", post(unreachable))
        .route("/v2/models/{model}/versions/{version}/generate_stream", post(unreachable))
        .route("/v2/models/{model}/versions/{version}/infer_stream", post(unreachable))
        .route("/metrics", get(metrics))
        .merge(settings::routes())
        .merge(statistics::routes())
        .merge(v1::routes())
        .merge(docs::routes(&context.app.config))
        .merge(repository::routes())
        .merge(batching::routes())
        .merge(shared_memory::routes())
        .fallback(|| async { into_axum(error::not_found()) })
        .method_not_allowed_fallback(|| async { into_axum(error::method_not_allowed()) })
        .with_state(context)
}

/// The router of a listener that serves metrics and nothing else.
pub(crate) fn metrics_router(context: Context) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(|| async { into_axum(error::not_found()) })
        .method_not_allowed_fallback(|| async { into_axum(error::method_not_allowed()) })
        .with_state(context)
}

/// No POST comes here: those that can be decoded are taken before, and the others refused. These routes tell other
/// methods that they are not allowed.
async fn unreachable() -> Response {
    into_axum(error::not_found())
}

async fn server(State(context): State<Context>) -> Response {
    let Config { server_name, server_version, .. } = &context.app.config;
    ok(metadata::server(server_name, server_version, &context.extensions()))
}

async fn live() -> Response {
    ok(metadata::live(true))
}

async fn ready(State(context): State<Context>) -> Response {
    match context.app.not_ready() {
        None => ok(metadata::ready(None)),
        Some(reason) => into_axum(error::json(503, metadata::ready(Some(reason)))),
    }
}

pub(super) async fn models(State(context): State<Context>) -> Response {
    let models = context.app.registry.all();
    // An explainer's name has a colon. It is listed by the model that it explains.
    let mut names: Vec<&str> =
        models.iter().map(|model| &*model.spec().name).filter(|name| !name.contains(':')).collect();
    names.dedup();
    ok(metadata::models(&names))
}

/// The `{model}` and `{version}` of a path; the version is absent in half of the routes.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Named {
    pub(super) model: String,
    pub(super) version: Option<String>,
}

fn find(context: &Context, named: &Named) -> Result<Arc<Model>> {
    context.app.registry.find(&named.model, named.version.as_deref())
}

async fn model(State(context): State<Context>, Path(named): Path<Named>) -> Response {
    let metadata = find(&context, &named).map(|model| {
        let versions = match &named.version {
            Some(version) => vec![Arc::from(version.as_str())],
            None => context.app.registry.ready_versions(&named.model),
        };
        metadata::model(model.spec(), &versions.iter().map(|version| &**version).collect::<Vec<_>>())
    });
    answer(&context, metadata)
}

async fn config(State(context): State<Context>, Path(named): Path<Named>) -> Response {
    answer(&context, find(&context, &named).map(|model| penstock_wire::rest::config::model(model.spec())))
}

async fn model_ready(State(context): State<Context>, Path(named): Path<Named>) -> Response {
    let reason = match context.app.registry.why_not_ready(&named.model, named.version.as_deref()) {
        Ok(reason) => reason,
        Err(error) => return answer(&context, Err(error)),
    };
    readiness(&context, &named.model, reason.as_deref())
}

/// Whether a model takes requests; `reason` says why not.
pub(super) fn readiness(context: &Context, model: &str, reason: Option<&str>) -> Response {
    let draining = context.app.phase() == Phase::Draining;
    let reason = if draining { Some("the server is shutting down") } else { reason };
    let body = metadata::model_ready(model, reason);
    into_axum(error::json(if reason.is_none() { 200 } else { 503 }, body))
}

async fn metrics(State(context): State<Context>) -> Response {
    let kind = [("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (StatusCode::OK, kind, context.app.exposition()).into_response()
}

pub(super) fn answer(context: &Context, result: Result<Vec<u8>>) -> Response {
    match result {
        Ok(body) => ok(body),
        Err(error) => into_axum(error::response(&context.app, &error)),
    }
}

pub(super) fn ok(body: Vec<u8>) -> Response {
    into_axum(error::json(200, body))
}

pub(super) fn into_axum(response: http::Response<Body>) -> Response {
    response.map(axum::body::Body::new)
}
