//! The index, and the calls that load and unload models.

use super::{service::Answered, status::status};
use crate::{
    control::{Action, ask},
    front::Context,
};
use penstock_core::Result;
use penstock_wire::{generated::inference as pb, grpc::repository as wire};
use tonic::Response;

pub(super) fn index(context: &Context, request: &pb::RepositoryIndexRequest) -> Answered<pb::RepositoryIndexResponse> {
    answered(context, wire::index(request, &context.app.registry.index()))
}

pub(super) async fn load(
    context: &Context,
    request: pb::RepositoryModelLoadRequest,
) -> Answered<pb::RepositoryModelLoadResponse> {
    let loaded = async {
        let (model_name, load) = wire::load(request)?;
        ask(&context.app, &model_name, Action::Load(load)).await?;
        Ok(pb::RepositoryModelLoadResponse { model_name, is_loaded: true })
    };
    answered(context, loaded.await)
}

pub(super) async fn unload(
    context: &Context,
    request: pb::RepositoryModelUnloadRequest,
) -> Answered<pb::RepositoryModelUnloadResponse> {
    let unloaded = async {
        let model_name = wire::unload(request)?;
        ask(&context.app, &model_name, Action::Unload).await?;
        Ok(pb::RepositoryModelUnloadResponse { model_name, is_unloaded: true })
    };
    answered(context, unloaded.await)
}

fn answered<T>(context: &Context, result: Result<T>) -> Answered<T> {
    result.map(Response::new).map_err(|error| status(&context.app, &error))
}
