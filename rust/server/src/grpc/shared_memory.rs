//! `SystemSharedMemory*` and `CudaSharedMemory*`.

use super::status::status as refusal;
use crate::{
    front::Context,
    rest::{no_cuda_region, no_gpu},
};
use penstock_core::Result;
use penstock_wire::{
    generated::inference::{self as pb, system_shared_memory_status_response::RegionStatus},
    rest::shared_memory::Region,
};
use tonic::{Response, Status};

type Answered<T> = std::result::Result<Response<T>, Status>;

pub(super) fn status(
    context: &Context,
    request: &pb::SystemSharedMemoryStatusRequest,
) -> Answered<pb::SystemSharedMemoryStatusResponse> {
    let regions = context.regions().and_then(|regions| regions.status(named(&request.name)));
    let status =
        |Region { name, key, offset, byte_size }: Region| (name.clone(), RegionStatus { name, key, offset, byte_size });
    let regions = regions.map(|regions| regions.into_iter().map(status).collect());
    answered(context, regions.map(|regions| pb::SystemSharedMemoryStatusResponse { regions }))
}

pub(super) fn register(
    context: &Context,
    request: pb::SystemSharedMemoryRegisterRequest,
) -> Answered<pb::SystemSharedMemoryRegisterResponse> {
    let pb::SystemSharedMemoryRegisterRequest { name, key, offset, byte_size } = request;
    let registered = context.regions().and_then(|regions| regions.register(Region { name, key, offset, byte_size }));
    answered(context, registered.map(|()| pb::SystemSharedMemoryRegisterResponse {}))
}

pub(super) fn unregister(
    context: &Context,
    request: &pb::SystemSharedMemoryUnregisterRequest,
) -> Answered<pb::SystemSharedMemoryUnregisterResponse> {
    let forgotten = context.regions().map(|regions| regions.unregister(named(&request.name)));
    answered(context, forgotten.map(|()| pb::SystemSharedMemoryUnregisterResponse {}))
}

pub(super) fn cuda_status(
    context: &Context,
    request: &pb::CudaSharedMemoryStatusRequest,
) -> Answered<pb::CudaSharedMemoryStatusResponse> {
    let status = named(&request.name).map_or_else(|| Ok(Default::default()), |name| Err(no_cuda_region(name)));
    answered(context, status)
}

pub(super) fn cuda_register(context: &Context) -> Answered<pb::CudaSharedMemoryRegisterResponse> {
    answered(context, Err(no_gpu()))
}

/// There is none, and so none is left.
pub(super) fn cuda_unregister() -> Answered<pb::CudaSharedMemoryUnregisterResponse> {
    Ok(Response::new(pb::CudaSharedMemoryUnregisterResponse {}))
}

/// An empty name stands for all regions.
fn named(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

fn answered<T>(context: &Context, result: Result<T>) -> Answered<T> {
    result.map(Response::new).map_err(|error| refusal(&context.app, &error))
}
