//! `SystemSharedMemory*` and `CudaSharedMemory*`.

use crate::{
    shared_memory::{no_cuda_region, no_gpu},
    state::Context,
};
use penstock_core::Result;
use penstock_wire::{
    generated::inference::{self as pb, system_shared_memory_status_response::RegionStatus},
    rest::shared_memory::Region,
};

pub(super) fn status(
    context: &Context,
    request: &pb::SystemSharedMemoryStatusRequest,
) -> Result<pb::SystemSharedMemoryStatusResponse> {
    let regions = context.regions()?.status(named(&request.name))?;
    let status =
        |Region { name, key, offset, byte_size }: Region| (name.clone(), RegionStatus { name, key, offset, byte_size });
    Ok(pb::SystemSharedMemoryStatusResponse { regions: regions.into_iter().map(status).collect() })
}

pub(super) fn register(
    context: &Context,
    request: pb::SystemSharedMemoryRegisterRequest,
) -> Result<pb::SystemSharedMemoryRegisterResponse> {
    let pb::SystemSharedMemoryRegisterRequest { name, key, offset, byte_size } = request;
    context.regions()?.register(Region { name, key, offset, byte_size })?;
    Ok(pb::SystemSharedMemoryRegisterResponse {})
}

pub(super) fn unregister(
    context: &Context,
    request: &pb::SystemSharedMemoryUnregisterRequest,
) -> Result<pb::SystemSharedMemoryUnregisterResponse> {
    context.regions()?.unregister(named(&request.name));
    Ok(pb::SystemSharedMemoryUnregisterResponse {})
}

pub(super) fn cuda_status(request: &pb::CudaSharedMemoryStatusRequest) -> Result<pb::CudaSharedMemoryStatusResponse> {
    named(&request.name).map_or_else(|| Ok(Default::default()), |name| Err(no_cuda_region(name)))
}

pub(super) fn cuda_register() -> Result<pb::CudaSharedMemoryRegisterResponse> {
    Err(no_gpu())
}

/// Confirms: there is no region.
pub(super) fn cuda_unregister() -> Result<pb::CudaSharedMemoryUnregisterResponse> {
    Ok(pb::CudaSharedMemoryUnregisterResponse {})
}

/// Returns a name; an empty one stands for all regions.
fn named(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}
