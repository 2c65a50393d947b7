//! Codec: descriptions of batches and responses, with their tensors in shared memory.
//!
//! # Rationale
//! A region holds a description, encoded by postcard, and then the tensors, each aligned. Each message has a mirror
//! struct here that borrows from core's types to encode, and from the description to decode, so that core does not
//! depend on serde. Both ends come from one wheel, so the format has no versions.
//!
//! # Limitations
//! The other end may be broken. A description is copied out of the region before it is decoded. Decoding allocates in
//! proportion to the description, and nested parameters have a depth limit.

pub(crate) mod batch;
mod client;
pub(crate) mod raw_request;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod tensors;
pub(crate) mod user_metrics;
pub(crate) mod values;
