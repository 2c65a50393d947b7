//! How models batch: `/debug/batching`, and a model's knobs while it serves.

use crate::{
    rest::{
        codec::receive::receive_small,
        router::{Named, answer},
    },
    settings::BatchingDebug,
    state::Context,
};
use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    response::Response,
    routing::{get, post},
};
use http::HeaderMap;
use penstock_core::{Error, Kind};
use penstock_wire::rest::batching as wire;

pub(crate) fn routes() -> Router<Context> {
    Router::new()
        .route("/debug/batching", get(debug))
        .route("/v2/models/{model}/batching", post(change))
        .route("/v2/models/{model}/versions/{version}/batching", post(change))
}

async fn debug(State(context): State<Context>) -> Response {
    let shown = match context.app.config.batching_debug {
        BatchingDebug::Off => Err(off("/debug/batching is off")),
        BatchingDebug::Read | BatchingDebug::Change => Ok(wire::debug(&context.app.registry.all())),
    };
    answer(&context, shown)
}

async fn change(State(context): State<Context>, Path(named): Path<Named>, headers: HeaderMap, body: Body) -> Response {
    let changed = async {
        if context.app.config.batching_debug != BatchingDebug::Change {
            return Err(off("changing how models batch is off"));
        }
        let _guard = context.app.enter()?;
        let body = receive_small(&context, &headers, body).await?;
        let knobs = wire::knobs(&body)?;
        let model = context.app.registry.find(&named.model, named.version.as_deref())?;
        model.queue().tune(&knobs)?;
        Ok(wire::changed(&model))
    };
    answer(&context, changed.await)
}

fn off(what: &str) -> Error {
    Error::new(Kind::Unsupported, format!("{what}, as the server's setting 'batching_debug' has it"))
}
