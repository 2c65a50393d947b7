//! Refusals of CUDA shared memory: this server has no GPU support.

use penstock_core::{Error, Kind};

/// Error of a registration.
pub(crate) fn no_gpu() -> Error {
    Error::invalid("CUDA shared memory cannot be registered: this server has no GPU support")
}

/// Error of a status request.
pub(crate) fn no_cuda_region(region: &str) -> Error {
    Error::new(Kind::NotFound, format!("CUDA shared memory region '{region}' is not registered"))
}
