//! System shared memory that clients on this machine register: tensors that no socket carries.
//!
//! The objects are read and written, never mapped. A client may shrink its object at any time. Access to a mapped page
//! that is gone would kill the server, whereas a failed read is an error of one request.
//! A mapping would save nothing: inputs are copied anyway, because their client could
//! change them while the handler runs.

mod cuda;
mod key;
mod region;
mod regions;

pub(crate) use cuda::{no_cuda_region, no_gpu};
pub(crate) use region::Region;
pub(crate) use regions::Regions;
