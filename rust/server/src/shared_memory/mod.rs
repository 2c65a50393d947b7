//! System shared memory that clients on this machine register: tensors that no socket carries.
//!
//! The objects are read and written, never mapped. A client may shrink its object at any time; a page
//! that is gone under a mapping would kill the server, whereas a read is an error of one request. A
//! mapping would save nothing: inputs are copied into memory of their own anyway, or their client could
//! change them under the handler.

mod cuda;
mod key;
mod region;
mod regions;

pub(crate) use cuda::{no_cuda_region, no_gpu};
pub(crate) use region::Region;
pub(crate) use regions::Regions;
