//! `RepositoryIndex`, `RepositoryModelLoad` and `RepositoryModelUnload`.

use crate::{settings::Action, state::Context};
use penstock_core::Result;
use penstock_wire::{generated::inference as pb, grpc::repository as wire};

pub(super) fn index(context: &Context, request: &pb::RepositoryIndexRequest) -> Result<pb::RepositoryIndexResponse> {
    wire::index(request, &context.app.registry.index())
}

pub(super) async fn load(
    context: &Context,
    request: pb::RepositoryModelLoadRequest,
) -> Result<pb::RepositoryModelLoadResponse> {
    let (model_name, load) = wire::load(request)?;
    context.app.control(&model_name, Action::Load(load)).await?;
    Ok(pb::RepositoryModelLoadResponse { model_name, is_loaded: true })
}

pub(super) async fn unload(
    context: &Context,
    request: pb::RepositoryModelUnloadRequest,
) -> Result<pb::RepositoryModelUnloadResponse> {
    let model_name = wire::unload(request)?;
    context.app.control(&model_name, Action::Unload).await?;
    Ok(pb::RepositoryModelUnloadResponse { model_name, is_unloaded: true })
}
