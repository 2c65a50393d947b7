//! What models have done: all of them, or the versions of one.

use crate::{
    rest::{error, router::ok},
    state::Context,
};
use axum::{
    Router,
    extract::{Path, State},
    response::Response,
    routing::get,
};
use penstock_wire::rest::statistics;

pub(crate) fn routes() -> Router<Context> {
    Router::new()
        .route("/v2/models/stats", get(all))
        .route("/v2/models/{model}/stats", get(versions))
        .route("/v2/models/{model}/versions/{version}/stats", get(version))
}

async fn all(State(context): State<Context>) -> Response {
    ok(statistics(&context.app.registry.all()))
}

async fn versions(State(context): State<Context>, Path(model): Path<String>) -> Response {
    answer(&context, &model, None)
}

async fn version(State(context): State<Context>, Path((model, version)): Path<(String, String)>) -> Response {
    answer(&context, &model, Some(&version))
}

fn answer(context: &Context, model: &str, version: Option<&str>) -> Response {
    match context.app.registry.select(model, version) {
        Ok(models) => ok(statistics(&models)),
        Err(refusal) => error::response(&context.app, &refusal).map(axum::body::Body::new),
    }
}
