//! Wire formats: bytes to core types and back. Sans-IO: no sockets.
#![forbid(unsafe_code)]

pub mod cache_entry;
mod client_types;
pub mod coding;
pub mod generated;
pub mod grpc;
mod json;
pub mod openapi;
mod parameters;
mod repository;
mod request;
mod request_schema;
pub mod rest;
pub mod settings;
mod shared_memory;

pub use client_types::{ClientRequest, ClientResponse, NamedTensor};
pub use repository::{LoadRequest, named_repository};
pub use request::{DecodedRequest, Limits};
pub use shared_memory::{RegionSlice, SharedInput, SharedOutput, SharedTensors};
