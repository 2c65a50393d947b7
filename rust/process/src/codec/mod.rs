//! Codec: batches and responses as bytes, with their tensors in shared memory.

pub(crate) mod batch;
pub(crate) mod fields;
pub(crate) mod raw_request;
pub(crate) mod response;
pub(crate) mod tensors;
pub(crate) mod user_metrics;
