//! `/v2/systemsharedmemory` and `/v2/cudasharedmemory`.

use crate::{
    rest::{
        codec::receive::receive_small,
        router::{answer, ok},
    },
    shared_memory::{no_cuda_region, no_gpu},
    state::Context,
};
use axum::{
    Router,
    body::Body,
    extract::{Path, State},
    http::HeaderMap,
    response::Response,
    routing::{get, post},
};
use penstock_core::Result;
use penstock_wire::rest::shared_memory as wire;

/// The body of answers that only say that it is done.
const NOTHING: &[u8] = b"{}";

pub(crate) fn routes() -> Router<Context> {
    Router::new()
        .route("/v2/systemsharedmemory/status", get(status_of_all))
        .route("/v2/systemsharedmemory/unregister", post(unregister_all))
        .route("/v2/systemsharedmemory/region/{region}/status", get(status))
        .route("/v2/systemsharedmemory/region/{region}/register", post(register))
        .route("/v2/systemsharedmemory/region/{region}/unregister", post(unregister))
        .route("/v2/cudasharedmemory/status", get(async || ok(wire::status(&[]))))
        .route("/v2/cudasharedmemory/unregister", post(async || ok(NOTHING.to_vec())))
        .route("/v2/cudasharedmemory/region/{region}/status", get(cuda_status))
        .route("/v2/cudasharedmemory/region/{region}/register", post(cuda_register))
        .route("/v2/cudasharedmemory/region/{region}/unregister", post(async || ok(NOTHING.to_vec())))
}

async fn status_of_all(State(context): State<Context>) -> Response {
    answer(&context, shown(&context, None))
}

async fn status(State(context): State<Context>, Path(region): Path<String>) -> Response {
    answer(&context, shown(&context, Some(&region)))
}

fn shown(context: &Context, region: Option<&str>) -> Result<Vec<u8>> {
    Ok(wire::status(&context.regions()?.status(region)?))
}

async fn register(
    State(context): State<Context>,
    Path(region): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let registered = async {
        let regions = context.regions()?;
        let body = receive_small(&context, &headers, body).await?;
        regions.register(wire::registration(region, &body)?)
    };
    answer(&context, registered.await.map(|()| NOTHING.to_vec()))
}

async fn unregister_all(State(context): State<Context>) -> Response {
    answer(&context, forgotten(&context, None))
}

async fn unregister(State(context): State<Context>, Path(region): Path<String>) -> Response {
    answer(&context, forgotten(&context, Some(&region)))
}

fn forgotten(context: &Context, region: Option<&str>) -> Result<Vec<u8>> {
    context.regions()?.unregister(region);
    Ok(NOTHING.to_vec())
}

async fn cuda_status(State(context): State<Context>, Path(region): Path<String>) -> Response {
    answer(&context, Err(no_cuda_region(&region)))
}

async fn cuda_register(State(context): State<Context>) -> Response {
    answer(&context, Err(no_gpu()))
}
