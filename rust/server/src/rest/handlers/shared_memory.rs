//! `/v2/systemsharedmemory` and `/v2/cudasharedmemory`.

use crate::{
    body::Body,
    rest::{error, handler::PathParams},
    shared_memory::{no_cuda_region, no_gpu},
    state::Context,
};
use http::Response;
use penstock_core::Result;
use penstock_wire::rest::shared_memory as wire;

/// The body of a response that only confirms.
const NOTHING: &[u8] = b"{}";

/// `GET /v2/systemsharedmemory[/region/{region}]/status`.
pub(crate) fn status(context: &Context, params: &PathParams) -> Result<Response<Body>> {
    Ok(error::json(200, wire::status(&context.regions()?.status(params.get("region"))?)))
}

/// Refuses registrations where the settings do not allow shared memory.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check_enabled(context: &Context) -> Result<()> {
    context.regions().map(drop)
}

/// `POST /v2/systemsharedmemory/region/{region}/register`.
pub(crate) fn register(context: &Context, params: &PathParams, body: &[u8]) -> Result<Vec<u8>> {
    let region = params.get("region").unwrap_or_default().to_owned();
    context.regions()?.register(wire::registration(region, body)?)?;
    Ok(NOTHING.to_vec())
}

/// `POST /v2/systemsharedmemory[/region/{region}]/unregister`.
pub(crate) fn unregister(context: &Context, params: &PathParams, _: &[u8]) -> Result<Vec<u8>> {
    context.regions()?.unregister(params.get("region"));
    Ok(NOTHING.to_vec())
}

/// `GET /v2/cudasharedmemory[/region/{region}]/status`: there are no regions.
pub(crate) fn cuda_status(_: &Context, params: &PathParams) -> Result<Response<Body>> {
    match params.get("region") {
        None => Ok(error::json(200, wire::status(&[]))),
        Some(region) => Err(no_cuda_region(region)),
    }
}

/// `POST /v2/cudasharedmemory/region/{region}/register`.
pub(crate) fn cuda_register(_: &Context, _: &PathParams, _: &[u8]) -> Result<Vec<u8>> {
    Err(no_gpu())
}

/// `POST /v2/cudasharedmemory[/region/{region}]/unregister`: confirms, for clients that clean up on every server.
pub(crate) fn cuda_unregister(_: &Context, _: &PathParams, _: &[u8]) -> Result<Vec<u8>> {
    Ok(NOTHING.to_vec())
}
