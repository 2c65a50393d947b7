//! gRPC: `inference.GRPCInferenceService`, `grpc.health.v1.Health` and `grpc.reflection`.
//!
//! Calls are read and answered here, so that tensor bytes are copied once, and so that messages are inflated, counted
//! and decoded within the server's limits. Reflection goes through tonic.

mod dispatch;
mod frames;
mod health;
mod infer;
mod reflection;
mod repository;
mod respond;
mod settings;
mod shared_memory;
mod statistics;
mod status;
mod stream;
mod stream_read;
mod stream_reply;
mod stream_shared_memory;
mod unary;

pub(crate) use dispatch::{call, check_access, is_grpc, refusal};
pub(crate) use reflection::router;
