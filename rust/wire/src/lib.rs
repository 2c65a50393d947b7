//! Bytes to core types and back. Sans-IO: nothing here knows a socket.
#![forbid(unsafe_code)]

pub mod cached;
mod call;
pub mod coding;
mod declared;
mod decoded;
mod float;
pub mod generated;
pub mod grpc;
mod limits;
pub mod logging;
mod number;
pub mod openapi;
mod repository;
pub mod rest;
mod schedule;
mod settings;
mod shared;
pub mod trace;

pub use call::{Answer, Call, Named};
pub use decoded::Decoded;
pub use limits::Limits;
pub use repository::{Load, named_repository};
pub use shared::{Shared, SharedInput, SharedOutput, Span};
