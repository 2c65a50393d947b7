//! The settings that can be read and changed while the server runs: of its log, and of tracing.

use crate::{
    rest::{codec::receive::receive_small, error, router::ok},
    settings::LogLevel,
    state::Context,
};
use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
    routing::get,
};
use penstock_core::Result;

pub(crate) fn routes() -> Router<Context> {
    Router::new()
        .route("/v2/logging", get(logging).post(set_logging))
        .route("/v2/trace/setting", get(trace).post(set_trace))
        .route("/v2/models/{model}/trace/setting", get(model_trace).post(set_model_trace))
}

async fn logging(State(context): State<Context>) -> Response {
    ok(context.app.log.settings().json())
}

async fn set_logging(State(context): State<Context>, headers: HeaderMap, body: Body) -> Response {
    let log = &context.app.log;
    let body = receive_small(&context, &headers, body).await;
    let changed = body.and_then(|body| log.change(|settings| settings.changed_by_json(&body)));
    let answer = changed.map(|settings| {
        log.say(LogLevel::Info, "the log settings were changed");
        settings.json()
    });
    respond(&context, answer)
}

async fn trace(State(context): State<Context>) -> Response {
    respond(&context, traced(&context, None, &[]))
}

async fn set_trace(State(context): State<Context>, headers: HeaderMap, body: Body) -> Response {
    let body = receive_small(&context, &headers, body).await;
    respond(&context, body.and_then(|body| traced(&context, None, &body)))
}

async fn model_trace(State(context): State<Context>, Path(model): Path<String>) -> Response {
    respond(&context, traced(&context, Some(&model), &[]))
}

async fn set_model_trace(
    State(context): State<Context>,
    Path(model): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let body = receive_small(&context, &headers, body).await;
    respond(&context, body.and_then(|body| traced(&context, Some(&model), &body)))
}

fn traced(context: &Context, model: Option<&str>, body: &[u8]) -> Result<Vec<u8>> {
    let app = &context.app;
    let model = model.map(|name| app.registry.find(name, None)).transpose()?;
    let name = model.map(|model| model.spec().name.clone());
    let (settings, server) = app.trace.update(name, |settings| settings.changed_by_json(body))?;
    Ok(settings.json(&server))
}

fn respond(context: &Context, answer: Result<Vec<u8>>) -> Response {
    match answer {
        Ok(body) => ok(body),
        Err(refusal) => error::response(&context.app, &refusal).map(axum::body::Body::new),
    }
}
