//! The model repository: its index, loading and unloading.

use crate::{body::offload, rest::handler::PathParams, settings::Action, state::Context};
use bytes::Bytes;
use penstock_core::Result;
use penstock_wire::{named_repository, rest::repository as wire};

/// `POST /v2/repository/index`.
pub(crate) fn index(context: &Context, _: &PathParams, body: &[u8]) -> Result<Vec<u8>> {
    Ok(wire::index(&context.models().index(), wire::ready(body)?))
}

/// `POST /v2/repository/models/{model}/load`.
pub(crate) async fn load(context: &Context, params: &PathParams, body: Bytes) -> Result<Vec<u8>> {
    let load = offload::run(body.len(), move || wire::load(&body)).await?;
    context.models().check(params.model())?;
    context.app.control(params.model(), Action::Load(load)).await?;
    Ok(wire::done(params.model(), "load"))
}

/// `POST /v2/repository/models/{model}/unload`.
pub(crate) async fn unload(context: &Context, params: &PathParams, body: Bytes) -> Result<Vec<u8>> {
    wire::unload(&body)?;
    context.models().check(params.model())?;
    context.app.control(params.model(), Action::Unload).await?;
    Ok(wire::done(params.model(), "unload"))
}

/// Refuses a request for one of several repositories.
pub(crate) fn named(_: &Context, params: &PathParams, _: &[u8]) -> Result<Vec<u8>> {
    Err(named_repository(params.get("repository").unwrap_or_default()))
}
