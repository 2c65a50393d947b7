//! The model repository: its index, and the routes that load and unload models.

use crate::{
    body::offload,
    rest::{
        codec::receive::{receive_small, receive_whole},
        error,
        router::{answer, into_axum},
    },
    settings::Action,
    state::Context,
};
use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    response::Response,
    routing::post,
};
use http::HeaderMap;
use penstock_core::{Result, footprint};
use penstock_wire::{named_repository, rest::repository as wire};

/// The protocol's routes for one of several repositories. They are not served, and say why.
const NAMED: [&str; 3] = [
    "/v2/repository/{repository}/index",
    "/v2/repository/{repository}/models/{model}/load",
    "/v2/repository/{repository}/models/{model}/unload",
];

pub(crate) fn routes() -> Router<Context> {
    let served = Router::new()
        .route("/v2/repository/index", post(index))
        .route("/v2/repository/models/{model}/load", post(load))
        .route("/v2/repository/models/{model}/unload", post(unload));
    NAMED.into_iter().fold(served, |router, path| router.route(path, post(named)))
}

async fn index(State(context): State<Context>, headers: HeaderMap, body: Body) -> Response {
    let found = async {
        let body = receive(&context, &headers, body).await?;
        Ok(wire::index(&context.app.registry.index(), wire::ready(&body)?))
    };
    answer(&context, found.await)
}

async fn load(State(context): State<Context>, Path(model): Path<String>, headers: HeaderMap, body: Body) -> Response {
    let loaded = async {
        let mut guard = context.app.enter()?;
        // A model's files may be in it.
        let body = receive_whole(&headers, body, &context.app.config.limits, guard.held()).await?;
        guard.hold_at_least(body.len() + footprint::of_json(&body))?;
        let load = offload::run(body.len(), move || wire::load(&body)).await?;
        context.app.control(&model, Action::Load(load)).await?;
        Ok(wire::done(&model, "load"))
    };
    answer(&context, loaded.await)
}

async fn unload(State(context): State<Context>, Path(model): Path<String>, headers: HeaderMap, body: Body) -> Response {
    let unloaded = async {
        wire::unload(&receive(&context, &headers, body).await?)?;
        context.app.control(&model, Action::Unload).await?;
        Ok(wire::done(&model, "unload"))
    };
    answer(&context, unloaded.await)
}

async fn named(State(context): State<Context>, Path(named): Path<Vec<(String, String)>>) -> Response {
    let repository = named.first().map_or("", |(_, repository)| repository);
    into_axum(error::response(&context.app, &named_repository(repository)))
}

async fn receive(context: &Context, headers: &HeaderMap, body: Body) -> Result<bytes::Bytes> {
    let _guard = context.app.enter()?;
    receive_small(context, headers, body).await
}
