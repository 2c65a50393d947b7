//! Refusals of CUDA shared memory: this server has no GPU support.

use penstock_core::{Error, Kind};

/// Why a CUDA region cannot be registered.
pub(crate) fn no_gpu() -> Error {
    Error::invalid("CUDA shared memory cannot be registered: this server has no GPU support")
}

/// Why a CUDA region has no status.
pub(crate) fn no_cuda_region(region: &str) -> Error {
    Error::new(Kind::NotFound, format!("CUDA shared memory region '{region}' is not registered"))
}
